//! Nodes of the stack tree.
use super::output::Output;
use super::to_zigzag;
use crate::followers::Followers;
use crate::record::{FrameRecord, frame, kind, node_parent};

/// What the next node is encoded against; apart from [`Deltas`], which every event touches. Zeroed memory is where a
/// generation begins.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct NodeDeltas {
    pub(crate) node: u32,
    /// The code object of the last Python frame.
    pub(crate) code: u32,
    /// Module and offset of the last C frame, and of the last one that did not hang below its predecessor.
    pub(crate) c_frame: (u32, u64),
    branch: (u32, u64),
    pub(crate) followers: Followers,
}

impl NodeDeltas {
    pub const fn new() -> NodeDeltas {
        NodeDeltas { node: 0, code: 0, c_frame: (0, 0), branch: (0, 0), followers: Followers::new() }
    }

    /// Back to where a generation begins. In place: a value of this size must not go over the stack of a recorded program.
    pub fn forget(&mut self) {
        (self.node, self.code) = (0, 0);
        (self.c_frame, self.branch) = ((0, 0), (0, 0));
        self.followers.forget();
    }

    /// The frame that a C frame is expected near.
    pub(crate) fn neighbour(&self, below: u8) -> (u32, u64) {
        if below == node_parent::PREVIOUS { self.c_frame } else { self.branch }
    }

    pub(crate) fn note_c_frame(&mut self, below: u8, frame: (u32, u64)) {
        self.c_frame = frame;
        if below != node_parent::PREVIOUS {
            self.branch = frame;
        }
    }
}

impl Default for NodeDeltas {
    fn default() -> Self {
        NodeDeltas::new()
    }
}

/// A node of the stack tree. The most frequent definition by far, so it has a kind of its own: nodes follow each other in
/// number, hang below the one before, and are frames seen before.
///
/// ```text
/// | number:1 same:1 below:2 frame:2 3:2 | number? | number - parent? | module or code? | offset |
/// | number:1    0   place:2     3:2 3:2 | number? |                 a follower, below the last node
/// ```
///
/// # Safety
/// `out` must be valid for writes of [`MAX_NODE`] bytes.
pub unsafe fn node(out: *mut u8, last: &mut NodeDeltas, id: u32, parent: u32, frame: FrameRecord) -> *mut u8 {
    let follows = id == last.node.wrapping_add(1);
    last.node = id;
    let below = match parent {
        0 => node_parent::NONE,
        parent if parent == id.wrapping_sub(1) => node_parent::PREVIOUS,
        _ => node_parent::EARLIER,
    };
    let mut payload = Output(out);
    let mut begin = |frame_kind: u8, below: u8, known: bool| {
        payload.byte(kind::NODE | frame_kind << 2 | below << 4 | u8::from(known) << 6 | u8::from(!follows) << 7);
        if !follows {
            payload.varint(u64::from(id));
        }
        if frame_kind != frame::FOLLOWER && below == node_parent::EARLIER {
            payload.varint(u64::from(id.wrapping_sub(parent)));
        }
    };
    match frame {
        FrameRecord::C { module, offset } => {
            let neighbour = last.neighbour(below);
            last.note_c_frame(below, (module, offset));
            if below == node_parent::PREVIOUS
                && let Some(place) = last.followers.note(neighbour, (module, offset))
            {
                begin(frame::FOLLOWER, place, false);
                return payload.0;
            }
            begin(frame::C, below, module == neighbour.0);
            if module != neighbour.0 {
                payload.varint(u64::from(module));
            }
            payload.varint(to_zigzag(offset.wrapping_sub(neighbour.1)));
        }
        FrameRecord::Unknown { address } => {
            begin(frame::UNKNOWN, below, false);
            payload.varint(address);
        }
        FrameRecord::Python { code, instruction } => {
            let known = core::mem::replace(&mut last.code, code) == code;
            begin(frame::PYTHON, below, known);
            if !known {
                payload.varint(u64::from(code));
            }
            payload.varint(u64::from(instruction));
        }
    }
    payload.0
}

/// Room a node may need: five numbers and the first byte.
pub const MAX_NODE: usize = 40;
