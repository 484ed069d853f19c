//! The few operators that really compute, so that a watched block changes when the program says so.

use sim_boundary::{Handle, Out, settings};

use crate::argument::{List, Scalar};
use crate::element::Number;
use crate::execution::{Executor, plan};
use crate::tensor::Tensor;

const INVALID_PARAMETER: i32 = 161_001;

fn ask_for_workspace(workspace: Out<u64>) {
    let bytes = settings::WORKSPACE_BYTES.get();
    if bytes != 0 {
        workspace.set(bytes);
    }
}

fn copy(to: &Tensor, from: &Tensor) {
    let Some(from) = from.broadcast(&to.sizes) else { return };
    let (true, Some(bytes)) = (to.present() && from.present(), to.data_type.bytes()) else { return };
    if to.data_type != from.data_type {
        for (to_element, from_element) in to.addresses().zip(from.addresses()) {
            if let Some(value) = from.data_type.read(from_element) {
                to.data_type.write(to_element, value);
            }
        }
    } else if let (true, Some(to_start), Some(from_start)) =
        (to.contiguous() && from.contiguous(), to.start(), from.start())
    {
        copy_bytes(to_start, from_start, to.count() * bytes);
    } else {
        to.addresses().zip(from.addresses()).for_each(|(to, from)| copy_bytes(to, from, bytes));
    }
}

/// Between addresses found present before.
fn copy_bytes(to: usize, from: usize, size: usize) {
    // SAFETY: `Tensor::present` has found both ranges in live simulated memory, which is host memory; they may overlap.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, size) };
}

fn fill(tensor: &Tensor, value: Number) {
    if tensor.present() {
        tensor.addresses().for_each(|address| {
            tensor.data_type.write(address, value);
        });
    }
}

fn add(result: &Tensor, left: &Tensor, right: &Tensor, factor: Number) {
    let (Some(left), Some(right)) = (left.broadcast(&result.sizes), right.broadcast(&result.sizes)) else { return };
    if !(result.present() && left.present() && right.present()) {
        return;
    }
    for ((result_at, left_at), right_at) in result.addresses().zip(left.addresses()).zip(right.addresses()) {
        if let (Some(a), Some(b)) = (left.data_type.read(left_at), right.data_type.read(right_at)) {
            result.data_type.write(result_at, a.plus(b, factor));
        }
    }
}

fn factor(alpha: Handle<Scalar>) -> Number {
    alpha.get().map_or(Number::Integer(1), |alpha| alpha.0)
}

#[unsafe(no_mangle)]
pub extern "C" fn aclnnInplaceCopyGetWorkspaceSize(
    to: Handle<Tensor>,
    from: Handle<Tensor>,
    workspace: Out<u64>,
    executor: Out<Handle<Executor>>,
) -> i32 {
    let (Some(to), Some(from)) = (to.get().cloned(), from.get().cloned()) else { return INVALID_PARAMETER };
    ask_for_workspace(workspace);
    plan(executor, move || copy(&to, &from))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclnnInplaceZeroGetWorkspaceSize(
    tensor: Handle<Tensor>,
    _workspace: Out<u64>,
    executor: Out<Handle<Executor>>,
) -> i32 {
    let Some(tensor) = tensor.get().cloned() else { return INVALID_PARAMETER };
    plan(executor, move || fill(&tensor, Number::Integer(0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclnnInplaceOneGetWorkspaceSize(
    tensor: Handle<Tensor>,
    _workspace: Out<u64>,
    executor: Out<Handle<Executor>>,
) -> i32 {
    let Some(tensor) = tensor.get().cloned() else { return INVALID_PARAMETER };
    plan(executor, move || fill(&tensor, Number::Integer(1)))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclnnInplaceFillScalarGetWorkspaceSize(
    tensor: Handle<Tensor>,
    value: Handle<Scalar>,
    _workspace: Out<u64>,
    executor: Out<Handle<Executor>>,
) -> i32 {
    let (Some(tensor), Some(value)) = (tensor.get().cloned(), value.get()) else { return INVALID_PARAMETER };
    let value = value.0;
    plan(executor, move || fill(&tensor, value))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclnnAddGetWorkspaceSize(
    left: Handle<Tensor>,
    right: Handle<Tensor>,
    alpha: Handle<Scalar>,
    result: Handle<Tensor>,
    workspace: Out<u64>,
    executor: Out<Handle<Executor>>,
) -> i32 {
    let (Some(left), Some(right), Some(result)) = (left.get().cloned(), right.get().cloned(), result.get().cloned())
    else {
        return INVALID_PARAMETER;
    };
    let factor = factor(alpha);
    ask_for_workspace(workspace);
    plan(executor, move || add(&result, &left, &right, factor))
}

#[unsafe(no_mangle)]
pub extern "C" fn aclnnInplaceAddGetWorkspaceSize(
    tensor: Handle<Tensor>,
    other: Handle<Tensor>,
    alpha: Handle<Scalar>,
    workspace: Out<u64>,
    executor: Out<Handle<Executor>>,
) -> i32 {
    let (Some(tensor), Some(other)) = (tensor.get().cloned(), other.get().cloned()) else { return INVALID_PARAMETER };
    let factor = factor(alpha);
    ask_for_workspace(workspace);
    plan(executor, move || add(&tensor, &tensor, &other, factor))
}

/// torch_npu pads what it sends to other ranks, so this must be right for ranks to agree.
#[unsafe(no_mangle)]
pub extern "C" fn aclnnConstantPadNdGetWorkspaceSize(
    tensor: Handle<Tensor>,
    padding: Handle<List<i64>>,
    value: Handle<Scalar>,
    result: Handle<Tensor>,
    workspace: Out<u64>,
    executor: Out<Handle<Executor>>,
) -> i32 {
    let (Some(tensor), Some(padding), Some(value), Some(result)) =
        (tensor.get().cloned(), padding.get(), value.get(), result.get().cloned())
    else {
        return INVALID_PARAMETER;
    };
    let (padding, value) = (padding.0.clone(), value.0);
    ask_for_workspace(workspace);
    plan(executor, move || {
        fill(&result, value);
        if let Some(inner) = result.without(&padding) {
            copy(&inner, &tensor);
        }
    })
}
