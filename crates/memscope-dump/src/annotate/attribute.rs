//! The attributes of one row with something added, and not a byte changed besides.
use crate::read::attributes::Attributes;
use crate::rows::key;
use memscope_model::Inefficiencies;

/// The number of the block a row allocates, and what an earlier analysis said of it.
pub(super) fn block_of<'a>(attributes: &Attributes<'a>) -> Option<(u64, Option<&'a [u8]>)> {
    let number = attributes.number(key::ALLOCATION_ID).ok().flatten()?;
    Some((number, attributes.get(key::INEFFICIENT)))
}

/// What to put where into the text of the attributes, as it stands in the file, so that it says `found`, too; `None` if it
/// does already, or is in no style that is known. `doubled`: quotes are doubled there.
pub(super) fn insertion(
    text: &[u8],
    earlier: Option<&[u8]>,
    found: Inefficiencies,
    doubled: bool,
) -> Option<(usize, String)> {
    let said = |word: &str| {
        earlier.is_some_and(|earlier| earlier.split(|byte| *byte == b',').any(|one| one == word.as_bytes()))
    };
    let new: Vec<&str> = found.words().filter(|word| !said(word)).collect();
    if new.is_empty() {
        return None;
    }
    let new = new.join(",");
    if let Some(earlier) = earlier {
        return Some((end_of_value(text, earlier)?, format!(",{new}")));
    }
    let end = text.iter().rposition(|byte| *byte == b'}')?;
    let start = text.iter().position(|byte| *byte == b'{')? + 1;
    let inside = text.get(start..end)?.trim_ascii();
    let comma = if inside.is_empty() { "" } else { "," };
    // As the keys before it are written.
    let quote = match inside.first() {
        Some(b'"') if doubled => "\"\"",
        Some(b'"') => "\"",
        Some(b'\'') => "'",
        _ => "",
    };
    let at = start + text[start..end].trim_ascii_end().len();
    Some((at, format!("{comma}{quote}{}{quote}:{quote}{new}{quote}", key::INEFFICIENT)))
}

/// Where the value ends that the key has; it consists of words and commas, which are written as they are in every style.
fn end_of_value(text: &[u8], value: &[u8]) -> Option<usize> {
    if value.is_empty() {
        return None;
    }
    let name = key::INEFFICIENT.as_bytes();
    memchr::memmem::find_iter(text, name).find_map(|at| {
        let is_key = at.checked_sub(1).is_some_and(|before| b"{,\"' ".contains(&text[before]));
        let behind = &text[at + name.len()..];
        let separator = behind.iter().position(|byte| !b"\"': ".contains(byte))?;
        let is_value = behind[..separator].contains(&b':') && behind[separator..].starts_with(value);
        (is_key && is_value).then_some(at + name.len() + separator + value.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: Inefficiencies = Inefficiencies::EARLY_ALLOCATION;

    fn with(text: &str, found: Inefficiencies, doubled: bool) -> String {
        let unescaped = if doubled { text.replace("\"\"", "\"") } else { text.to_owned() };
        let attributes = Attributes::parse(unescaped.as_bytes()).unwrap();
        let earlier = attributes.get(key::INEFFICIENT);
        let mut result = text.to_owned();
        if let Some((at, added)) = insertion(text.as_bytes(), earlier, found, doubled) {
            result.insert_str(at, &added);
        }
        result
    }

    #[test]
    fn it_is_added_in_the_style_of_the_others_at_the_end() {
        let early = |text| with(text, EARLY, false);
        assert_eq!(early("{size:1,owner:a,b}"), "{size:1,owner:a,b,inefficient_type:early_allocation}");
        assert_eq!(early("{}"), "{inefficient_type:early_allocation}");
        assert_eq!(early(r#"{"size":"1"}"#), r#"{"size":"1","inefficient_type":"early_allocation"}"#);
        assert_eq!(early("{ 'size': 1 } "), "{ 'size': 1,'inefficient_type':'early_allocation' } ");
        let doubled = with(r#"{""size"":""1""}"#, EARLY, true);
        assert_eq!(doubled, r#"{""size"":""1"",""inefficient_type"":""early_allocation""}"#);
    }

    #[test]
    fn what_is_there_stays_and_what_is_new_follows_it() {
        let late = Inefficiencies::LATE_DEALLOCATION;
        let text = "{size:1,inefficient_type:late_deallocation,odd,page_type:huge}";
        assert_eq!(with(text, late, false), text);
        assert_eq!(
            with(text, EARLY, false),
            "{size:1,inefficient_type:late_deallocation,odd,early_allocation,page_type:huge}"
        );
        let json = r#"{"inefficient_type":"early_allocation","size":"1"}"#;
        assert_eq!(
            with(json, Inefficiencies::ALL, false),
            r#"{"inefficient_type":"early_allocation,late_deallocation,temporary_idleness","size":"1"}"#
        );
        // A text that looks like the key.
        let text = "{owner:inefficient_type,inefficient_type:early_allocation}";
        assert_eq!(
            with(text, late, false),
            "{owner:inefficient_type,inefficient_type:early_allocation,late_deallocation}"
        );
    }
}
