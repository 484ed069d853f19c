//! Tensors in device memory.

use crate::element::DataType;

unsafe extern "C" {
    safe fn simHalExamine(address: usize, size: u64, owner: *mut i32) -> i32;
}

/// A view of device memory.
#[derive(Clone)]
pub struct Tensor {
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) offset: i64,
    pub(crate) data_type: DataType,
    pub(crate) format: i32,
    pub(crate) data: usize,
}

impl Tensor {
    pub(crate) fn count(&self) -> usize {
        self.sizes.iter().product::<i64>().max(0) as usize
    }

    /// Whether elements lie one behind the other in order.
    pub(crate) fn contiguous(&self) -> bool {
        let mut expected = 1;
        self.sizes.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            expected *= size;
            fits
        })
    }

    /// Address of the first element.
    pub(crate) fn start(&self) -> Option<usize> {
        Some(self.data.wrapping_add_signed(self.offset as isize * self.data_type.bytes()? as isize))
    }

    /// Whether all elements lie in live simulated device memory. Kernels touch nothing else: a stale plan must not crash the
    /// program that the simulation serves.
    pub(crate) fn present(&self) -> bool {
        let (Some(start), Some(bytes)) = (self.start(), self.data_type.bytes()) else { return false };
        let reach: i64 =
            self.sizes.iter().zip(&self.strides).map(|(&size, &stride)| (size - 1).max(0) * stride.max(0)).sum();
        let mut owner = 0;
        self.count() != 0 && simHalExamine(start, (reach as u64 + 1) * bytes as u64, &mut owner) == 1
    }

    /// The same elements seen with another shape by the rules of broadcasting.
    pub(crate) fn broadcast(&self, sizes: &[i64]) -> Option<Self> {
        let added = sizes.len().checked_sub(self.sizes.len())?;
        let mut strides = vec![0; added];
        for ((&own, &stride), &wanted) in self.sizes.iter().zip(&self.strides).zip(&sizes[added..]) {
            match own {
                _ if own == wanted => strides.push(stride),
                1 => strides.push(0),
                _ => return None,
            }
        }
        Some(Self { sizes: sizes.to_vec(), strides, ..self.clone() })
    }

    /// The part of the tensor that is left when `padding`, pairs of widths from the last axis on, is taken off its borders.
    pub(crate) fn without(&self, padding: &[i64]) -> Option<Self> {
        let mut inner = self.clone();
        for (axis, widths) in (0..inner.sizes.len()).rev().zip(padding.chunks_exact(2)) {
            if widths[0] < 0 || widths[1] < 0 {
                return None;
            }
            inner.offset += widths[0] * inner.strides[axis];
            inner.sizes[axis] -= widths[0] + widths[1];
        }
        Some(inner)
    }

    /// Addresses of all elements in order.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = usize> {
        let bytes = self.data_type.bytes().unwrap_or(0) as i64;
        let start = self.start().unwrap_or(0);
        let mut index = vec![0; self.sizes.len()];
        let mut position = 0i64;
        (0..self.count()).map(move |_| {
            let address = start.wrapping_add_signed((position * bytes) as isize);
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                position += self.strides[axis];
                if index[axis] < self.sizes[axis] {
                    break;
                }
                position -= self.strides[axis] * self.sizes[axis];
                index[axis] = 0;
            }
            address
        })
    }
}
