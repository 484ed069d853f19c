//! Names of operators.

/// A name as it is shown: `aten::add.Tensor`, of an operator with one form only `aten::mm`. Longer ones are cut.
#[derive(Clone, Copy)]
pub struct Text {
    bytes: [u8; Text::LIMIT],
    length: usize,
}

impl Text {
    pub const LIMIT: usize = 256;

    pub const fn new() -> Text {
        Text { bytes: [0; Text::LIMIT], length: 0 }
    }

    pub fn push(&mut self, more: &[u8]) -> &mut Text {
        for byte in more {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
        self
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Default for Text {
    fn default() -> Text {
        Text::new()
    }
}
