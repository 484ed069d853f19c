//! Frames as lines of text, rendered once for each distinct one, and the call stack cells made of them.
use memscope_model::{Frame, StackId, Stacks};
use memscope_symbols::{Symbolizer, python_line, render_c, render_python};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Texts of whole stacks are kept up to this many bytes, then all forgotten: those in use come back at once, and
/// frames, which cost the symbol lookups, are never forgotten.
const KEPT_STACK_BYTES: usize = 64 << 20;

/// Number of a distinct line, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Line(pub(crate) u32);

/// Renders stacks of one process.
pub(crate) struct StackTexts<'s> {
    symbolizer: &'s mut Symbolizer,
    lines: Vec<Arc<str>>,
    by_text: FxHashMap<Arc<str>, Line>,
    /// Lines of frames, one frame's after the other's.
    of_frames: Vec<Line>,
    by_frame: FxHashMap<Frame, Range<usize>>,
    stack_text: String,
    stacks: FxHashMap<StackId, Cells>,
}

/// A stack's two texts stand next to each other, the Python one first.
#[derive(Clone, Copy)]
struct Cells {
    start: usize,
    middle: usize,
    end: usize,
}

impl<'s> StackTexts<'s> {
    pub(crate) fn new(symbolizer: &'s mut Symbolizer) -> StackTexts<'s> {
        StackTexts {
            symbolizer,
            lines: Vec::new(),
            by_text: FxHashMap::default(),
            of_frames: Vec::new(),
            by_frame: FxHashMap::default(),
            stack_text: String::new(),
            stacks: FxHashMap::default(),
        }
    }

    /// The lines of a frame: functions that were inlined at its address, innermost first, and the one it is in. Two
    /// instructions of one line have the same.
    pub(crate) fn lines(&mut self, frame: Frame, stacks: &Stacks) -> Range<usize> {
        if let Some(known) = self.by_frame.get(&frame) {
            return known.clone();
        }
        let start = self.of_frames.len();
        for text in frame_text(frame, stacks, self.symbolizer).split('\n') {
            let line = match self.by_text.get(text) {
                Some(known) => *known,
                None => {
                    let (text, next): (Arc<str>, Line) = (text.into(), Line(self.lines.len() as u32));
                    self.lines.push(text.clone());
                    self.by_text.insert(text, next);
                    next
                }
            };
            self.of_frames.push(line);
        }
        let lines = start..self.of_frames.len();
        self.by_frame.insert(frame, lines.clone());
        lines
    }

    /// One of [`StackTexts::lines`].
    pub(crate) fn line(&self, place: usize) -> Line {
        self.of_frames[place]
    }

    pub(crate) fn text(&self, line: Line) -> &str {
        &self.lines[line.0 as usize]
    }

    /// The Python and the C cell: one frame a line, innermost first, empty if nothing was recorded.
    pub(crate) fn cells(&mut self, stack: StackId, stacks: &Stacks) -> (&str, &str) {
        if stack == StackId::NONE {
            return ("", "");
        }
        let cells = match self.stacks.get(&stack) {
            Some(known) => *known,
            None => self.render(stack, stacks),
        };
        (&self.stack_text[cells.start..cells.middle], &self.stack_text[cells.middle..cells.end])
    }

    /// What could not be named and why.
    pub(crate) fn problems(&self) -> &[String] {
        self.symbolizer.problems()
    }

    fn render(&mut self, stack: StackId, stacks: &Stacks) -> Cells {
        if self.stack_text.len() > KEPT_STACK_BYTES {
            self.stack_text.clear();
            self.stacks.clear();
        }
        let start = self.stack_text.len();
        self.push_frames(stacks.python_frames(stack), stacks);
        let middle = self.stack_text.len();
        self.push_frames(stacks.c_frames(stack), stacks);
        let cells = Cells { start, middle, end: self.stack_text.len() };
        self.stacks.insert(stack, cells);
        cells
    }

    fn push_frames(&mut self, frames: impl Iterator<Item = Frame>, stacks: &Stacks) {
        let start = self.stack_text.len();
        for frame in frames {
            for place in self.lines(frame, stacks) {
                if self.stack_text.len() > start {
                    self.stack_text.push('\n');
                }
                self.stack_text.push_str(&self.lines[self.of_frames[place].0 as usize]);
            }
        }
    }
}

fn frame_text(frame: Frame, stacks: &Stacks, symbolizer: &mut Symbolizer) -> String {
    match frame {
        Frame::C { module, offset } => {
            let module = stacks.module(module);
            let frames = symbolizer.c_frames(&module.path, &module.build_id, offset);
            let path = one_line(&module.path.to_string_lossy()).into_owned();
            if frames.iter().any(is_broken) {
                let whole: Vec<_> = frames.iter().cloned().map(unbroken).collect();
                return render_c(&path, offset, &whole);
            }
            render_c(&path, offset, frames)
        }
        Frame::Unknown { address } => format!("[{address:#x}]"),
        Frame::Text(id) => stacks.text(id).to_owned(),
        Frame::Python { code, instruction } => {
            let code = stacks.code(code);
            let line = python_line(code.python_version, code.first_line, &code.line_table, instruction);
            render_python(&one_line(&code.file), line, &one_line(&code.function))
        }
    }
}

fn is_broken(frame: &memscope_symbols::SourceFrame) -> bool {
    let broken = |text: &Option<String>| text.as_deref().is_some_and(|text| text.contains(char::is_control));
    broken(&frame.function) || broken(&frame.file)
}

fn unbroken(mut frame: memscope_symbols::SourceFrame) -> memscope_symbols::SourceFrame {
    frame.function = frame.function.map(|text| one_line(&text).into_owned());
    frame.file = frame.file.map(|text| one_line(&text).into_owned());
    frame
}

/// A name may hold any character, but a line break in it would look like another frame, and a NUL ends the cell for
/// most readers of a database: control characters are shown as escapes.
fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_all_others_kept() {
        assert_eq!(one_line("a\nb\r\t\0\"é,"), "a\\nb\\r\\t\\u{0}\"é,");
        assert!(matches!(one_line("plain, \"quoted\" é"), Cow::Borrowed(_)));
    }
}
