//! Objects that describe the arguments of operators.

use sim_boundary::{Handle, In, Out};

use crate::element::{DataType, Number};
use crate::tensor::Tensor;

const OK: i32 = 0;
const INVALID_PARAMETER: i32 = 161_001;

/// A number of some type.
pub struct Scalar(pub(crate) Number);

/// A list of values or of other arguments.
pub struct List<T>(pub(crate) Vec<T>);

#[unsafe(no_mangle)]
pub extern "C" fn aclCreateTensor(
    sizes: In<i64>,
    dimensions: u64,
    data_type: i32,
    strides: In<i64>,
    offset: i64,
    format: i32,
    _storage_sizes: In<i64>,
    _storage_dimensions: u64,
    data: usize,
) -> Handle<Tensor> {
    Handle::new(Tensor {
        sizes: sizes.list(dimensions as usize),
        strides: strides.list(dimensions as usize),
        offset,
        data_type: DataType(data_type),
        format,
        data,
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyTensor(tensor: Handle<Tensor>) -> i32 {
    tensor.destroy();
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclCreateScalar(value: In<u8>, data_type: i32) -> Handle<Scalar> {
    let number = DataType(data_type).read(value.pointer() as usize).unwrap_or(Number::Integer(0));
    Handle::new(Scalar(number))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyScalar(scalar: Handle<Scalar>) -> i32 {
    scalar.destroy();
    OK
}

/// Shape of a tensor, as an array of the caller's to delete. The real library allocates it with C++'s `new[]`, which is
/// `malloc` underneath; so is this one.
#[unsafe(no_mangle)]
pub extern "C" fn aclGetViewShape(tensor: Handle<Tensor>, sizes: Out<*mut i64>, dimensions: Out<u64>) -> i32 {
    let Some(tensor) = tensor.get() else { return INVALID_PARAMETER };
    let copy = Box::leak(tensor.sizes.clone().into_boxed_slice());
    let written = dimensions.set(copy.len() as u64) && sizes.set(copy.as_mut_ptr());
    if written { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetDataType(tensor: Handle<Tensor>, data_type: Out<i32>) -> i32 {
    match tensor.get() {
        Some(tensor) if data_type.set(tensor.data_type.0) => OK,
        _ => INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetFormat(tensor: Handle<Tensor>, format: Out<i32>) -> i32 {
    match tensor.get() {
        Some(tensor) if format.set(tensor.format) => OK,
        _ => INVALID_PARAMETER,
    }
}

/// Declares the functions of a list of values.
macro_rules! value_list {
    ($create:ident, $destroy:ident, $size:ident, $value:ty) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $create(values: In<$value>, count: u64) -> Handle<List<$value>> {
            Handle::new(List(values.list(count as usize)))
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy(list: Handle<List<$value>>) -> i32 {
            list.destroy();
            OK
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $size(list: Handle<List<$value>>, count: Out<u64>) -> i32 {
            match list.get() {
                Some(list) if count.set(list.0.len() as u64) => OK,
                _ => INVALID_PARAMETER,
            }
        }
    };
}

value_list!(aclCreateIntArray, aclDestroyIntArray, aclGetIntArraySize, i64);
value_list!(aclCreateFloatArray, aclDestroyFloatArray, aclGetFloatArraySize, f32);
value_list!(aclCreateBoolArray, aclDestroyBoolArray, aclGetBoolArraySize, u8);

/// Declares the functions of a list that owns its members.
macro_rules! member_list {
    ($create:ident, $destroy:ident, $size:ident, $member:ty) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $create(members: In<Handle<$member>>, count: u64) -> Handle<List<Handle<$member>>> {
            Handle::new(List(members.list(count as usize)))
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $destroy(list: Handle<List<Handle<$member>>>) -> i32 {
            for member in list.destroy().map(|list| list.0).unwrap_or_default() {
                member.destroy();
            }
            OK
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $size(list: Handle<List<Handle<$member>>>, count: Out<u64>) -> i32 {
            match list.get() {
                Some(list) if count.set(list.0.len() as u64) => OK,
                _ => INVALID_PARAMETER,
            }
        }
    };
}

member_list!(aclCreateTensorList, aclDestroyTensorList, aclGetTensorListSize, Tensor);
member_list!(aclCreateScalarList, aclDestroyScalarList, aclGetScalarListSize, Scalar);
