//! Call trees as pictures and as files of other tools.
mod svg;

use super::names::{FramePosition, Language, Names};
use super::reading::View;
use super::role::Role;
use super::tree::{CallTree, NO_STACK};
use crate::line::{escaped, json_for_terminal};
use crate::report::quantity::{bytes, counted};
use memscope_analysis::Held;
use rustc_hash::FxHasher;
use serde_json::json;
use std::hash::Hasher;

pub use svg::svg;

/// A frame with less than this part of the whole is not drawn: on the widest screen it is not a pixel wide.
pub const LEAST_DRAWN: f64 = 1.0 / 4000.0;

/// Boxes in rows, the outermost frame on top.
#[derive(Clone, Debug)]
pub struct Flame {
    pub title: String,
    pub subtitle: String,
    /// In the order of the tree, the whole first.
    pub frames: Vec<FlameFrame>,
}

#[derive(Clone, Debug)]
pub struct FlameFrame {
    pub depth: usize,
    /// Where it begins and how much it is, in bytes of the whole.
    pub start: u64,
    pub width: u64,
    pub label: String,
    /// All of it, in lines.
    pub detail: String,
    pub tone: Tone,
    pub tint: u8,
}

/// What its colour says of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    All,
    Own,
    Python,
    Native,
    Plain,
    Same,
    Grown,
    Shrunk,
}

impl Flame {
    fn legend(&self) -> &'static [(Tone, u8, &'static str)] {
        let compares = self.frames.iter().any(|frame| matches!(frame.tone, Tone::Same | Tone::Grown | Tone::Shrunk));
        if compares {
            &[(Tone::Grown, 2, "grown"), (Tone::Shrunk, 2, "shrunk"), (Tone::Same, 0, "as before")]
        } else {
            &[
                (Tone::Own, 0, "your code"),
                (Tone::Python, 0, "Python libraries"),
                (Tone::Native, 0, "native libraries"),
                (Tone::Plain, 0, "wrappers, interpreter, unknown"),
            ]
        }
    }

    /// What a pool held.
    pub fn of(view: &mut View) -> Flame {
        let tree = CallTree::new(&view.profile, &mut view.names);
        let title = view.title();
        let names = &view.names;
        let total = tree.root().inclusive;
        let mut frames = Vec::new();
        let mut waiting = vec![(0, 0, 0)];
        while let Some((at, depth, start)) = waiting.pop() {
            let node = tree.node(at);
            let (tone, label) = match node.frame {
                Some(frame) => {
                    (tone(names.function_of(frame).role, names.function_of(frame).language), short(frame, names))
                }
                None if at == 0 => (Tone::All, "all".to_owned()),
                None => (Tone::Plain, NO_STACK.to_owned()),
            };
            let detail = detail(&tree.label(at, names), node.inclusive, node.own, total);
            let tint = tint(&label);
            frames.push(FlameFrame { depth, start, width: node.inclusive.bytes, label, detail, tone, tint });
            let mut next = start;
            let mut drawn = Vec::new();
            for child in &node.children {
                let width = tree.node(*child).inclusive.bytes;
                if width as f64 >= total.bytes as f64 * LEAST_DRAWN && width > 0 {
                    drawn.push((*child, depth + 1, next));
                }
                next += width;
            }
            waiting.extend(drawn.into_iter().rev());
        }
        let subtitle =
            "width: bytes held · every box called the ones below it · click to look closer, / to search".to_owned();
        Flame { title, subtitle, frames }
    }
}

/// `step train.py:24`, `at::empty`.
pub(super) fn short(frame: super::names::FrameId, names: &Names) -> String {
    let named = names.frame(frame);
    let function = names.function(named.function);
    let file = short_file(&function.file);
    match (function.language, named.position) {
        (Language::Python, FramePosition::Line(line)) => format!("{} {file}:{line}", function.name),
        (Language::Python, _) => format!("{} {file}", function.name),
        (Language::Native, _) if function.name == "?" => format!("? {file}"),
        (Language::Native, _) => function.name.clone(),
    }
}

/// The file's name; of one that says nothing by itself, its folder too.
fn short_file(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    if !matches!(name, "__init__.py" | "__main__.py") {
        return name;
    }
    let folder = path.strip_suffix(name).and_then(|folder| folder.strip_suffix('/')).unwrap_or_default();
    let start = folder.rfind('/').map_or(0, |slash| slash + 1);
    &path[start..]
}

fn tone(role: Role, language: Language) -> Tone {
    match (role, language) {
        (Role::Own, _) => Tone::Own,
        (Role::Library, Language::Python) => Tone::Python,
        (Role::Library, Language::Native) => Tone::Native,
        (Role::Wrapper | Role::Import | Role::Interpreter | Role::Outset, _) => Tone::Plain,
    }
}

/// Neighbours of one kind are told apart by shades; a function has the same one in every picture.
pub(super) fn tint(label: &str) -> u8 {
    let mut hasher = FxHasher::default();
    hasher.write(label.as_bytes());
    (hasher.finish() >> 32) as u8
}

fn detail(name: &str, inclusive: Held, own: Held, total: Held) -> String {
    let percent = if total.bytes == 0 { 0.0 } else { inclusive.bytes as f64 * 100.0 / total.bytes as f64 };
    let blocks = counted(inclusive.blocks, "block", "blocks");
    format!("{}\n{} in {blocks}, {percent:.1} %\nown {}", escaped(name), bytes(inclusive.bytes), bytes(own.bytes))
}

/// One line a stack: its frames, outermost first, separated by semicolons, and its bytes. What most flame graph programs
/// read. A name has no line of its own: what would end one is escaped.
pub fn collapsed(view: &View) -> String {
    let mut lines: Vec<(String, u64)> = Vec::new();
    let mut known: rustc_hash::FxHashMap<String, usize> = rustc_hash::FxHashMap::default();
    for stack in view.profile.stacks.iter().filter(|stack| stack.held.bytes > 0) {
        let frames: Vec<String> =
            stack.frames.iter().map(|frame| escaped(&view.names.text(*frame)).replace(';', ":")).collect();
        let line = if frames.is_empty() { NO_STACK.to_owned() } else { frames.join(";") };
        let place = *known.entry(line).or_insert_with_key(|line| {
            lines.push((line.clone(), 0));
            lines.len() - 1
        });
        lines[place].1 += stack.held.bytes;
    }
    lines.sort();
    lines.iter().map(|(line, bytes)| format!("{line} {bytes}\n")).collect()
}

/// A profile as <https://www.speedscope.app> opens it.
pub fn speedscope(view: &View) -> String {
    let mut frames = Vec::new();
    let mut known = rustc_hash::FxHashMap::default();
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for stack in &view.profile.stacks {
        let sample: Vec<usize> = stack
            .frames
            .iter()
            .map(|frame| {
                *known.entry(*frame).or_insert_with(|| {
                    let named = view.names.frame(*frame);
                    let function = view.names.function(named.function);
                    let mut json = json!({ "name": function.name, "file": function.file });
                    if let FramePosition::Line(line) = named.position {
                        json["line"] = line.into();
                    }
                    frames.push(json);
                    frames.len() - 1
                })
            })
            .collect();
        samples.push(sample);
        weights.push(stack.held.bytes);
    }
    let title = view.title();
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("msmemscope ", env!("CARGO_PKG_VERSION")),
        "name": title,
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled",
            "name": title,
            "unit": "bytes",
            "startValue": 0,
            "endValue": weights.iter().sum::<u64>(),
            "samples": samples,
            "weights": weights,
        }],
    });
    json_for_terminal(&format!("{file}\n")).into_owned()
}
