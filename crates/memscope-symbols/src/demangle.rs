//! Linker names to the names programmers wrote.
use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};
use rustc_hash::FxHashMap;

/// Longer linker names are shown cut, not demangled: the work grows faster than the name.
const LONGEST_MANGLED: usize = 16 * 1024;
/// Back references let a short mangled name expand without bound.
const LONGEST_READABLE: usize = 64 * 1024;

/// Readable names by linker name. Demangling a C++ template name takes tens of microseconds, and the same few
/// thousand functions, inlined everywhere, make up most frames.
#[derive(Default)]
pub(crate) struct Names(FxHashMap<String, String>);

impl Names {
    pub(crate) fn readable(&mut self, name: &str) -> String {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let readable = readable(name);
        self.0.insert(name.to_owned(), readable.clone());
        readable
    }
}

/// The readable form of a linker name, always one line. C++ loses parameters, return type and clone suffixes
/// (`.cold`, `.isra.0`), Rust its hash.
fn readable(name: &str) -> String {
    // Versions are part of a symbol's name only in `.symtab`, as `memcpy@@GLIBC_2.14`.
    let bare = match name.find('@') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    };
    if bare.len() > LONGEST_MANGLED {
        return printable(cut(bare, LONGEST_MANGLED));
    }
    printable(&rust(bare).or_else(|| cpp(bare)).unwrap_or_else(|| bare.to_owned()))
}

/// Control characters out, so that a name can neither break a line nor drive a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn cut(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    bounded(|out| write!(out, "{demangled:#}"))
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    // `_Z...` never holds a dot of its own: what follows one is the compiler's clone suffix.
    let bytes = name.split('.').next().unwrap_or(name).as_bytes();
    let (symbol, tail) = BorrowedSymbol::with_tail(bytes).ok()?;
    if !tail.is_empty() {
        return None;
    }
    let options = DemangleOptions::new().no_params().no_return_type().hide_expression_literal_types();
    bounded(|out| symbol.structured_demangle(out, &options))
}

fn bounded(write: impl FnOnce(&mut BoundedText) -> fmt::Result) -> Option<String> {
    let mut text = BoundedText(String::new());
    write(&mut text).ok()?;
    Some(text.0)
}

struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST_READABLE {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_language_become_what_was_written() {
        for (mangled, written) in [
            ("main", "main"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_ZN2at6native3addERKNS_6TensorES3_", "at::native::add"),
            ("_ZN3fooIiE3getEv.isra.0.cold", "foo<int>::get"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back"),
            ("_ZN12_GLOBAL__N_14grabEm", "(anonymous namespace)::grab"),
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_Z3fooILj8EEvv", "foo<8>"),
            ("_Znwm", "operator new"),
            ("_Z!", "_Z!"),
            ("", ""),
            ("@", "@"),
        ] {
            assert_eq!(readable(mangled), written, "{mangled}");
        }
    }

    #[test]
    fn a_name_that_would_print_more_than_its_line_is_tamed() {
        assert_eq!(readable("a\nb\x1b[2J"), "a\u{fffd}b\u{fffd}[2J");
    }

    #[test]
    fn overlong_names_are_cut_at_a_character() {
        let name = "é".repeat(LONGEST_MANGLED);
        assert_eq!(readable(&name).len(), LONGEST_MANGLED);
    }

    #[test]
    fn a_name_that_expands_without_bound_stays_mangled() {
        // Each template argument pair refers twice to the one before: the text doubles with every step.
        let mut bomb = String::from("_Z1fI1aIiiE");
        for step in 0..30 {
            // The template's name and the template with its arguments each count as one thing to refer to.
            let previous = base36(1 + 2 * step);
            bomb.push_str(&format!("1bIS{previous}_S{previous}_E"));
        }
        bomb.push_str("Evv");
        assert_eq!(readable(&bomb), bomb);
    }

    fn base36(mut number: usize) -> String {
        let mut digits = Vec::new();
        loop {
            digits.push(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 36]);
            number /= 36;
            if number == 0 {
                break;
            }
        }
        digits.reverse();
        String::from_utf8(digits).unwrap()
    }
}
