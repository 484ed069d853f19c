//! The `Attr` cell, in every style it was ever written in: `{key:value,…}`, and as a JSON object.
use super::cells::number;
use crate::rows::key;
use std::borrow::Cow;

/// The most pairs that are kept; no row has as many.
const MOST: usize = 16;

/// The attributes of a row. Of two with one key the first counts: a text behind it may look like anything.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a> {
    pairs: [(&'a [u8], &'a [u8]); MOST],
    count: usize,
    /// Of JSON, texts may have escapes.
    escaped: bool,
}

impl<'a> Attributes<'a> {
    pub(crate) fn empty() -> Attributes<'a> {
        Attributes { pairs: [(b"", b""); MOST], count: 0, escaped: false }
    }

    /// `None` if the cell is no list of attributes.
    pub(crate) fn parse(cell: &'a [u8]) -> Option<Attributes<'a>> {
        let mut attributes = Attributes::empty();
        let cell = cell.trim_ascii();
        if cell.is_empty() || cell == b"N/A" {
            return Some(attributes);
        }
        let inside = cell.strip_prefix(b"{")?.strip_suffix(b"}")?;
        match inside.trim_ascii_start().first() {
            None => {}
            Some(b'"' | b'\'') => attributes.parse_quoted(inside)?,
            Some(_) => attributes.parse_plain(inside)?,
        }
        Some(attributes)
    }

    pub(crate) fn push(&mut self, key: &'a [u8], value: &'a [u8]) {
        if self.count < MOST {
            self.pairs[self.count] = (key, value);
            self.count += 1;
        }
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'a [u8], Cow<'a, [u8]>)> + '_ {
        self.pairs[..self.count].iter().map(|(key, value)| (*key, self.unescaped(value)))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a [u8]> {
        let pair = self.pairs[..self.count].iter().find(|(known, _)| *known == key.as_bytes());
        pair.map(|(_, value)| *value)
    }

    pub(crate) fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        let value = self.get(key)?;
        Some(match self.unescaped(value) {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    pub(crate) fn is(&self, key: &str, value: &str) -> bool {
        self.get(key) == Some(value.as_bytes())
    }

    /// A number; `Err` if there is something else.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, String> {
        match self.get(key) {
            None | Some(b"N/A") => Ok(None),
            Some(text) => match number(text.trim_ascii()) {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{key} is no number in the attributes: {:?}", String::from_utf8_lossy(text))),
            },
        }
    }

    fn unescaped(&self, value: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.escaped || memchr::memchr(b'\\', value).is_none() {
            return Cow::Borrowed(value);
        }
        let quoted = [b"\"", value, b"\""].concat();
        // What is no JSON after all is taken as it is.
        serde_json::from_slice::<String>(&quoted).map_or(Cow::Borrowed(value), |text| Cow::Owned(text.into_bytes()))
    }

    /// `key:value,key:value`. Values are not quoted and may hold commas: a number ends at the next comma, a text where a
    /// known key follows.
    fn parse_plain(&mut self, inside: &'a [u8]) -> Option<()> {
        let mut rest = inside;
        // Blanks before keys are those of the style, and stand before values, too; others are part of their text.
        let mut is_spaced = false;
        while !rest.is_empty() {
            let colon = memchr::memchr(b':', rest)?;
            let key = rest[..colon].trim_ascii();
            let value = &rest[colon + 1..];
            let end = end_of_plain(value);
            rest = value.get(end + 1..).unwrap_or_default();
            is_spaced |= rest.starts_with(b" ");
            self.push(key, if is_spaced { value[..end].trim_ascii() } else { &value[..end] });
        }
        Some(())
    }

    /// `"key":"value","key":"value"`. A quote ends a text if a comma or the end follows: the existing tool escapes none.
    fn parse_quoted(&mut self, inside: &'a [u8]) -> Option<()> {
        self.escaped = true;
        let mut rest = inside.trim_ascii();
        while let Some((quote @ (b'"' | b'\''), behind)) = rest.split_first() {
            let end = memchr::memchr(*quote, behind)?;
            let key = &behind[..end];
            rest = behind[end + 1..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
            let (value, behind) = match rest.split_first() {
                Some((quote @ (b'"' | b'\''), behind)) => {
                    let end = end_of_quoted(behind, *quote)?;
                    (&behind[..end], &behind[end + 1..])
                }
                Some((b'[', _)) => {
                    let end = memchr::memchr(b']', rest)? + 1;
                    (&rest[..end], &rest[end..])
                }
                _ => {
                    let end = memchr::memchr(b',', rest).unwrap_or(rest.len());
                    (rest[..end].trim_ascii(), &rest[end..])
                }
            };
            self.push(key, value);
            rest = behind.trim_ascii_start();
            rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
        }
        rest.is_empty().then_some(())
    }
}

fn end_of_plain(value: &[u8]) -> usize {
    let numeric = value.trim_ascii_start().first().is_some_and(u8::is_ascii_digit);
    for comma in memchr::memchr_iter(b',', value) {
        let behind = value[comma + 1..].trim_ascii_start();
        let word =
            behind.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(behind.len());
        let is_key = behind.get(word) == Some(&b':')
            && word > 0
            && (numeric && number(value[..comma].trim_ascii()).is_some()
                || str::from_utf8(&behind[..word]).is_ok_and(key::is_known));
        if is_key {
            return comma;
        }
    }
    value.len()
}

fn end_of_quoted(text: &[u8], quote: u8) -> Option<usize> {
    memchr::memchr_iter(quote, text).find(|at| {
        let backslashes = text[..*at].iter().rev().take_while(|byte| **byte == b'\\').count();
        backslashes % 2 == 0 && matches!(text[at + 1..].trim_ascii_start().first(), None | Some(b','))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(cell: &str) -> Option<Vec<(String, String)>> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let attributes = Attributes::parse(cell.as_bytes())?;
        Some(attributes.pairs().map(|(key, value)| (text(key), text(&value))).collect())
    }

    fn expected(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    #[test]
    fn all_styles_say_the_same() {
        let same = expected(&[("size", "12"), ("owner", "PTA@a,b"), ("page_type", "huge")]);
        for cell in [
            "{size:12,owner:PTA@a,b,page_type:huge}",
            "{size: 12, owner: PTA@a,b, page_type: huge}",
            r#"{"size":"12","owner":"PTA@a,b","page_type":"huge"}"#,
            r#"{ "size" : 12 , "owner" : "PTA@a,b" , "page_type" : "huge" }"#,
            "{'size': 12, 'owner': 'PTA@a,b', 'page_type': 'huge'}",
        ] {
            assert_eq!(pairs(cell), same, "{cell}");
        }
        for nothing in ["", "{}", "N/A", " { } "] {
            assert_eq!(pairs(nothing), expected(&[]), "{nothing:?}");
        }
    }

    #[test]
    fn commas_and_brackets_stay_in_their_value_and_a_number_ends_before_a_key_nobody_knows() {
        assert_eq!(
            pairs("{size:24,novelty:7,dtype:torch.float32,shape:torch.Size([2, 3])}"),
            expected(&[("size", "24"), ("novelty", "7"), ("dtype", "torch.float32"), ("shape", "torch.Size([2, 3])")])
        );
        assert_eq!(
            pairs("{inefficient_type:early_allocation,late_deallocation,owner:x}"),
            expected(&[("inefficient_type", "early_allocation,late_deallocation"), ("owner", "x")])
        );
        assert_eq!(pairs(r#"{"shape":[2,3],"size":"1"}"#), expected(&[("shape", "[2,3]"), ("size", "1")]));
    }

    #[test]
    fn escapes_are_those_of_json_and_quotes_without_them_do_no_harm() {
        assert_eq!(pairs(r#"{"owner":"a\"b\\\n","size":"1"}"#), expected(&[("owner", "a\"b\\\n"), ("size", "1")]));
        assert_eq!(
            pairs(r#"{"owner":"say "hi" now","size":"1"}"#),
            expected(&[("owner", "say \"hi\" now"), ("size", "1")])
        );
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for cell in ["size:12", "{size:12", "{size}", r#"{"size"}"#, r#"{"size":"1}"#, "12", r#"{"a":"1" x}"#] {
            assert_eq!(pairs(cell), None, "{cell}");
        }
    }
}
