//! Lines for a person, the one place where text from outside is made fit to be shown.
//!
//! Names of programs, files, functions, threads and marks hold whatever their authors like, and a recording whatever its
//! sender likes. What a terminal would obey instead of showing it, or what makes a line read as another, is shown as an
//! escape. [`Line`] is the only thing that [`crate::printer::Printer`] and the Python package show of a view, and there is no
//! way to make one but through here, so that no view can forget it.
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// One line, without its end: outside text is escaped in it, and control characters are the layout's own styling.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line(String);

impl Line {
    pub fn new(text: impl AsRef<str>) -> Line {
        Line(escaped(text.as_ref()).into_owned())
    }

    /// The same between sequences of the terminal's, which are the caller's own.
    pub(crate) fn styled(self, begin: &'static str, end: &'static str) -> Line {
        Line(format!("{begin}{}{end}", self.0))
    }

    /// The same with more behind it.
    #[must_use]
    pub fn then(mut self, more: impl Into<Line>) -> Line {
        self.0.push_str(&more.into().0);
        self
    }

    /// The same so many columns further right.
    #[must_use]
    pub fn indented(mut self, columns: usize) -> Line {
        self.0.insert_str(0, &" ".repeat(columns));
        self
    }

    /// Several of them, each with its end.
    pub fn text(lines: &[Line]) -> String {
        lines.iter().flat_map(|line| [line.0.as_str(), "\n"]).collect()
    }
}

impl Deref for Line {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Line {
        Line::new(text)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Line {
        Line::new(text)
    }
}

impl PartialEq<&str> for Line {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

/// A [`Line`], as `format!` makes a text.
macro_rules! line_of {
    ($($part:tt)*) => {
        $crate::line::Line::new(format!($($part)*))
    };
}
pub(crate) use line_of;

/// Whether a terminal, or who reads a log, takes a character for something other than itself: control characters (C0, DEL
/// and C1), ends of lines and paragraphs, and marks that turn the direction of writing.
fn is_obeyed(character: char) -> bool {
    const MARKS: [char; 3] = ['\u{61c}', '\u{200e}', '\u{200f}'];
    character.is_control()
        || MARKS.contains(&character)
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text as it may be shown: `\n`, `\u{1b}`, `\u{202e}` stand for what is not to be obeyed. What was escaped stays as it is.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_obeyed(character) { shown.extend(character.escape_default()) } else { shown.push(character) }
    }
    Cow::Owned(shown)
}

/// A whole text of our own making whose lines hold text from outside: only the ends of lines stay.
pub fn escaped_lines(text: &str) -> String {
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(escaped).collect();
    lines.join("\n")
}

/// What something says of itself, escaped: for errors and the like, which quote what they are about.
#[derive(Debug)]
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped(&self.0.to_string()))
    }
}

/// A JSON document that means the same and that a terminal can be given: inside of its strings, and nowhere else can they be,
/// the characters are written by their numbers.
pub fn json_for_terminal(document: &str) -> Cow<'_, str> {
    let is_left = |character: char| character != '\n' && is_obeyed(character);
    if !document.contains(is_left) {
        return Cow::Borrowed(document);
    }
    let mut shown = String::with_capacity(document.len() + 16);
    for character in document.chars() {
        match is_left(character) {
            // None of them is beyond the numbers of four digits.
            true => shown.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_and_all_else_stays() {
        for (text, shown) in [
            ("a\nb\r\t\u{1b}]0;x\u{7}", "a\\nb\\r\\t\\u{1b}]0;x\\u{7}"),
            ("\0\u{7f}\u{80}\u{9b}31m\u{9f}", "\\u{0}\\u{7f}\\u{80}\\u{9b}31m\\u{9f}"),
            ("\u{61c}\u{200e}\u{200f}", "\\u{61c}\\u{200e}\\u{200f}"),
            ("\u{2028}\u{2029}\u{202a}\u{202e}", "\\u{2028}\\u{2029}\\u{202a}\\u{202e}"),
            ("\u{2066}\u{2069}", "\\u{2066}\\u{2069}"),
            ("权重 é … \u{fffd} \\n 'q' \u{a0}\u{200d}", "权重 é … \u{fffd} \\n 'q' \u{a0}\u{200d}"),
        ] {
            assert_eq!(escaped(text), shown);
            assert_eq!(escaped(shown), shown, "once is enough");
            assert_eq!(Line::new(text), shown);
        }
        assert_eq!(escaped_lines("a\u{1b}\nb\n"), "a\\u{1b}\nb\n");
        assert_eq!(Escaped("x\ny").to_string(), "x\\ny");
    }

    #[test]
    fn styling_is_the_only_thing_that_is_not_escaped() {
        let line = Line::new("  ").then(Line::new("\u{1b}[31mx").styled("\u{1b}[1m", "\u{1b}[0m")).then("\u{1b}");
        assert_eq!(line, "  \u{1b}[1m\\u{1b}[31mx\u{1b}[0m\\u{1b}");
        assert_eq!(Line::new(&*line), "  \\u{1b}[1m\\u{1b}[31mx\\u{1b}[0m\\u{1b}", "not even a line's own text");
        assert_eq!(Line::text(&["a".into(), Line::new("b\n").indented(2)]), "a\n  b\\n\n");
    }

    #[test]
    fn a_json_document_for_a_terminal_means_the_same() {
        let value = serde_json::json!({ "a\u{9b}\u{202e}": ["\u{7f}\u{1b}\n", "权"] });
        let document = format!("{value:#}\n");
        let shown = json_for_terminal(&document);
        assert!(shown.chars().all(|character| character == '\n' || !is_obeyed(character)), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        assert!(matches!(json_for_terminal("{\n}\n"), Cow::Borrowed(_)));
    }
}
