//! What may have been meant by a name that does not exist.
use super::{OPTIONS, SUB_COMMANDS, SubCommandSpec, VIEW_OPTIONS};

/// What to say about a long option that does not exist; `name` without its dashes.
pub fn hint_for(name: &str) -> String {
    let mut all: Vec<&str> =
        OPTIONS.iter().chain(VIEW_OPTIONS).flat_map(|option| option.names.iter().copied()).collect();
    let mut seen = std::collections::HashSet::new();
    all.retain(|name| seen.insert(*name));
    let names = || all.iter().copied();
    let full: Vec<String> =
        names().filter(|full| !name.is_empty() && full.starts_with(name)).map(|full| format!("--{full}")).collect();
    if !full.is_empty() {
        return format!("options cannot be shortened; write {}", full.join(" or "));
    }
    let closest = names().map(|known| (distance(name, known), known)).min().expect("the table is not empty");
    // A distance near the length of the word means that nothing of it was kept.
    if closest.0 <= closest.1.len() / 2 {
        format!("did you mean --{}?", closest.1)
    } else {
        String::from("--help lists all; options of the program come after its name")
    }
}

/// The sub-command that was meant by a word that is none: one letter is missing, too much or wrong, or two are exchanged; in
/// long words two letters may be wrong.
pub fn mistyped_sub_command(typed: &str) -> Option<&'static SubCommandSpec> {
    let exchanged = |name: &str| {
        let (typed, name): (Vec<char>, Vec<char>) = (typed.chars().collect(), name.chars().collect());
        (1..name.len()).any(|at| {
            let mut other = name.clone();
            other.swap(at - 1, at);
            other == typed
        })
    };
    let near = |spec: &&SubCommandSpec| {
        let edits = distance(typed, spec.name);
        edits == 1 || (edits == 2 && spec.name.len() > 5) || exchanged(spec.name)
    };
    SUB_COMMANDS.iter().filter(|spec| !spec.hidden).find(near)
}

/// Levenshtein's: insertions, deletions and replacements that turn `from` into `to`.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_commands_are_recognised_and_programs_are_not() {
        for (typed, meant) in
            [("tpo", "top"), ("tre", "tree"), ("dif", "diff"), ("flamegraf", "flamegraph"), ("inof", "info")]
        {
            assert_eq!(mistyped_sub_command(typed).map(|spec| spec.name), Some(meant), "{typed}");
        }
        for program in ["ls", "tar", "du", "df", "dir", "find", "python", "bash", "rm", "t"] {
            assert!(mistyped_sub_command(program).is_none(), "{program}");
        }
    }

    #[test]
    fn edit_distance_counts_single_character_edits() {
        for (from, to, edits) in [("", "", 0), ("steps", "steps", 0), ("stpes", "steps", 2), ("", "abc", 3)] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
            assert_eq!(distance(to, from), edits, "{to} {from}");
        }
    }

    #[test]
    fn a_hint_names_the_full_option_the_closest_or_none() {
        assert_eq!(hint_for("call"), "options cannot be shortened; write --call-stack");
        assert_eq!(hint_for("out"), "options cannot be shortened; write --output or --output-path");
        assert_eq!(hint_for("evnets"), "did you mean --events?");
        assert_eq!(hint_for("callstack"), "did you mean --call-stack?");
        assert!(hint_for("zzzzzzzz").starts_with("--help lists all"));
    }
}
