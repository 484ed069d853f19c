//! A synthetic interpreter: objects and frames in plain memory, laid out as a [`Layout`] says. For tests.
use super::interpreter::Interpreter;
use super::layout::{
    BYTES_DATA, BYTES_SIZE, Layout, OBJECT_TYPE, Position, TEXT_HASH, TEXT_LENGTH, TEXT_STATE, TYPE_DESTRUCTOR,
};
use core::ffi::c_void;

/// How a `str` is stored.
#[derive(Clone, Copy)]
pub(super) enum Text {
    Ascii,
    Latin1,
    Ucs2,
    Ucs4,
    /// The characters (UCS-2) in memory of their own.
    Separate,
}

pub(super) struct Image {
    pub layout: Layout,
    blocks: Vec<Box<[u64]>>,
    code_type: usize,
}

type Destructor = unsafe extern "C" fn(*mut c_void);

/// That of code objects, whose memory stays with the image.
unsafe extern "C" fn leave_as_it_is(_: *mut c_void) {}

impl Image {
    pub(super) fn new(layout: Layout) -> Image {
        let mut image = Image { layout, blocks: Vec::new(), code_type: 0 };
        image.code_type = image.block(256);
        image.set_destructor(leave_as_it_is as *const () as usize);
        image
    }

    pub(super) fn interpreter(&self) -> Interpreter {
        Interpreter::synthetic(self.layout, self.code_type)
    }

    /// The destructor in the type of code objects.
    pub(super) fn destructor(&self) -> usize {
        // SAFETY: the image's type is larger than that.
        unsafe { ((self.code_type + TYPE_DESTRUCTOR) as *const usize).read() }
    }

    pub(super) fn set_destructor(&mut self, destructor: usize) {
        self.set(self.code_type, TYPE_DESTRUCTOR, destructor);
    }

    /// Begins to destroy a code object: nobody refers to it, and its destructor is called.
    pub(super) fn destroy(&mut self, code: usize) {
        self.set(code, 0, 0u32);
        // SAFETY: the one of `new`, or one that ends in calling it.
        unsafe { core::mem::transmute::<usize, Destructor>(self.destructor())(code as *mut c_void) }
    }

    fn block(&mut self, bytes: usize) -> usize {
        self.blocks.push(vec![0u64; bytes.div_ceil(8) + 1].into_boxed_slice());
        let block = self.blocks.last_mut().unwrap();
        let address = block.as_mut_ptr() as usize;
        self.set(address, 0, 1u32); // reference count
        address
    }

    /// Writes a field of something that one of the functions below made.
    pub(super) fn set<T: Copy>(&mut self, address: usize, offset: usize, value: T) {
        // SAFETY: every block is at least as large as the structures of the layout that tests put into it.
        unsafe { ((address + offset) as *mut T).write_unaligned(value) }
    }

    pub(super) fn text(&mut self, form: Text, text: &str) -> usize {
        let units: Vec<u32> = text.chars().map(u32::from).collect();
        let (kind, flags) = match form {
            Text::Ascii => (1, 0b11 << 3),
            Text::Latin1 => (1, 0b01 << 3),
            Text::Ucs2 => (2, 0b01 << 3),
            Text::Ucs4 => (4, 0b01 << 3),
            Text::Separate => (2, 0),
        };
        // Interned, and with the garbage that the interpreter leaves in the upper bits.
        self.place_text(kind, 0xa5c3_9600 | (flags | kind as u32) << 2 | 1, &units)
    }

    /// A compact `str` of the given code points, which need not be valid.
    pub(super) fn text_of_units(&mut self, kind: usize, units: &[u32]) -> usize {
        self.place_text(kind, (0b01 << 3 | kind as u32) << 2, units)
    }

    fn place_text(&mut self, kind: usize, state: u32, units: &[u32]) -> usize {
        let object = self.block(96 + units.len() * kind);
        self.set(object, TEXT_LENGTH, units.len());
        self.set(object, TEXT_HASH, -1i64);
        self.set(object, TEXT_STATE, state);
        let data = match state >> 5 & 3 {
            0b11 => object + usize::from(self.layout.ascii_size),
            0b01 => object + usize::from(self.layout.compact_size),
            _ => {
                let data = self.block(units.len() * kind + 8);
                self.set(object, self.layout.compact_size.into(), data);
                data
            }
        };
        for (at, unit) in units.iter().enumerate() {
            match kind {
                1 => self.set(data, at, *unit as u8),
                2 => self.set(data, at * 2, *unit as u16),
                _ => self.set(data, at * 4, *unit),
            }
        }
        object
    }

    pub(super) fn bytes(&mut self, contents: &[u8]) -> usize {
        let object = self.block(BYTES_DATA + contents.len() + 8);
        self.set(object, BYTES_SIZE, contents.len());
        for (at, byte) in contents.iter().enumerate() {
            self.set(object, BYTES_DATA + at, *byte);
        }
        object
    }

    pub(super) fn code(&mut self, function: &str, first_line: u32) -> usize {
        let code = self.block(512);
        self.make_code(code, function, first_line);
        code
    }

    /// Another code object at the address of one that dies.
    pub(super) fn rewrite_code(&mut self, code: usize, function: &str, first_line: u32) {
        self.destroy(code);
        self.make_code(code, function, first_line);
    }

    fn make_code(&mut self, code: usize, function: &str, first_line: u32) {
        let layout = self.layout;
        let (file, function) = (self.text(Text::Ascii, "file.py"), self.text(Text::Ucs4, function));
        let line_table = self.bytes(&first_line.to_le_bytes());
        let number = self.blocks.len() as u32;
        self.set(code, 0, 1u32);
        self.set(code, OBJECT_TYPE, self.code_type);
        self.set(code, layout.code_file.into(), file);
        self.set(code, layout.code_function.into(), function);
        self.set(code, layout.code_line_table.into(), line_table);
        self.set(code, layout.code_first_line.into(), first_line);
        if let Some(offset) = layout.code_version {
            self.set(code, offset.into(), number);
        }
    }

    pub(super) fn frame(&mut self, previous: usize, code: usize, instruction: u32) -> usize {
        let frame = self.block(256);
        self.set(frame, self.layout.frame_previous.into(), previous);
        self.run(frame, code, instruction);
        frame
    }

    /// A frame that marks where C code entered the interpreter.
    pub(super) fn entry_frame(&mut self, previous: usize, code: usize) -> usize {
        let frame = self.frame(previous, code, 0);
        self.set(frame, self.layout.frame_owner.unwrap().into(), 3u8);
        frame
    }

    /// Makes `frame` run `code` at byte offset `instruction`.
    pub(super) fn run(&mut self, frame: usize, code: usize, instruction: u32) {
        let layout = self.layout;
        self.set(frame, layout.frame_code.into(), code);
        let at = layout.frame_position.into();
        match layout.position {
            Position::Bytes => self.set(frame, at, instruction),
            Position::Units => self.set(frame, at, instruction / 2),
            Position::Pointer { code_start } => {
                self.set(frame, at, code + usize::from(code_start) + instruction as usize);
            }
        }
    }
}
