//! Room and colours: rows are as wide as the terminal they go to, and as wide as they like anywhere else.
use crate::line::{Line, escaped};
use console::{Term, measure_text_width, truncate_str};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Columns of the terminal, without what is printed before each line; `None`: no end.
    pub width: Option<usize>,
    pub colours: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emphasis {
    Heading,
    /// The user's own code.
    Own,
    /// What explains little.
    Faint,
    Grown,
    Shrunk,
}

impl Layout {
    /// Of the standard output stream.
    pub fn stdout() -> Layout {
        Layout::of(&Term::stdout(), 0)
    }

    /// Of the standard error stream, behind a prefix of so many columns.
    pub fn stderr(prefix: usize) -> Layout {
        Layout::of(&Term::stderr(), prefix)
    }

    fn of(terminal: &Term, prefix: usize) -> Layout {
        // Asks for NO_COLOR and for what the terminal says it can do.
        let colours = terminal.is_term() && terminal.features().colors_supported();
        let width = terminal.is_term().then(|| usize::from(terminal.size().1).saturating_sub(prefix));
        // One that says 0 does not know.
        Layout { width: width.filter(|width| *width > 0), colours }
    }

    /// The text, cut where the room ends.
    pub fn fit(&self, text: &str) -> Line {
        match self.width {
            Some(width) => Line::new(truncate_str(&escaped(text), width, "…")),
            None => Line::new(text),
        }
    }

    pub fn emphasised(&self, text: impl Into<Line>, emphasis: Emphasis) -> Line {
        let line = text.into();
        if !self.colours {
            return line;
        }
        let begin = match emphasis {
            Emphasis::Heading => "\u{1b}[1m",
            Emphasis::Own => "\u{1b}[33m",
            Emphasis::Faint => "\u{1b}[2m",
            Emphasis::Grown => "\u{1b}[31m",
            Emphasis::Shrunk => "\u{1b}[32m",
        };
        line.styled(begin, "\u{1b}[0m")
    }

    /// The same behind so many more columns.
    pub fn narrower(self, columns: usize) -> Layout {
        Layout { width: self.left(columns), ..self }
    }

    /// Room that is left behind `used` columns.
    pub fn left(&self, used: usize) -> Option<usize> {
        self.width.map(|width| width.saturating_sub(used))
    }
}

/// As many of the texts, joined, as there is room for, but at least a part of the first. They are escaped here, for an escape
/// takes more room than what it stands for.
pub fn joined_within(texts: &[String], separator: &str, room: Option<usize>) -> String {
    let mut texts = texts.iter().map(|text| escaped(text));
    let Some(first) = texts.next() else { return String::new() };
    let mut line = match room {
        Some(room) => shortened_path(&first, room),
        None => first.into_owned(),
    };
    let room = room.unwrap_or(usize::MAX);
    for text in texts {
        let text = &*text;
        let width = measure_text_width(&line) + measure_text_width(separator) + measure_text_width(text);
        if width > room {
            break;
        }
        line.push_str(separator);
        line.push_str(text);
    }
    line
}

/// The end of a path says more than its beginning: the file rather than its folders.
fn shortened_path(text: &str, room: usize) -> String {
    if measure_text_width(text) <= room {
        return text.to_owned();
    }
    // `function at path:line` or `path(line): function`.
    let (function, mut path) = match text.split_once(" at ") {
        Some((function, path)) => (format!("{function} at "), path),
        None => (String::new(), text),
    };
    let left = room.saturating_sub(measure_text_width(&function));
    while measure_text_width(path) + 2 > left
        && let Some((_, inner)) = path.split_once('/')
    {
        path = inner;
    }
    let cut = if path.len() < text.len() - function.len() { "…/" } else { "" };
    truncate_str(&format!("{function}{cut}{path}"), room, "…").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_ends_where_the_room_ends() {
        let texts = ["aaa".to_owned(), "bbb".to_owned(), "ccc".to_owned()];
        assert_eq!(joined_within(&texts, " < ", None), "aaa < bbb < ccc");
        assert_eq!(joined_within(&texts, " < ", Some(14)), "aaa < bbb");
        assert_eq!(joined_within(&texts, " < ", Some(2)), "a…");
        assert_eq!(joined_within(&[], " < ", Some(2)), "");
    }

    #[test]
    fn folders_are_given_up_before_the_file_and_its_line() {
        let text = "/opt/lib/python3.11/site-packages/torch/nn/module.py(17): Module.__call__".to_owned();
        assert_eq!(joined_within(std::slice::from_ref(&text), " < ", Some(40)), "…/nn/module.py(17): Module.__call__");
        let shown = joined_within(&[text], " < ", Some(20));
        assert_eq!((measure_text_width(&shown), shown.as_str()), (20, "…/module.py(17): Mo…"));
        let native = "parse_header at /home/me/src/demo/leaky.c:14".to_owned();
        assert_eq!(joined_within(&[native], " < ", Some(36)), "parse_header at …/demo/leaky.c:14");
        let own = "/home/me/train.py(4): step".to_owned();
        assert_eq!(joined_within(std::slice::from_ref(&own), " < ", Some(26)), own);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let layout = Layout { width: Some(5), colours: false };
        assert_eq!(measure_text_width(&layout.fit("权重权重")), 5);
    }
}
