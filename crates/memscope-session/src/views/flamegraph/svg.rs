//! A picture for a browser: one file, nothing fetched, readable as it is and explorable where scripts run.
use super::{Flame, Tone};
use crate::line::escaped_lines;
use std::fmt::Write;

const STYLE: &str = include_str!("flame.css");
const SCRIPT: &str = include_str!("flame.js");
const ROW: usize = 18;
const ABOVE: usize = 86;
const BELOW: usize = 12;
/// What the picture is laid out for where no script does it anew.
const COLUMNS: f64 = 1200.0;
const LETTER: f64 = 7.25;

pub fn svg(flame: &Flame) -> String {
    let rows = flame.frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(1);
    let whole = flame.frames.first().map_or(1, |frame| frame.width).max(1) as f64;
    let height = ABOVE + rows * ROW + BELOW;
    let mut text = String::with_capacity(flame.frames.len() * 320 + 16_384);
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\" height=\"{height}\">\n\
         <title>{title}</title>\n<style><![CDATA[\n{STYLE}]]></style>\n\
         <text class=\"title\" x=\"8\" y=\"20\">{title}</text>\n<text class=\"note\" x=\"8\" y=\"38\">{subtitle}</text>\n\
         <text class=\"told\" x=\"8\" y=\"78\"></text>\n",
        title = escaped(&flame.title),
        subtitle = escaped(&flame.subtitle),
    );
    for frame in &flame.frames {
        let (x, width) = (frame.start as f64 / whole * 100.0, frame.width as f64 / whole * 100.0);
        let y = ABOVE + frame.depth * ROW;
        let letters = ((width / 100.0 * COLUMNS - 6.0) / LETTER) as usize;
        let label: String = match frame.label.chars().count() {
            _ if letters < 3 => String::new(),
            length if length <= letters => frame.label.clone(),
            _ => frame.label.chars().take(letters - 1).chain(['…']).collect(),
        };
        let _ = writeln!(
            text,
            "<g class=\"frame {tone} t{tint}\" data-start=\"{}\" data-width=\"{}\" data-depth=\"{}\" data-label=\"{}\">\
             <title>{}</title><rect x=\"{x:.4}%\" y=\"{y}\" width=\"{width:.4}%\" height=\"{}\" rx=\"2\"/>\
             <text x=\"{x:.4}%\" dx=\"4\" y=\"{}\">{}</text></g>",
            frame.start,
            frame.width,
            frame.depth,
            escaped(&frame.label),
            escaped(&frame.detail),
            ROW - 1,
            y + 13,
            escaped(&label),
            tone = class(frame.tone),
            tint = frame.tint % 3,
        );
    }
    legend(&mut text, flame);
    // Last, so that a picture without scripts has no dead buttons.
    let _ = write!(
        text,
        "<g class=\"tools hidden\"><foreignObject x=\"100%\" y=\"42\" width=\"330\" height=\"30\" transform=\"translate(-338 0)\">\
         <div xmlns=\"http://www.w3.org/1999/xhtml\" style=\"display:flex;gap:6px;justify-content:flex-end\">\
         <button type=\"button\" title=\"Escape\">whole picture</button>\
         <input type=\"search\" placeholder=\"search ( / )\" aria-label=\"search\" spellcheck=\"false\"/></div></foreignObject></g>\n\
         <script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n"
    );
    text
}

fn legend(text: &mut String, flame: &Flame) {
    let (mut x, y) = (8, 47);
    for (tone, tint, what) in flame.legend() {
        let _ = writeln!(
            text,
            "<g class=\"{} t{tint}\"><rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" rx=\"2\"/></g>\
             <text class=\"note\" x=\"{}\" y=\"{}\">{what}</text>",
            class(*tone),
            x + 18,
            y + 10,
        );
        x += 18 + what.chars().count() * 8 + 18;
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::All => "all",
        Tone::Own => "own",
        Tone::Python => "python",
        Tone::Native => "native",
        Tone::Plain => "plain",
        Tone::Same => "same",
        Tone::Grown => "grown",
        Tone::Shrunk => "shrunk",
    }
}

/// Any text as the content of an element or of an attribute in double quotes, with none of what would not be shown as itself;
/// characters that XML has no place for are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for character in escaped_lines(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::FlameFrame;
    use super::*;
    use proptest::prelude::*;

    fn flame(name: &str) -> Flame {
        let frame = |depth, start, width| FlameFrame {
            depth,
            start,
            width,
            label: name.to_owned(),
            detail: format!("{name}\nmore"),
            tone: Tone::Own,
            tint: 1,
        };
        let frames = vec![frame(0, 0, 100), frame(1, 0, 60), frame(1, 60, 40)];
        Flame { title: name.to_owned(), subtitle: name.to_owned(), frames }
    }

    /// The picture has what it should have, and of the name nothing but text.
    fn check(name: &str) {
        let text = svg(&flame(name));
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        let elements = |tag: &str| document.descendants().filter(|node| node.has_tag_name((SVG, tag))).count();
        const SVG: &str = "http://www.w3.org/2000/svg";
        assert_eq!((elements("script"), elements("foreignObject"), elements("image"), elements("a")), (1, 1, 0, 0));
        let frames: Vec<_> = document.descendants().filter(|node| node.attribute("data-depth").is_some()).collect();
        assert_eq!(frames.len(), 3);
        for frame in frames {
            let attributes = frame.attributes().all(|attribute| !attribute.name().starts_with("on"));
            assert!(attributes && frame.children().filter(|child| child.is_element()).count() == 3);
        }
    }

    #[test]
    fn a_hostile_name_stays_a_name() {
        for name in [
            "<script>alert(1)</script>",
            "\" onclick=\"alert(1)",
            "' onmouseover='alert(1)",
            "]]><script>alert(1)</script>",
            "&lt;&amp;&#60;",
            "--> <!-- <![CDATA[",
            "\u{0}\u{1}\u{b}\u{1f}\u{7f}\u{85}\u{fffe}\u{ffff}",
            "std::map<std::string, std::vector<int> >::operator[]",
            "\u{1b}]0;x\u{7}\u{9b}\u{202e}\u{2066}\u{2028}\t",
            "权重 💥",
        ] {
            check(name);
        }
        let text = svg(&flame("std::vector<int>"));
        let document = roxmltree::Document::parse(&text).unwrap();
        let label = document.descendants().find_map(|node| node.attribute("data-label"));
        assert_eq!(label, Some("std::vector<int>"));
    }

    proptest! {
        #[test]
        fn any_name_makes_a_well_formed_picture(name in any::<String>()) {
            check(&name);
        }
    }

    #[test]
    fn nothing_is_fetched() {
        let text = svg(&flame("f"));
        let addresses = text.match_indices("http").map(|(at, _)| &text[at..]).filter(|rest| {
            !rest.starts_with("http://www.w3.org/2000/svg\"") && !rest.starts_with("http://www.w3.org/1999/xhtml\"")
        });
        assert_eq!(addresses.count(), 0);
        assert!(!text.contains("url(") && !text.contains("@import"));
    }
}
