//! A lane's call stacks: C and Python, two numbers of one tree.
use crate::config::Config;
use crate::lane::Entry;
use crate::process::{self, PYTHON_READ, PYTHON_UNKNOWN};
use crate::writer::Writer;
use memscope_format::record::StackRef;
use memscope_stack::c::{self, CStack};
use memscope_stack::python::{self, PythonStack, Support};
use memscope_stack::tree::Tree;

/// Zeroed memory captures nothing.
#[repr(C)]
pub(crate) struct StackCapture {
    c_depth: usize,
    python_depth: usize,
    /// As it was at the last capture.
    epoch: u32,
    /// Captures while there was no Python.
    without_python: u32,
    /// What the last capture began with and gave; no stack pointer since [`StackCapture::expect_inner`].
    latest_stack_pointer: usize,
    latest: StackRef,
    tree: Tree,
    c: CStack,
    pub(crate) python: PythonStack,
}

/// Once per image, before the first stack.
pub(crate) fn initialise(python_wanted: bool) {
    c::initialise();
    if python_wanted {
        python::initialise();
    }
}

/// The interpreter's version and a note for the spool's header.
pub(crate) fn python_support() -> (u32, u32) {
    match python::support() {
        Support::NoPython => (0, 0),
        Support::Supported(version) => (u32::from(version), PYTHON_READ),
        Support::Unknown(version) => (u32::from(version), PYTHON_UNKNOWN),
    }
}

/// The path of a library, a C string, that must not be unloaded from now on; asked for once.
pub fn library_to_keep() -> Option<usize> {
    python::library_to_keep()
}

/// A library may have been unloaded: the same addresses may soon hold other functions.
pub fn library_unloaded() {
    if !c::notices_unloads() {
        c::library_unloaded();
    }
}

impl StackCapture {
    pub(crate) fn configure(&mut self, config: &Config) {
        (self.c_depth, self.python_depth) = (config.c_depth, config.python_depth);
    }

    /// The calling thread's stack; defines what is new in it.
    ///
    /// # Safety
    /// The calling thread owns this lane.
    pub(crate) unsafe fn capture(&mut self, entry: Entry<'_>, writer: &mut Writer) -> StackRef {
        let epoch = c::unload_epoch();
        if !self.tree.is_usable_in(epoch) {
            self.begin_anew(epoch);
            writer.forget_nodes();
        }
        let mut stack = StackRef::NONE;
        if self.c_depth != 0 && entry.has_c_stack() {
            // SAFETY: the entry is that of a hook at work on this thread.
            stack.c = unsafe {
                self.c.capture(entry.stack_pointer, entry.frame_pointer, self.c_depth, &mut self.tree, writer).0
            };
        }
        if self.python_depth != 0 {
            if python::is_missing() {
                self.look_for_python();
            }
            // SAFETY: the calling thread owns the lane.
            stack.python = unsafe { self.python.capture(self.python_depth, &mut self.tree, writer).0 };
        }
        (self.latest_stack_pointer, self.latest) = (entry.stack_pointer, stack);
        stack
    }

    /// A hook has been entered whose original may cause captures: [`StackCapture::capture_around`] will ask for them.
    #[inline(always)]
    pub(crate) fn expect_inner(&mut self) {
        self.latest_stack_pointer = 0;
    }

    /// The same as [`StackCapture::capture`] after the original of a hook. If there was a capture in its midst, all that is further
    /// out than the hook is as it was then, and so are the Python frames.
    ///
    /// # Safety
    /// As for `capture`; [`StackCapture::expect_inner`] was called when the hook was entered.
    pub(crate) unsafe fn capture_around(&mut self, entry: Entry<'_>, writer: &mut Writer) -> StackRef {
        let Entry { stack_pointer, frame_pointer, .. } = entry;
        let was_inner = (Entry::PYTHON_ONLY + 1..stack_pointer).contains(&self.latest_stack_pointer);
        if was_inner && self.tree.is_usable_in(c::unload_epoch()) {
            if self.c_depth == 0 {
                return self.latest;
            }
            // SAFETY: the entry is that of a hook at work on this thread.
            if let Some(node) = unsafe { self.c.outward_from(stack_pointer, frame_pointer, self.c_depth) } {
                return StackRef { c: node.0, ..self.latest };
            }
        }
        // SAFETY: passed on.
        unsafe { self.capture(entry, writer) }
    }

    /// A program may load Python at any time, and makes far more allocations than this before its own code runs.
    fn look_for_python(&mut self) {
        const CAPTURES: u32 = 64;
        self.without_python = self.without_python.wrapping_add(1);
        if self.without_python.is_multiple_of(CAPTURES)
            && python::look_again()
            && let Some(process) = process::current()
        {
            let (version, note) = python_support();
            process.note_python(version, note);
        }
    }

    /// A library was unloaded, or the tree is full.
    #[cold]
    #[inline(never)]
    fn begin_anew(&mut self, epoch: u32) {
        if epoch == self.epoch {
            self.forget_nodes();
        } else {
            self.epoch = epoch;
            self.forget();
        }
    }

    /// Forgets everything: nothing defined so far is referred to again.
    pub(crate) fn forget(&mut self) {
        self.tree.forget(self.epoch);
        self.c.forget();
        self.python.forget();
    }

    /// No node defined so far is referred to again; modules and code objects are.
    fn forget_nodes(&mut self) {
        self.tree.forget(self.epoch);
        self.c.forget_nodes();
        self.python.forget_nodes();
    }

    /// Another thread has the lane: its stack lies elsewhere, but the tree, modules and code objects still hold.
    pub(crate) fn change_thread(&mut self) {
        self.c.change_thread();
    }
}
