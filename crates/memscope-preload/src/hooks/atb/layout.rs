//! The objects ATB passes around, as far as they are read. Their classes are not exported, and have been the same since
//! CANN 8.2; members behind those named here differ between versions and are not touched.
use core::mem::offset_of;
use core::ptr::addr_of;
use memscope_recorder::device::DevAddr;

/// What is read of a tensor.
pub(super) struct Tensor<'a> {
    pub(super) address: DevAddr,
    pub(super) size: u64,
    pub(super) dtype: i32,
    pub(super) format: i32,
    pub(super) dimensions: &'a [i64],
}

/// `atb::SVector`: the first elements in place, all of them on the heap if there are more.
#[repr(C)]
struct Vector<T> {
    capacity: usize,
    size: usize,
    inline: [T; 65],
    heap: *const T,
}

/// `atb::Tensor`.
#[repr(C)]
struct OperatorTensor {
    dtype: i32,
    format: i32,
    dimensions: [i64; 8],
    rank: u64,
    device_data: u64,
    host_data: u64,
    size: u64,
}

/// `atb::RunnerVariantPack`.
#[repr(C)]
pub(crate) struct VariantPack {
    in_tensors: Vector<OperatorTensor>,
    out_tensors: Vector<OperatorTensor>,
    in_tensors_can_go: Vector<u8>,
    out_tensors_need_memory: Vector<u8>,
    host_tiling: u64,
    tiling: u64,
    tiling_size: u64,
    workspace: u64,
    workspace_size: u64,
    intermediate: u64,
    intermediate_size: u64,
    context: usize,
}

/// `Mki::SVector`: all in place.
#[repr(C)]
pub(crate) struct InlineVector<T> {
    inline: [T; 49],
    size: usize,
}

/// `Mki::Tensor`.
#[repr(C)]
pub(crate) struct KernelTensor {
    dtype: i32,
    format: i32,
    dimensions: InlineVector<i64>,
    strides: [usize; 3],
    offset: i64,
    data: u64,
    size: u64,
    host_data: u64,
}

const _: () = assert!(size_of::<OperatorTensor>() == 104 && size_of::<Vector<OperatorTensor>>() == 6784);
const _: () = assert!(size_of::<Vector<u8>>() == 96 && offset_of!(VariantPack, in_tensors_can_go) == 13568);
const _: () =
    assert!(offset_of!(VariantPack, workspace) == 13784 && offset_of!(VariantPack, intermediate_size) == 13808);
const _: () = assert!(offset_of!(VariantPack, context) == 13816);
const _: () = assert!(size_of::<KernelTensor>() == 464 && offset_of!(KernelTensor, data) == 440);
const _: () = assert!(offset_of!(InlineVector<KernelTensor>, size) == 22736);

/// No operator has more tensors; a larger number is none.
const MOST_TENSORS: usize = 4096;

impl<T> Vector<T> {
    /// # Safety
    /// `vector` is one of ATB's, of whose elements only the first `size` are set.
    unsafe fn each(vector: *const Vector<T>, mut visit: impl FnMut(*const T)) {
        // SAFETY: the members are set, and the elements up to `size` are.
        unsafe {
            let (size, heap) = (addr_of!((*vector).size).read(), addr_of!((*vector).heap).read());
            let (first, most) =
                if heap.is_null() { (addr_of!((*vector).inline).cast(), 65) } else { (heap, MOST_TENSORS) };
            for index in 0..if size <= most { size } else { 0 } {
                visit(first.add(index));
            }
        }
    }
}

impl<T> InlineVector<T> {
    /// # Safety
    /// `vector` is one of Mki's, of whose elements only the first `size` are set.
    unsafe fn elements<'a>(vector: *const InlineVector<T>) -> &'a [T] {
        // SAFETY: the elements up to `size` are set, and there cannot be more than there is room for.
        unsafe {
            let size = addr_of!((*vector).size).read();
            let size = if size < 49 { size } else { 0 };
            core::slice::from_raw_parts(addr_of!((*vector).inline).cast(), size)
        }
    }
}

impl VariantPack {
    /// # Safety
    /// `pack` is one of ATB's.
    pub(super) unsafe fn workspace(pack: *const VariantPack) -> (DevAddr, u64) {
        // SAFETY: the members are set.
        unsafe {
            let size = addr_of!((*pack).workspace_size).read();
            let intermediate = addr_of!((*pack).intermediate_size).read();
            (DevAddr(addr_of!((*pack).workspace).read()), size.wrapping_add(intermediate))
        }
    }

    /// Whose streams the operator uses; 0 for nobody's.
    ///
    /// # Safety
    /// `pack` is one of ATB's.
    pub(super) unsafe fn context(pack: *const VariantPack) -> usize {
        // SAFETY: the member is set.
        unsafe { addr_of!((*pack).context).read() }
    }

    /// # Safety
    /// `pack` is one of ATB's.
    pub(super) unsafe fn each_in_tensor(pack: *const VariantPack, visit: impl FnMut(Tensor<'_>)) {
        // SAFETY: the vector is one of ATB's.
        unsafe { each_tensor(addr_of!((*pack).in_tensors), visit) }
    }

    /// # Safety
    /// `pack` is one of ATB's.
    pub(super) unsafe fn each_out_tensor(pack: *const VariantPack, visit: impl FnMut(Tensor<'_>)) {
        // SAFETY: the vector is one of ATB's.
        unsafe { each_tensor(addr_of!((*pack).out_tensors), visit) }
    }
}

/// # Safety
/// `tensors` is one of ATB's.
unsafe fn each_tensor(tensors: *const Vector<OperatorTensor>, mut visit: impl FnMut(Tensor<'_>)) {
    // SAFETY: the elements visited are set.
    unsafe {
        Vector::each(tensors, |tensor| {
            let OperatorTensor { dtype, format, dimensions, rank, device_data, size, .. } = &*tensor;
            let rank = (*rank as usize).min(dimensions.len());
            visit(Tensor {
                address: DevAddr(*device_data),
                size: *size,
                dtype: *dtype,
                format: *format,
                dimensions: dimensions.get(..rank).unwrap_or_default(),
            });
        });
    }
}

/// # Safety
/// `tensors` is one of Mki's.
pub(super) unsafe fn each_kernel_tensor(tensors: *const InlineVector<KernelTensor>, mut visit: impl FnMut(Tensor<'_>)) {
    // SAFETY: the elements are set. They are looked at one by one through pointers, because their own vectors are not
    // set to the end.
    unsafe {
        let size = addr_of!((*tensors).size).read();
        for index in 0..if size < 49 { size } else { 0 } {
            let tensor = addr_of!((*tensors).inline).cast::<KernelTensor>().add(index);
            visit(Tensor {
                address: DevAddr(addr_of!((*tensor).data).read()),
                size: addr_of!((*tensor).size).read(),
                dtype: addr_of!((*tensor).dtype).read(),
                format: addr_of!((*tensor).format).read(),
                dimensions: InlineVector::elements(addr_of!((*tensor).dimensions)),
            });
        }
    }
}
