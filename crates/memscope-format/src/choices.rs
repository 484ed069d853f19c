//! A choice that is one byte of a record.

/// Enumerations whose codes are their places, from 0.
macro_rules! choices {
    ($($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $code:literal,)* })*) => {
        $($(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $code,)*
        }

        impl $name {
            pub const ALL: [$name; [$($code),*].len()] = {
                let codes: &[usize] = &[$($code),*];
                let mut place = 0;
                while place < codes.len() {
                    assert!(codes[place] == place, "a code is not its place");
                    place += 1;
                }
                [$($name::$variant),*]
            };

            pub fn from_code(code: u8) -> Option<$name> {
                $name::ALL.get(code as usize).copied()
            }
        })*
    };
}
pub(crate) use choices;
