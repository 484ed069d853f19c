//! `config.json`: how the run was configured, in the keys and numbers its readers know.
//!
//! It is made from the settings the recorder was started with, which the recording keeps; so an export made later,
//! elsewhere, still tells what was asked for.
use memscope_model::RecordSettings;
use memscope_model::record_settings::Mask;
use serde::Serialize;
use std::borrow::Cow;
use std::io;

/// What the recorder was told. What is absent or unreadable counts as 0: this file informs, and a recording is not refused
/// for it.
#[derive(Clone, Copy)]
pub struct RunConfig<'a> {
    settings: RecordSettings<'a>,
}

impl<'a> RunConfig<'a> {
    pub fn new(settings: RecordSettings<'a>) -> RunConfig<'a> {
        RunConfig { settings }
    }

    fn json(&self) -> ConfigJson<'a> {
        let settings = &self.settings;
        let npu = settings.npus.unwrap_or(Mask::NONE);
        let steps: Vec<u32> = settings.steps.iter().flat_map(|steps| steps.iter()).collect();
        ConfigJson {
            enable_c_stack: settings.c_depth.unwrap_or(0) > 0,
            enable_py_stack: settings.python_depth.unwrap_or(0) > 0,
            enable_compare: false,
            c_stack_depth: settings.c_depth.unwrap_or(0),
            py_stack_depth: settings.python_depth.unwrap_or(0),
            level_type: settings.level.unwrap_or(0),
            event_type: settings.events.unwrap_or(0),
            dump_event_type: settings.dump.unwrap_or(0),
            analysis_type: settings.analysis.unwrap_or(0),
            oom_top_k: settings.oom_holders.unwrap_or(0),
            collect_mode: settings.deferred.unwrap_or(false).into(),
            output_dir: String::from_utf8_lossy(settings.dir.unwrap_or_default()),
            data_format: settings.data_format.unwrap_or(0),
            collect_all_npu: npu == Mask::ALL,
            collect_cpu: settings.cpu.unwrap_or(false),
            npu_slots: npu.0,
            log_level: settings.log_level.unwrap_or(0),
            is_effective: true,
            selected_step_list: SelectedSteps::of(&steps),
            watch_config: WatchConfig::of(&settings.watch.map(|watch| watch.to_string()).unwrap_or_default()),
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
    c_stack_depth: u32,
    py_stack_depth: u32,
    /// Bits: 1 op, 2 kernel.
    level_type: u8,
    event_type: u8,
    dump_event_type: u8,
    /// Bits: 1 leaks, 2 decompose, 4 inefficient, 8 oom.
    analysis_type: u8,
    oom_top_k: u16,
    collect_mode: u8,
    output_dir: Cow<'a, str>,
    data_format: u8,
    collect_all_npu: bool,
    collect_cpu: bool,
    npu_slots: u32,
    log_level: u8,
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

    fn json(settings: &str) -> String {
        let settings = RecordSettings::parse(settings.as_bytes());
        String::from_utf8(RunConfig::new(settings).to_json().unwrap()).unwrap()
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
        let settings = "v=1;run=7;brand=msmemscope;utc=-12600;c=50;py=0;cpu=1;npu=5;level=1;events=7;dump=3;analysis=9;oomk=10;\
                        mode=1;steps=3+8;format=1;log=2;watch=aten::add%3B:4,end%25,full-content;dir=/tmp/a;dir=\"b\"";
        assert_eq!(json(settings), expected);
    }

    #[test]
    fn without_watch_there_is_no_output_id_and_nothing_is_watched() {
        let text = json("npu=ffffffff;watch=;");
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
        let text = json("c=x;npu=zz;steps=+1++x;watch=,,,:");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["enableCStack"], &json["npuSlots"]), (&false.into(), &0.into()));
        assert_eq!(json["SelectedStepList"]["stepCount"], 1);
    }
}
