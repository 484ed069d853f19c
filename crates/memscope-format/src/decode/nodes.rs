//! Nodes of the stack tree, read.
use super::Definition;
use super::fields::{Fields, Nonsense, from_zigzag};
use crate::encode::NodeDeltas;
use crate::record::{FrameRecord, frame, node_parent};

/// A node, whose first byte is `first`. In its only caller: a definition is large, and nodes are many.
#[inline(always)]
pub(super) fn node<'a>(fields: &mut Fields<'a>, first: u8, last: &mut NodeDeltas) -> Result<Definition<'a>, Nonsense> {
    let (frame_kind, below) = (first >> 2 & 3, first >> 4 & 3);
    let (known, numbered) = (first & 1 << 6 != 0, first & 1 << 7 != 0);
    let id = if numbered { fields.small()? } else { last.node.wrapping_add(1) };
    last.node = id;
    let parent = match below {
        _ if frame_kind == frame::FOLLOWER => id.wrapping_sub(1),
        node_parent::NONE => 0,
        node_parent::PREVIOUS => id.wrapping_sub(1),
        node_parent::EARLIER => id.wrapping_sub(fields.small()?),
        _ => return Err(Nonsense),
    };
    let frame = match frame_kind {
        frame::C => {
            let neighbour = last.neighbour(below);
            let module = if known { neighbour.0 } else { fields.small()? };
            let offset = neighbour.1.wrapping_add(from_zigzag(fields.varint()?));
            if below == node_parent::PREVIOUS {
                last.followers.note(neighbour, (module, offset));
            }
            last.note_c_frame(below, (module, offset));
            FrameRecord::C { module, offset }
        }
        frame::FOLLOWER => {
            let (module, offset) = last.followers.follow(last.c_frame, below).ok_or(Nonsense)?;
            last.note_c_frame(node_parent::PREVIOUS, (module, offset));
            FrameRecord::C { module, offset }
        }
        frame::PYTHON => {
            last.code = if known { last.code } else { fields.small()? };
            FrameRecord::Python { code: last.code, instruction: fields.small()? }
        }
        _ => FrameRecord::Unknown { address: fields.varint()? },
    };
    // A node can only hang below an older one: this is what keeps a reader's walk to the root finite.
    if parent >= id {
        return Err(Nonsense);
    }
    Ok(Definition::Node { id, parent, frame })
}
