//! Descriptions of tensors, buffers and attributes for single operators.

use sim_boundary::{Handle, In, Out, Text};

use crate::runtime::{INVALID_PARAMETER, OK, Status, written};

/// Shape, type and format of a tensor.
pub struct TensorDescription {
    data_type: i32,
    format: i32,
    dimensions: Vec<i64>,
}

/// A piece of memory.
pub struct DataBuffer {
    address: usize,
    size: usize,
}

/// Attributes of an operator. Nothing here computes with them.
pub struct Attributes;

#[unsafe(no_mangle)]
pub extern "C" fn aclCreateTensorDescImpl(
    data_type: i32,
    count: i32,
    dimensions: In<i64>,
    format: i32,
) -> Handle<TensorDescription> {
    let dimensions = dimensions.list(usize::try_from(count).unwrap_or(0));
    Handle::new(TensorDescription { data_type, format, dimensions })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyTensorDescImpl(description: Handle<TensorDescription>) {
    description.destroy();
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetTensorDescTypeImpl(description: Handle<TensorDescription>) -> i32 {
    description.get().map_or(-1, |description| description.data_type)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetTensorDescFormatImpl(description: Handle<TensorDescription>) -> i32 {
    description.get().map_or(-1, |description| description.format)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetTensorDescNumDimsImpl(description: Handle<TensorDescription>) -> usize {
    description.get().map_or(0, |description| description.dimensions.len())
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetTensorDescDimV2Impl(
    description: Handle<TensorDescription>,
    index: usize,
    size: Out<i64>,
) -> Status {
    match description.get().and_then(|description| description.dimensions.get(index)) {
        Some(&dimension) => written(size.set(dimension)),
        None => INVALID_PARAMETER,
    }
}

/// Bytes of an element of a type, in acl's numbering; 0 for types that have no whole number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn aclDataTypeSizeImpl(data_type: i32) -> usize {
    match data_type {
        2 | 4 | 12 => 1,
        1 | 6 | 7 | 27 => 2,
        0 | 3 | 8 | 33 => 4,
        9..=11 | 16 => 8,
        17 => 16,
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetTensorDescSizeImpl(description: Handle<TensorDescription>) -> usize {
    let Some(description) = description.get() else { return 0 };
    let elements = description.dimensions.iter().product::<i64>().max(0) as usize;
    elements * aclDataTypeSizeImpl(description.data_type)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclSetTensorDescNameImpl(_description: Handle<TensorDescription>, _name: Text) {}

#[unsafe(no_mangle)]
pub extern "C" fn aclSetTensorFormatImpl(_description: Handle<TensorDescription>, _format: i32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclSetTensorShapeImpl(
    _description: Handle<TensorDescription>,
    _count: i32,
    _dimensions: In<i64>,
) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclSetTensorPlaceMentImpl(_description: Handle<TensorDescription>, _place: i32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclSetTensorConstImpl(_description: Handle<TensorDescription>, _data: usize, _size: usize) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclCreateDataBufferImpl(address: usize, size: usize) -> Handle<DataBuffer> {
    Handle::new(DataBuffer { address, size })
}

#[unsafe(no_mangle)]
pub extern "C" fn aclDestroyDataBufferImpl(buffer: Handle<DataBuffer>) -> Status {
    if buffer.destroy().is_some() { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn aclUpdateDataBufferImpl(buffer: Handle<DataBuffer>, address: usize, size: usize) -> Status {
    let Some(buffer) = buffer.get_mut() else { return INVALID_PARAMETER };
    *buffer = DataBuffer { address, size };
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetDataBufferAddrImpl(buffer: Handle<DataBuffer>) -> usize {
    buffer.get().map_or(0, |buffer| buffer.address)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclGetDataBufferSizeV2Impl(buffer: Handle<DataBuffer>) -> usize {
    buffer.get().map_or(0, |buffer| buffer.size)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopCreateAttrImpl() -> Handle<Attributes> {
    Handle::new(Attributes)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopDestroyAttrImpl(attributes: Handle<Attributes>) {
    attributes.destroy();
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrBoolImpl(_attributes: Handle<Attributes>, _name: Text, _value: u8) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrIntImpl(_attributes: Handle<Attributes>, _name: Text, _value: i64) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrFloatImpl(_attributes: Handle<Attributes>, _name: Text, _value: f32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrStringImpl(_attributes: Handle<Attributes>, _name: Text, _value: Text) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrDataTypeImpl(_attributes: Handle<Attributes>, _name: Text, _value: i32) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrListBoolImpl(
    _attributes: Handle<Attributes>,
    _name: Text,
    _count: i32,
    _values: In<u8>,
) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrListDataTypeImpl(
    _attributes: Handle<Attributes>,
    _name: Text,
    _count: i32,
    _values: In<i32>,
) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrListStringImpl(
    _attributes: Handle<Attributes>,
    _name: Text,
    _count: i32,
    _values: In<Text>,
) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrListIntImpl(
    _attributes: Handle<Attributes>,
    _name: Text,
    _count: i32,
    _values: In<i64>,
) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrListFloatImpl(
    _attributes: Handle<Attributes>,
    _name: Text,
    _count: i32,
    _values: In<f32>,
) -> Status {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn aclopSetAttrListListIntImpl(
    _attributes: Handle<Attributes>,
    _name: Text,
    _lists: i32,
    _counts: In<i32>,
    _values: In<In<i64>>,
) -> Status {
    OK
}
