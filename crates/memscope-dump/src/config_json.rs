//! `config.json`: how the run was configured, in the keys and numbers its readers know.
//!
//! It is made from the settings the recorder was started with, which the recording keeps; so an export made later,
//! elsewhere, still tells what was asked for.
use serde::Serialize;
use std::io;

/// Looks a setting up by its key.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// What the recorder was told. A key that is absent or unreadable counts as 0: this file informs, and a recording is
/// not refused for it.
#[derive(Clone, Copy)]
pub struct RunConfig<'a> {
    setting: Lookup<'a>,
}

impl<'a> RunConfig<'a> {
    pub fn new(setting: Lookup<'a>) -> RunConfig<'a> {
        RunConfig { setting }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        (self.setting)(key)
    }

    fn number(&self, key: &str) -> u64 {
        self.get(key).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    fn json(&self) -> ConfigJson<'a> {
        let npu = self.get("npu").and_then(|mask| u32::from_str_radix(mask, 16).ok()).unwrap_or(0);
        let steps: Vec<u32> =
            self.get("steps").unwrap_or_default().split('+').filter_map(|step| step.parse().ok()).collect();
        ConfigJson {
            enable_c_stack: self.number("c") > 0,
            enable_py_stack: self.number("py") > 0,
            enable_compare: false,
            c_stack_depth: self.number("c"),
            py_stack_depth: self.number("py"),
            level_type: self.number("level"),
            event_type: self.number("events"),
            dump_event_type: self.number("dump"),
            analysis_type: self.number("analysis"),
            oom_top_k: self.number("oomk"),
            collect_mode: self.number("mode"),
            output_dir: self.get("dir").unwrap_or_default(),
            data_format: self.number("format"),
            collect_all_npu: npu == u32::MAX,
            collect_cpu: self.number("cpu") > 0,
            npu_slots: npu,
            log_level: self.number("log"),
            is_effective: true,
            selected_step_list: SelectedSteps::of(&steps),
            watch_config: WatchConfig::of(self.get("watch").unwrap_or_default()),
        }
    }

    /// The file's content.
    pub fn to_json(&self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        self.json().serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter))?;
        out.push(b'\n');
        Ok(out)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigJson<'a> {
    #[serde(rename = "enableCStack")]
    enable_c_stack: bool,
    enable_py_stack: bool,
    enable_compare: bool,
    #[serde(rename = "cStackDepth")]
    c_stack_depth: u64,
    py_stack_depth: u64,
    /// Bits: 1 op, 2 kernel.
    level_type: u64,
    event_type: u64,
    dump_event_type: u64,
    /// Bits: 1 leaks, 2 decompose, 4 inefficient, 8 oom.
    analysis_type: u64,
    oom_top_k: u64,
    collect_mode: u64,
    output_dir: &'a str,
    data_format: u64,
    collect_all_npu: bool,
    collect_cpu: bool,
    npu_slots: u32,
    log_level: u64,
    is_effective: bool,
    #[serde(rename = "SelectedStepList")]
    selected_step_list: SelectedSteps,
    watch_config: WatchConfig,
}

/// The list has five places, unused ones are 0; a run with more steps makes it longer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SelectedSteps {
    step_id_list: Vec<u32>,
    step_count: usize,
}

impl SelectedSteps {
    fn of(steps: &[u32]) -> SelectedSteps {
        const PLACES: usize = 5;
        let mut step_id_list = steps.to_vec();
        step_id_list.resize(PLACES.max(steps.len()), 0);
        SelectedSteps { step_id_list, step_count: steps.len() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WatchConfig {
    is_watched: bool,
    full_content: bool,
    start: String,
    end: String,
    output_id: u32,
}

impl WatchConfig {
    /// From the option's own notation, `start[:output],end[,full-content]`.
    fn of(option: &str) -> WatchConfig {
        const NO_OUTPUT: u32 = u32::MAX;
        let mut parts = option.split(',');
        let first = parts.next().unwrap_or_default();
        let end = parts.next().unwrap_or_default();
        // A double colon belongs to the name, as in `aten::add`.
        let (start, output_id) = match first.rsplit_once(':') {
            Some((name, output)) if !name.ends_with(':') => {
                output.parse().map_or((first, NO_OUTPUT), |output| (name, output))
            }
            _ => (first, NO_OUTPUT),
        };
        WatchConfig {
            is_watched: !option.is_empty(),
            full_content: parts.next() == Some("full-content"),
            start: start.to_owned(),
            end: end.to_owned(),
            output_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(settings: &[(&str, &str)]) -> String {
        let lookup = |key: &str| settings.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        String::from_utf8(RunConfig::new(&lookup).to_json().unwrap()).unwrap()
    }

    #[test]
    fn every_key_has_its_number() {
        let expected = r#"{
    "enableCStack": true,
    "enablePyStack": false,
    "enableCompare": false,
    "cStackDepth": 50,
    "pyStackDepth": 0,
    "levelType": 1,
    "eventType": 7,
    "dumpEventType": 3,
    "analysisType": 9,
    "oomTopK": 10,
    "collectMode": 1,
    "outputDir": "/tmp/a;dir=\"b\"",
    "dataFormat": 1,
    "collectAllNpu": false,
    "collectCpu": true,
    "npuSlots": 5,
    "logLevel": 2,
    "isEffective": true,
    "SelectedStepList": {
        "stepIdList": [
            3,
            8,
            0,
            0,
            0
        ],
        "stepCount": 2
    },
    "watchConfig": {
        "isWatched": true,
        "fullContent": true,
        "start": "aten::add;",
        "end": "end%",
        "outputId": 4
    }
}
"#;
        let settings = [
            ("v", "1"),
            ("run", "7"),
            ("brand", "msmemscope"),
            ("utc", "-12600"),
            ("c", "50"),
            ("py", "0"),
            ("cpu", "1"),
            ("npu", "5"),
            ("level", "1"),
            ("events", "7"),
            ("dump", "3"),
            ("analysis", "9"),
            ("oomk", "10"),
            ("mode", "1"),
            ("steps", "3+8"),
            ("format", "1"),
            ("log", "2"),
            ("watch", "aten::add;:4,end%,full-content"),
            ("dir", "/tmp/a;dir=\"b\""),
        ];
        assert_eq!(json(&settings), expected);
    }

    #[test]
    fn without_watch_there_is_no_output_id_and_nothing_is_watched() {
        let text = json(&[("npu", "ffffffff"), ("watch", "")]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["watchConfig"]["outputId"], 4_294_967_295u64);
        assert_eq!(json["watchConfig"]["isWatched"], false);
        assert_eq!((&json["collectAllNpu"], &json["npuSlots"]), (&true.into(), &4_294_967_295u64.into()));
    }

    #[test]
    fn a_name_with_a_double_colon_keeps_it() {
        let watch = WatchConfig::of("aten::add,aten::mul");
        assert_eq!((watch.start.as_str(), watch.end.as_str(), watch.full_content), ("aten::add", "aten::mul", false));
        assert_eq!(watch.output_id, u32::MAX);
    }

    #[test]
    fn damaged_settings_still_make_a_file() {
        let text = json(&[("c", "x"), ("npu", "zz"), ("steps", "+1++x"), ("watch", ",,,:")]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["enableCStack"], &json["npuSlots"]), (&false.into(), &0.into()));
        assert_eq!(json["SelectedStepList"]["stepCount"], 1);
    }
}
