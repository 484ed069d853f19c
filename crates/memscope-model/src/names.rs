//! The names of kernels and operators: few, and said again and again.
use rustc_hash::FxHashMap;
use std::fmt;

/// The number of a name within a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NameId(pub u32);

/// A name and its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name<'n> {
    pub id: NameId,
    pub text: &'n str,
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// All names seen so far.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<String>,
    ids: FxHashMap<String, NameId>,
}

impl Names {
    pub fn intern(&mut self, text: &str) -> NameId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = NameId(self.texts.len() as u32);
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    /// `None` if the number is of another trace.
    pub fn get(&self, id: NameId) -> Option<Name<'_>> {
        self.texts.get(id.0 as usize).map(|text| Name { id, text })
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_has_the_same_number() {
        let mut names = Names::default();
        let ids = ["MatMul", "Add", "MatMul"].map(|text| names.intern(text));
        assert_eq!((ids[0], names.len()), (ids[2], 2));
        assert_eq!(names.get(ids[1]).map(|name| name.text), Some("Add"));
        assert_eq!(names.get(NameId(9)), None);
    }
}
