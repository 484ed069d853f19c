//! A spool as text: what a reader is handed, one line each, every field by its name.
//!
//! For people, and for the golden spools, whose text must not depend on how this crate names its types. Addresses, words of a
//! device and hashes are hexadecimal, codes are their numbers, texts are quoted with everything but ASCII escaped.
use super::{Definition, Event, LaneCursor, Spool, SpoolError, StackRef};
use crate::layout;
use crate::record::{FrameRecord, TaskLogLine};
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;

/// The whole spool: what its header says, each lane, and what could not be read.
pub fn of_spool(spool: &Spool) -> Result<String, SpoolError> {
    let mut text = String::new();
    process(&mut text, spool);
    for lane in spool.lanes() {
        let mut cursor = LaneCursor::new(lane);
        line(&mut text, "lane", |line| line.number("number", lane));
        while let Some(event) = {
            let mut define = |definition: Definition<'_>| named(&mut text, |line| definition.show(line));
            cursor.next_event(spool, &mut define)?
        } {
            self::event(&mut text, &event);
        }
        if cursor.unknown_records() != 0 {
            line(&mut text, "unknown_records", |line| line.number("count", cursor.unknown_records()));
        }
        for damage in cursor.damage() {
            line(&mut text, "damage", |line| line.text("what", damage.to_string().as_bytes()));
        }
    }
    for damage in spool.damage() {
        line(&mut text, "damage", |line| line.text("what", damage.to_string().as_bytes()));
    }
    line(&mut text, "lost", |line| line.number("events", spool.lost_events()));
    Ok(text)
}

fn process(text: &mut String, spool: &Spool) {
    let process = spool.process();
    line(text, "process", |line| {
        line.number("version", layout::VERSION);
        line.number("pid", process.pid);
        line.number("parent_pid", process.parent_pid);
        line.number("run_id", process.run_id);
        line.number("python_version", process.python_version);
        line.number("notes", process.notes);
        line.number("state", process.state as u8);
        line.number("stop_reason", process.stop_reason as u8);
        line.number("stop_errno", process.stop_errno);
    });
    line(text, "clock", |line| {
        line.number("kind", process.clock as u8);
        line.number("start_ticks", process.start_ticks);
        line.number("start_monotonic_ns", process.start_monotonic_ns);
        line.number("start_realtime_ns", process.start.0);
        if let Some((ticks, monotonic_ns)) = process.calibration {
            line.number("ticks", ticks);
            line.number("monotonic_ns", monotonic_ns);
        }
    });
    line(text, "files", |line| {
        line.number("window_pages", process.window_pages);
        line.number("appended", process.appended);
        line.number("lost_without_window", process.lost_without_window);
        line.number("strays", process.strays);
        line.number("strays_left", process.strays_left);
        if process.filters_counted != 0 {
            line.number("filters_counted", process.filters_counted);
        }
    });
    line(text, "settings", |line| line.text("text", process.config.as_bytes()));
    line(text, "command", |line| {
        line.text("executable", process.executable.as_os_str().as_bytes());
        line.text("line", process.command.as_bytes());
    });
}

fn event(text: &mut String, event: &Event) {
    let _ = write!(text, "{} ", event.ticks);
    named(text, |line| {
        let name = event.kind.show(line);
        line.number("thread", event.thread);
        if event.stack != StackRef::NONE {
            line.number("c", event.stack.c);
            line.number("python", event.stack.python);
        }
        name
    });
}

/// A line whose name is known with its fields; in the table it is in capitals.
fn named(text: &mut String, fields: impl FnOnce(&mut Line<'_>) -> &'static str) {
    let mut shown = String::new();
    let name = fields(&mut Line(&mut shown));
    let _ = writeln!(text, "{}{shown}", name.to_ascii_lowercase());
}

fn line(text: &mut String, name: &str, fields: impl FnOnce(&mut Line<'_>)) {
    text.push_str(name);
    fields(&mut Line(text));
    text.push('\n');
}

/// The fields of a line.
pub(super) struct Line<'a>(&'a mut String);

impl Line<'_> {
    pub(super) fn number(&mut self, name: &str, value: impl fmt::Display) {
        let _ = write!(self.0, " {name}={value}");
    }

    pub(super) fn word(&mut self, name: &str, value: u64) {
        let _ = write!(self.0, " {name}={value:#x}");
    }

    pub(super) fn text(&mut self, name: &str, bytes: &[u8]) {
        let _ = write!(self.0, " {name}=\"{}\"", bytes.escape_ascii());
    }

    pub(super) fn frame(&mut self, frame: FrameRecord) {
        match frame {
            FrameRecord::C { module, offset } => {
                self.number("module", module);
                self.word("offset", offset);
            }
            FrameRecord::Unknown { address } => self.word("address", address),
            FrameRecord::Python { code, instruction } => {
                self.number("code", code);
                self.number("instruction", instruction);
            }
        }
    }

    pub(super) fn execution(&mut self, line: TaskLogLine) {
        self.number("stream", line.stream);
        self.number("task", line.task);
        self.number("unit", line.unit);
        self.number("end", u8::from(line.end));
        self.word("counter", line.counter);
    }
}
