//! Where the members are that are read, in bytes from the beginning of their objects.
//!
//! From compiling the headers of each version; what a column says was compared with what Python knows of the same tensors,
//! for the versions in `docs/compatibility.md`.
use crate::version::{StringForm, Version};

/// What differs between versions, or between the two forms of `std::string`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Of a `std::string`.
    pub string_size: usize,
    /// In a `RecordFunction`: what it is about (0 a text, 1 a schema), its inputs (pointer, length) and outputs (a vector).
    pub subject_kind: usize,
    pub inputs: usize,
    pub outputs: usize,
    /// The tag of an `IValue` that is a list.
    pub list_tag: u32,
    /// In a `TensorImpl`.
    pub sizes: usize,
    pub storage_offset: usize,
    pub elements: usize,
    pub dtype: usize,
    pub device: usize,
    /// In a `FunctionSchema`: the overload's name, and two vectors of `Argument`.
    pub overload: usize,
    pub arguments: usize,
    pub returns: usize,
    pub argument_size: usize,
    /// In an `Argument`.
    pub alias: usize,
}

/// The same in all versions.
pub mod fixed {
    /// In a `RecordFunction`: the text, or the address of the schema.
    pub const SUBJECT: usize = 160;
    pub const SUBJECT_IS_SCHEMA: u8 = 1;

    /// An `IValue`: its payload comes first. A tensor's is its `TensorImpl`, a list's an object that holds a vector.
    pub const VALUE_SIZE: usize = 16;
    pub const VALUE_TAG: usize = 8;
    pub const TENSOR_TAG: u32 = 1;
    /// No tag is larger.
    pub const MOST_TAG: u32 = 40;
    pub const LIST_ELEMENTS: usize = 16;

    pub const TENSOR_STORAGE: usize = 16;
    /// In a `StorageImpl`. The size is no number but an expression if the flag is set.
    pub const STORAGE_DATA: usize = 16;
    pub const STORAGE_BYTES: usize = 48;
    pub const STORAGE_BYTES_ARE_SYMBOLIC: usize = 56;

    /// The sizes of a tensor: how many, and they themselves, or their address if there are more than five.
    pub const SIZES: usize = 8;
    pub const MOST_SIZES_IN_PLACE: usize = 5;

    /// In an `AliasInfo`.
    pub const ALIAS_IS_WRITE: usize = 136;
}

const OLD_STRING: Layout = Layout {
    string_size: 8,
    subject_kind: 168,
    inputs: 184,
    outputs: 256,
    list_tag: 13,
    sizes: 64,
    storage_offset: 152,
    elements: 160,
    dtype: 168,
    device: 170,
    overload: 8,
    arguments: 16,
    returns: 40,
    argument_size: 88,
    alias: 72,
};

const NEW_STRING: Layout = Layout {
    string_size: 32,
    subject_kind: 192,
    inputs: 208,
    outputs: 280,
    overload: 32,
    arguments: 64,
    returns: 88,
    argument_size: 112,
    alias: 96,
    ..OLD_STRING
};

const SECOND_LIST_TAG: Layout = Layout { list_tag: 14, ..NEW_STRING };

/// First and last minor version of torch 2, form of strings, layout.
const LAYOUTS: [(u8, u8, StringForm, Layout); 6] = [
    (3, 3, StringForm::Old, Layout { outputs: 200, ..OLD_STRING }),
    (3, 3, StringForm::Cxx11, Layout { outputs: 224, ..NEW_STRING }),
    (4, 6, StringForm::Old, OLD_STRING),
    (4, 8, StringForm::Cxx11, NEW_STRING),
    (9, 12, StringForm::Cxx11, SECOND_LIST_TAG),
    (
        13,
        15,
        StringForm::Cxx11,
        Layout { sizes: 56, storage_offset: 144, elements: 152, dtype: 160, device: 162, ..SECOND_LIST_TAG },
    ),
];

impl Layout {
    /// `None` for a version that nobody has looked at.
    pub fn of(version: Version, strings: StringForm) -> Option<&'static Layout> {
        let fits = |(first, last, form, _): &&(u8, u8, StringForm, Layout)| {
            version.major == 2 && (*first..=*last).contains(&version.minor) && *form == strings
        };
        LAYOUTS.iter().find(fits).map(|(_, _, _, layout)| layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(minor: u8, strings: StringForm) -> Option<Layout> {
        Layout::of(Version { major: 2, minor }, strings).copied()
    }

    #[test]
    fn a_version_nobody_has_looked_at_has_no_layout() {
        assert_eq!(of(2, StringForm::Old), None);
        assert_eq!(of(7, StringForm::Old), None);
        assert_eq!(of(16, StringForm::Cxx11), None);
        assert_eq!(Layout::of(Version { major: 3, minor: 5 }, StringForm::Cxx11), None);
    }

    #[test]
    fn layouts_change_with_versions_and_with_the_form_of_strings() {
        let outputs = |minor, strings| of(minor, strings).unwrap().outputs;
        assert_eq!([outputs(3, StringForm::Old), outputs(3, StringForm::Cxx11)], [200, 224]);
        assert_eq!([outputs(6, StringForm::Old), outputs(6, StringForm::Cxx11)], [256, 280]);
        let moved = |minor| of(minor, StringForm::Cxx11).map(|layout| (layout.list_tag, layout.device)).unwrap();
        assert_eq!([moved(8), moved(9), moved(12), moved(13)], [(13, 170), (14, 170), (14, 170), (14, 162)]);
    }
}
