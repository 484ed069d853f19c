//! A spool as text: what a reader is handed, one line each, every field by its name.
//!
//! For people, and for the golden spools, whose text must not depend on how this crate names its types. Addresses, words of a
//! device and hashes are hexadecimal, codes are their numbers, texts are quoted with everything but ASCII escaped.
use super::{Definition, Event, EventKind, LaneCursor, Spool, SpoolError, StackRef};
use crate::layout;
use crate::record::FrameRecord;
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
            let mut define = |definition: Definition<'_>| self::definition(&mut text, definition);
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
        line.number("start_realtime_ns", process.start_realtime_ns);
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
    });
    line(text, "settings", |line| line.text("text", process.config.as_bytes()));
    line(text, "command", |line| {
        line.text("executable", process.executable.as_os_str().as_bytes());
        line.text("line", process.command.as_bytes());
    });
}

fn event(text: &mut String, event: &Event) {
    let _ = write!(text, "{} ", event.ticks);
    line(text, name_of(&event.kind), |line| {
        fields_of(&event.kind, line);
        line.number("thread", event.thread);
        if event.stack != StackRef::NONE {
            line.number("c", event.stack.c);
            line.number("python", event.stack.python);
        }
    });
}

fn name_of(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::HostAlloc { .. } => "host_alloc",
        EventKind::HostFree { .. } => "host_free",
        EventKind::HostMap { .. } => "host_map",
        EventKind::HostProtect { .. } => "host_protect",
        EventKind::HostUnmap { .. } => "host_unmap",
        EventKind::HostRemap { .. } => "host_remap",
        EventKind::DeviceAlloc { .. } => "device_alloc",
        EventKind::DeviceFree { .. } => "device_free",
        EventKind::PoolTotal { .. } => "pool_total",
        EventKind::OutOfMemory { .. } => "out_of_memory",
        EventKind::System { .. } => "system",
        EventKind::Mark { .. } => "mark",
        EventKind::RangeStart { .. } => "range_start",
        EventKind::RangeEnd { .. } => "range_end",
        EventKind::Snapshot { .. } => "snapshot",
        EventKind::Launch => "launch",
        EventKind::Task { .. } => "task",
        EventKind::StreamExpansion { .. } => "stream_expansion",
        EventKind::DeviceClock { .. } => "device_clock",
        EventKind::Execution { .. } => "execution",
        EventKind::AtbOperatorStart { .. } => "atb_operator_start",
        EventKind::AtbOperatorEnd { .. } => "atb_operator_end",
        EventKind::AtbKernel { .. } => "atb_kernel",
        EventKind::Access { .. } => "access",
        EventKind::Heap { .. } => "heap",
        EventKind::HeapEnd { .. } => "heap_end",
    }
}

fn fields_of(kind: &EventKind, line: &mut Line<'_>) {
    match *kind {
        EventKind::HostAlloc { address, size } | EventKind::HostUnmap { address, size } => {
            line.word("address", address);
            line.number("size", size);
        }
        EventKind::HostFree { address } => line.word("address", address),
        EventKind::HostMap { address, size, protection } | EventKind::HostProtect { address, size, protection } => {
            line.word("address", address);
            line.number("size", size);
            line.number("protection", protection.0);
        }
        EventKind::HostRemap { old, old_size, new, new_size } => {
            line.word("old", old);
            line.number("old_size", old_size);
            line.word("new", new);
            line.number("new_size", new_size);
        }
        EventKind::DeviceAlloc { space, device, address, size, attributes } => {
            line.number("space", space as u8);
            line.number("device", device);
            line.word("address", address);
            line.number("size", size);
            line.number("attributes", attributes);
        }
        EventKind::DeviceFree { space, address } | EventKind::HeapEnd { space, address } => {
            line.number("space", space as u8);
            line.word("address", address);
        }
        EventKind::PoolTotal { space, device, total } => {
            line.number("space", space as u8);
            line.number("device", device);
            line.number("total", total);
        }
        EventKind::OutOfMemory { space, device, size, flag } => {
            line.number("space", space as u8);
            line.number("device", device);
            line.number("size", size);
            line.number("flag", flag);
        }
        EventKind::System { kind, value } => {
            line.number("kind", kind as u8);
            line.number("value", value);
        }
        EventKind::Mark { .. } | EventKind::Launch => {}
        EventKind::RangeStart { id, .. } | EventKind::RangeEnd { id } => line.number("id", id),
        EventKind::Snapshot { device, .. } => line.number("device", device),
        EventKind::Task { device, stream, task, name } => {
            line.number("device", device);
            line.number("stream", stream);
            line.number("task", task);
            line.word("name", name);
        }
        EventKind::StreamExpansion { status } => line.number("status", status),
        EventKind::DeviceClock { device, frequency_khz, counter, width } => {
            line.number("device", device);
            line.number("frequency_khz", frequency_khz);
            line.word("counter", counter);
            line.number("width", width);
        }
        EventKind::Execution { device, streams, line: log } => {
            line.number("device", device);
            line.number("streams", u8::from(streams));
            line.number("stream", log.stream);
            line.number("task", log.task);
            line.number("unit", log.unit);
            line.number("end", u8::from(log.end));
            line.word("counter", log.counter);
        }
        EventKind::AtbOperatorStart { launch, device, workspace, workspace_size } => {
            line.number("launch", launch);
            line.number("device", device);
            line.word("workspace", workspace);
            line.number("workspace_size", workspace_size);
        }
        EventKind::AtbOperatorEnd { launch } => line.number("launch", launch),
        EventKind::AtbKernel { phase, device } => {
            line.number("phase", phase as u8);
            line.number("device", device);
        }
        EventKind::Access { mode, owner, device, address, size } => {
            line.number("mode", mode as u8);
            line.number("owner", owner as u8);
            line.number("device", device);
            line.word("address", address);
            line.number("size", size);
        }
        EventKind::Heap { space, device, address, size } => {
            line.number("space", space as u8);
            line.number("device", device);
            line.word("address", address);
            line.number("size", size);
        }
    }
}

fn definition(text: &mut String, definition: Definition<'_>) {
    match definition {
        Definition::Module { id, start, end, bias, build_id, path } => line(text, "module", |line| {
            line.number("id", id);
            line.word("start", start);
            line.word("end", end);
            line.word("bias", bias);
            line.text("build_id", build_id);
            line.text("path", path);
        }),
        Definition::Code { id, python_version, first_line, file, function, line_table } => line(text, "code", |line| {
            line.number("id", id);
            line.number("python_version", python_version);
            line.number("first_line", first_line);
            line.text("file", file);
            line.text("function", function);
            line.text("line_table", line_table);
        }),
        Definition::Node { id, parent, frame } => line(text, "node", |line| {
            line.number("id", id);
            line.number("parent", parent);
            match frame {
                FrameRecord::C { module, offset } => {
                    line.number("module", module);
                    line.word("offset", offset);
                }
                FrameRecord::Unknown { address } => line.word("address", address),
                FrameRecord::Python { code, instruction } => {
                    line.number("code", code);
                    line.number("instruction", instruction);
                }
            }
        }),
        Definition::Text { text: bytes, .. } => line(text, "text", |line| line.text("text", bytes)),
        Definition::VisibleDevices { text: bytes } => line(text, "visible_devices", |line| line.text("text", bytes)),
        Definition::KernelName { hash, text: bytes } => line(text, "kernel_name", |line| {
            line.word("hash", hash);
            line.text("text", bytes);
        }),
        Definition::Launch { path, name } => line(text, "names", |line| {
            line.text("path", path);
            line.text("name", name);
        }),
        Definition::Tensor(shape) => line(text, "tensor", |line| {
            line.number("dtype", shape.dtype);
            line.number("format", shape.format);
            for dimension in shape.dimensions() {
                line.number("dimension", dimension);
            }
        }),
    }
}

fn line(text: &mut String, name: &str, fields: impl FnOnce(&mut Line<'_>)) {
    text.push_str(name);
    fields(&mut Line(text));
    text.push('\n');
}

/// The fields of a line.
struct Line<'a>(&'a mut String);

impl Line<'_> {
    fn number(&mut self, name: &str, value: impl fmt::Display) {
        let _ = write!(self.0, " {name}={value}");
    }

    fn word(&mut self, name: &str, value: u64) {
        let _ = write!(self.0, " {name}={value:#x}");
    }

    fn text(&mut self, name: &str, bytes: &[u8]) {
        let _ = write!(self.0, " {name}=\"{}\"", bytes.escape_ascii());
    }
}
