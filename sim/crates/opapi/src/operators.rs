//! The operators that compute nothing, from `ops.txt`.

use sim_boundary::{Handle, Out, settings};

use crate::execution::{Executor, Kernel};

/// Declares an operator. One whose arguments are counted can find its two results and ask for workspace. The others leave
/// their results alone, which callers have set to "none"; C lets a function ignore arguments it does not know.
///
/// Only integer and pointer arguments are counted, because numbers with a point travel in registers of their own.
macro_rules! operator {
    ($name:literal, $launch:ident, $plan:ident, []) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $plan() -> i32 {
            0
        }
        operator!($name, $launch);
    };
    ($name:literal, $launch:ident, $plan:ident, [$($argument:ident,)+]) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $plan($($argument: usize,)+ workspace: Out<u64>, _executor: Out<Handle<Executor>>) -> i32 {
            let bytes = settings::WORKSPACE_BYTES.get();
            if bytes != 0 {
                workspace.set(bytes);
            }
            0
        }
        operator!($name, $launch);
    };
    ($name:literal, $launch:ident) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $launch(_workspace: usize, _size: u64, executor: Handle<Executor>, stream: usize) -> i32 {
            static KERNEL: Kernel = Kernel::new($name);
            KERNEL.launch(executor, stream)
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/operators.rs"));

// The first phases of these are in `computing`.
operator!(c"Add", aclnnAdd);
operator!(c"ConstantPadNd", aclnnConstantPadNd);
operator!(c"InplaceAdd", aclnnInplaceAdd);
operator!(c"InplaceCopy", aclnnInplaceCopy);
operator!(c"InplaceFillScalar", aclnnInplaceFillScalar);
operator!(c"InplaceOne", aclnnInplaceOne);
operator!(c"InplaceZero", aclnnInplaceZero);
