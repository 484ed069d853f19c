//! A source-level frame and how it is spelled for people.
use std::fmt::Write;

/// One source-level frame. Inlined frames come innermost first; the last one is the physical function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceFrame {
    /// Demangled; C++ without parameter list and return type, Rust without hash.
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub inlined: bool,
    /// Distance of the return address from the start of the function's symbol, if a symbol is all that is known.
    pub symbol_offset: Option<u64>,
}

/// One line a frame, joined by `\n`: `function at file:line (module+0xoffset)`, with ` [inlined]` at the end where it
/// applies. `offset` is shown as it was recorded, so that it can be given to other tools.
pub fn render_c(module_path: &str, offset: u64, frames: &[SourceFrame]) -> String {
    let module = match module_path.rsplit('/').next() {
        Some(name) if !name.is_empty() => name,
        _ => "??",
    };
    let place = format!("{module}+{offset:#x}");
    if frames.is_empty() {
        return place;
    }
    let mut text = String::new();
    for frame in frames {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(frame.function.as_deref().unwrap_or(&place));
        // Writing to a String cannot fail.
        if let (Some(_), Some(distance)) = (&frame.function, frame.symbol_offset) {
            let _ = write!(text, "+{distance:#x}");
        }
        if let Some(file) = &frame.file {
            let _ = write!(text, " at {file}");
            if let Some(line) = frame.line {
                let _ = write!(text, ":{line}");
            }
        }
        if frame.function.is_some() {
            let _ = write!(text, " ({place})");
        }
        if frame.inlined {
            text.push_str(" [inlined]");
        }
    }
    text
}

/// `file(line): function`; a line nobody knows is left out.
pub fn render_python(file: &str, line: Option<u32>, function: &str) -> String {
    match line {
        Some(line) => format!("{file}({line}): {function}"),
        None => format!("{file}: {function}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: Option<&str>, file: Option<&str>, line: Option<u32>) -> SourceFrame {
        SourceFrame {
            function: function.map(str::to_owned),
            file: file.map(str::to_owned),
            line,
            ..SourceFrame::default()
        }
    }

    #[test]
    fn inlined_frames_are_marked_and_every_frame_has_its_own_line() {
        let inner = SourceFrame { inlined: true, ..frame(Some("grow"), Some("/src/pool.h"), Some(7)) };
        let outer = frame(Some("Pool::get"), Some("/src/pool.cc"), Some(31));
        assert_eq!(
            render_c("/opt/lib/libpool.so", 0x1f3a, &[inner, outer]),
            "grow at /src/pool.h:7 (libpool.so+0x1f3a) [inlined]\nPool::get at /src/pool.cc:31 (libpool.so+0x1f3a)"
        );
    }

    #[test]
    fn a_symbol_without_line_shows_its_distance() {
        let known = SourceFrame { symbol_offset: Some(0x1c), ..frame(Some("malloc"), None, None) };
        assert_eq!(render_c("libc.so.6", 0x98a10, &[known]), "malloc+0x1c (libc.so.6+0x98a10)");
    }

    #[test]
    fn an_unknown_function_is_named_by_its_place() {
        assert_eq!(render_c("/a/b.so", 16, &[]), "b.so+0x10");
        assert_eq!(render_c("/a/b.so", 16, &[frame(None, Some("x.c"), Some(3))]), "b.so+0x10 at x.c:3");
        assert_eq!(render_c("/a/b.so", 16, &[frame(None, Some("x.c"), None)]), "b.so+0x10 at x.c");
        assert_eq!(render_c("", 16, &[]), "??+0x10");
    }

    #[test]
    fn python_frames_put_the_line_after_the_file() {
        assert_eq!(render_python("train.py", Some(12), "Net.forward"), "train.py(12): Net.forward");
        assert_eq!(render_python("train.py", None, "Net.forward"), "train.py: Net.forward");
    }
}
