//! `c10::TensorImpl` and its storage.
use crate::layout::{Layout, fixed};
use crate::memory::{at, can_read};

/// What an operator does with a tensor's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    Read,
    Write,
}

/// Where a tensor's memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Host,
    /// A device of whatever torch's `PrivateUse1` is, as the program numbers it; `None` if it does not say.
    Npu(Option<u8>),
}

/// A tensor that has memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tensor<'a> {
    pub place: Place,
    /// `ScalarType`.
    pub dtype: u8,
    /// Of the first element, and of the storage, of which it may be a view.
    pub address: usize,
    pub storage: usize,
    /// Of the elements: their number times their size.
    pub bytes: u64,
    pub dimensions: &'a [i64],
}

/// What is found where a tensor should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen<'a> {
    Memory(Tensor<'a>),
    /// A tensor that stands for others, which have the memory: fake, functional, distributed, batched, sparse.
    Wrapper,
    /// No elements, not defined, or of a device nobody asks for.
    Nothing,
    /// Its parts do not fit together.
    Odd,
}

/// `c10::DeviceType`.
const CPU: u8 = 0;
const META: u8 = 14;
pub const PRIVATE_USE: u8 = 20;
const MOST_DEVICE_TYPES: u8 = 32;
/// No tensor has more.
const MOST_DIMENSIONS: usize = 64;
const LAST_DTYPE: u8 = 63;

/// Bytes of an element, by `ScalarType`; codes behind these are of one byte.
const ELEMENT_BYTES: [u8; 30] =
    [1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 4, 8];

/// Looks at the tensor at `implementation`. Without `trust` nothing is read before it is known that it can be.
///
/// # Safety
/// With `trust`, it is the address of a `TensorImpl` of this layout that lives for `'a`, or null.
#[inline(always)]
pub(crate) unsafe fn see<'a>(implementation: usize, layout: &Layout, undefined: usize, trust: bool) -> Seen<'a> {
    if implementation == 0 || implementation == undefined {
        return Seen::Nothing;
    }
    if !trust && !can_read(implementation, layout.device.max(layout.elements) + 8) {
        return Seen::Odd;
    }
    // SAFETY: the caller's, or it was asked whether it can be read.
    unsafe {
        // What is not trusted yet is held against itself, wherever it is.
        if !trust && shape(implementation, layout, false).is_none() {
            return Seen::Odd;
        }
        let [kind, index] = at::<[u8; 2]>(implementation, layout.device);
        let place = match kind {
            CPU => Place::Host,
            PRIVATE_USE => Place::Npu((index < 0x80).then_some(index)),
            META => return Seen::Wrapper,
            MOST_DEVICE_TYPES.. => return Seen::Odd,
            _ => return Seen::Nothing,
        };
        let storage = at::<usize>(implementation, fixed::TENSOR_STORAGE);
        if storage == 0 {
            return Seen::Wrapper;
        }
        if !trust && !can_read(storage, fixed::STORAGE_BYTES_ARE_SYMBOLIC + 1) {
            return Seen::Odd;
        }
        let data = at::<usize>(storage, fixed::STORAGE_DATA);
        if data == 0 {
            let is_empty = at::<u8>(storage, fixed::STORAGE_BYTES_ARE_SYMBOLIC) == 0
                && at::<u64>(storage, fixed::STORAGE_BYTES) == 0;
            return if is_empty { Seen::Nothing } else { Seen::Wrapper };
        }
        let Some(Shape { dimensions, elements, dtype, offset }) = shape(implementation, layout, trust) else {
            return Seen::Odd;
        };
        let size = u64::from(ELEMENT_BYTES.get(dtype as usize).copied().unwrap_or(1));
        Seen::Memory(Tensor {
            place,
            dtype,
            address: data.wrapping_add(offset.wrapping_mul(size) as usize),
            storage: data,
            bytes: elements.wrapping_mul(size),
            dimensions,
        })
    }
}

/// Sizes, number and type of the elements, and how many of the storage's are before the first.
struct Shape<'a> {
    dimensions: &'a [i64],
    elements: u64,
    dtype: u8,
    offset: u64,
}

/// `None` if they do not fit together.
///
/// # Safety
/// As for [`see`]; what lies within the implementation can be read.
#[inline(always)]
unsafe fn shape<'a>(implementation: usize, layout: &Layout, trust: bool) -> Option<Shape<'a>> {
    // SAFETY: the caller's, or it is asked whether it can be read.
    unsafe {
        let count = at::<usize>(implementation, layout.sizes);
        if count > MOST_DIMENSIONS {
            return None;
        }
        let in_place = implementation + layout.sizes + fixed::SIZES;
        let sizes = if count > fixed::MOST_SIZES_IN_PLACE { at::<usize>(in_place, 0) } else { in_place };
        if !sizes.is_multiple_of(8) || !trust && count > 0 && !can_read(sizes, count * 8) {
            return None;
        }
        let dimensions = core::slice::from_raw_parts(sizes as *const i64, count);
        let product = dimensions.iter().fold(1i64, |product, size| product.wrapping_mul(*size));
        let elements = at::<i64>(implementation, layout.elements);
        let dtype = u8::try_from(at::<u16>(implementation, layout.dtype)).ok().filter(|dtype| *dtype <= LAST_DTYPE)?;
        let offset = u64::try_from(at::<i64>(implementation, layout.storage_offset)).ok()?;
        let elements = u64::try_from(elements).ok().filter(|_| product == elements)?;
        Some(Shape { dimensions, elements, dtype, offset })
    }
}
