//! Names for the frames of one trace: each is looked up once, and functions are told apart by name and file, not by address.
use super::role::{self, Role};
use memscope_model::{Frame, Stacks};
use memscope_symbols::{Symbolizer, python_line, render_python};
use rustc_hash::FxHashMap;
use std::path::Path;

/// A position in a function; see [`Names::frame`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameId(u32);

/// See [`Names::function`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FunctionId(u32);

impl FunctionId {
    /// A place in a list with one entry a function.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Language {
    Native,
    Python,
}

/// A function, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// `?` if nobody knows it.
    pub name: String,
    /// Its source, or the file name of its object where that is all there is.
    pub file: String,
    pub language: Language,
    pub role: Role,
    /// Runs Python code: see [`role::evaluates_python`].
    pub(super) evaluates_python: bool,
    /// `file` is that of an object.
    in_object: bool,
}

impl Function {
    /// As [`Names::text`] has it, without the position.
    pub fn label(&self) -> String {
        let Function { name, file, .. } = self;
        match self.language {
            Language::Python => render_python(file, None, name),
            Language::Native if file.is_empty() => name.clone(),
            Language::Native if self.in_object => format!("{name} ({file})"),
            Language::Native => format!("{name} at {file}"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NamedFrame {
    pub function: FunctionId,
    pub position: FramePosition,
}

/// Where in a function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FramePosition {
    Unknown,
    Line(u32),
    /// A return address in an object without names.
    Offset(u64),
}

/// The names seen so far.
#[derive(Clone, Debug, Default)]
pub struct Names {
    frames: Vec<NamedFrame>,
    frame_ids: FxHashMap<NamedFrame, FrameId>,
    functions: Vec<Function>,
    function_ids: FxHashMap<(String, String), FunctionId>,
    /// Frames of the trace: those compiled into one come innermost first.
    known: FxHashMap<(Language, Frame), Box<[FrameId]>>,
}

/// A frame on its way into the table.
struct Spelled<'t> {
    name: &'t str,
    file: &'t str,
    in_object: bool,
    position: FramePosition,
    role: Role,
}

impl Names {
    /// The frames that a recorded one stands for, innermost first.
    pub fn of(&mut self, language: Language, frame: Frame, stacks: &Stacks, symbolizer: &mut Symbolizer) -> &[FrameId] {
        // Not by `entry`: what is not known needs the whole table.
        if !self.known.contains_key(&(language, frame)) {
            let frames = self.look_up(language, frame, stacks, symbolizer);
            self.known.insert((language, frame), frames);
        }
        &self.known[&(language, frame)]
    }

    pub fn frame(&self, id: FrameId) -> NamedFrame {
        self.frames[id.0 as usize]
    }

    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// All of them, in the order of their places in lists.
    pub(super) fn functions(&self) -> impl ExactSizeIterator<Item = FunctionId> {
        (0..self.functions.len() as u32).map(FunctionId)
    }

    pub fn function_of(&self, id: FrameId) -> &Function {
        self.function(self.frame(id).function)
    }

    /// The frame as one of its whole function, if that is native: its lines are many, and say little.
    pub fn without_native_place(&mut self, id: FrameId) -> FrameId {
        let frame = self.frame(id);
        match self.function(frame.function).language {
            Language::Python => id,
            Language::Native => self.intern(NamedFrame { position: FramePosition::Unknown, ..frame }),
        }
    }

    /// `file(line): function`, `function at file:line`, `function (object)` or `object+0xoffset`.
    pub fn text(&self, id: FrameId) -> String {
        let NamedFrame { function, position } = self.frame(id);
        let function = self.function(function);
        let Function { name, file, .. } = function;
        match (function.language, position) {
            (Language::Python, FramePosition::Line(line)) => render_python(file, Some(line), name),
            (Language::Native, FramePosition::Line(line)) => format!("{name} at {file}:{line}"),
            (Language::Native, FramePosition::Offset(offset)) => format!("{file}+{offset:#x}"),
            (Language::Python | Language::Native, _) => function.label(),
        }
    }

    /// Keeps names, and forgets what in the trace they are of.
    pub(crate) fn forget_trace(&mut self) {
        self.known = FxHashMap::default();
    }

    /// Stands for the callers of a stack that is deeper than was recorded.
    pub(super) fn cut_off(&mut self) -> FrameId {
        self.native(Spelled {
            name: "(callers beyond the depth of --call-stack)",
            file: "",
            in_object: true,
            position: FramePosition::Unknown,
            role: Role::Outset,
        })
    }

    fn look_up(
        &mut self,
        language: Language,
        frame: Frame,
        stacks: &Stacks,
        symbolizer: &mut Symbolizer,
    ) -> Box<[FrameId]> {
        match frame {
            Frame::Python { code, instruction } => {
                let code = stacks.code(code);
                let line = python_line(code.python_version, code.first_line, &code.line_table, instruction);
                Box::new([self.python(&code.file, line, &code.function)])
            }
            Frame::C { module, offset } => {
                let module = stacks.module(module);
                let object = module.path.file_name().map(|name| name.to_string_lossy()).unwrap_or("?".into());
                let frames = symbolizer.c_frames(&module.path, &module.build_id, offset);
                if frames.is_empty() {
                    let spelled = Spelled {
                        name: "?",
                        file: &object,
                        in_object: true,
                        position: FramePosition::Offset(offset),
                        role: role::of_native("?", &module.path, None),
                    };
                    return Box::new([self.native(spelled)]);
                }
                frames
                    .iter()
                    .map(|frame| {
                        let name = frame.function.as_deref().unwrap_or("?");
                        let source = frame.file.as_deref();
                        self.native(Spelled {
                            name,
                            file: source.unwrap_or(&object),
                            in_object: source.is_none(),
                            position: frame.line.map_or(FramePosition::Unknown, FramePosition::Line),
                            role: role::of_native(name, &module.path, source),
                        })
                    })
                    .collect()
            }
            Frame::Unknown { .. } => Box::new([self.native(Spelled {
                name: "?",
                file: "",
                in_object: true,
                position: FramePosition::Unknown,
                role: Role::Library,
            })]),
            Frame::Text(text) => Box::new([match language {
                Language::Python => self.python_text(stacks.text(text)),
                Language::Native => self.native_text(stacks.text(text)),
            }]),
        }
    }

    /// As [`render_python`] spells it.
    fn python_text(&mut self, text: &str) -> FrameId {
        let (place, function) = text.rsplit_once(": ").unwrap_or((text, "?"));
        let with_line = place.strip_suffix(')').and_then(|place| place.rsplit_once('('));
        match with_line.and_then(|(file, line)| Some((file, line.parse().ok()?))) {
            Some((file, line)) => self.python(file, Some(line), function),
            None => self.python(place, None, function),
        }
    }

    /// As [`memscope_symbols::render_c`] spells it; of anything else as much as looks like a function.
    fn native_text(&mut self, text: &str) -> FrameId {
        let text = text.strip_suffix(" [inlined]").unwrap_or(text);
        let inside = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
        let (text, object) = match inside.and_then(|(rest, place)| Some((rest, place.rsplit_once("+0x")?))) {
            Some((rest, (object, _))) => (rest, object),
            None => (text, ""),
        };
        let offset = |text: &str| u64::from_str_radix(text, 16).ok();
        if let Some((function, source)) = text.split_once(" at ") {
            let (file, line) = match source.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
                Some((file, line)) => (file, FramePosition::Line(line)),
                None => (source, FramePosition::Unknown),
            };
            let role = role::of_native(function, Path::new(object), Some(file));
            return self.native(Spelled { name: function, file, in_object: false, position: line, role });
        }
        let (name, file, position) = match text.rsplit_once("+0x") {
            Some((place, number)) if object.is_empty() => {
                ("?", place, offset(number).map_or(FramePosition::Unknown, FramePosition::Offset))
            }
            Some((function, _)) => (function, object, FramePosition::Unknown),
            None => (text, object, FramePosition::Unknown),
        };
        let role = role::of_native(name, Path::new(file), None);
        self.native(Spelled { name, file, in_object: true, position, role })
    }

    fn python(&mut self, file: &str, line: Option<u32>, function: &str) -> FrameId {
        let position = line.map_or(FramePosition::Unknown, FramePosition::Line);
        let spelled = Spelled { name: function, file, in_object: false, position, role: role::of_python(file) };
        self.add(spelled, Language::Python)
    }

    fn native(&mut self, spelled: Spelled<'_>) -> FrameId {
        self.add(spelled, Language::Native)
    }

    fn add(&mut self, spelled: Spelled<'_>, language: Language) -> FrameId {
        let Spelled { name, file, in_object, position, role } = spelled;
        let (name, file) = (name.to_owned(), file.to_owned());
        let Names { functions, function_ids, .. } = self;
        let function = *function_ids.entry((name, file)).or_insert_with_key(|(name, file)| {
            let evaluates_python = language == Language::Native && role::evaluates_python(name);
            let (name, file) = (name.clone(), file.clone());
            functions.push(Function { name, file, language, role, evaluates_python, in_object });
            FunctionId((functions.len() - 1) as u32)
        });
        self.intern(NamedFrame { function, position })
    }

    fn intern(&mut self, frame: NamedFrame) -> FrameId {
        let Names { frames, frame_ids, .. } = self;
        *frame_ids.entry(frame).or_insert_with(|| {
            frames.push(frame);
            FrameId((frames.len() - 1) as u32)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_frame(language: Language, text: &str) -> (String, Role) {
        let mut stacks = Stacks::default();
        let (c, python) = match language {
            Language::Native => (Some(text), None),
            Language::Python => (None, Some(text)),
        };
        let stack = stacks.intern_texts(c.into_iter(), python.into_iter());
        let frame = stacks.c_frames(stack).chain(stacks.python_frames(stack)).next().unwrap();
        let mut names = Names::default();
        let id = names.of(language, frame, &stacks, &mut Symbolizer::new())[0];
        (names.text(id), names.function_of(id).role)
    }

    #[test]
    fn frames_as_files_spell_them_lose_their_address_and_keep_the_rest() {
        for (spelled, name, role) in [
            ("grow at /src/pool.h:7 (libpool.so+0x1f3a) [inlined]", "grow at /src/pool.h:7", Role::Library),
            ("parse at /src/a.c:7 (prog+0x1f3a)", "parse at /src/a.c:7", Role::Own),
            ("malloc+0x1c (libc.so.6+0x98a10)", "malloc (libc.so.6)", Role::Wrapper),
            ("git+0x281bdc", "git+0x281bdc", Role::Own),
            ("std::f(int, char) (libm.so.6)", "std::f(int, char) (libm.so.6)", Role::Own),
        ] {
            assert_eq!(text_frame(Language::Native, spelled), (name.to_owned(), role), "{spelled}");
        }
        for spelled in ["train.py(12): Net.forward", "train.py: <lambda>", "/a (1)/b.py(3): f"] {
            assert_eq!(text_frame(Language::Python, spelled), (spelled.to_owned(), Role::Own));
        }
    }

    #[test]
    fn a_name_is_what_the_recording_says_whatever_it_holds() {
        assert_eq!(text_frame(Language::Python, "a\nb.py(1): \u{1b}[0m").0, "a\nb.py(1): \u{1b}[0m");
    }
}
