//! Entry stubs: functions that add the [`Entry`](crate::Entry) to the arguments of their implementation.
//!
//! Each architecture has `stub!([attributes] name(argument …) => implementation)`, for up to six arguments,
//! `pass_on!([attributes] name but number, number => implementation, original)`, and
//! `variadic!([attributes] name => implementation)`.
use core::marker::PhantomData;

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;

/// A stub, and the proof that its implementation takes what the stub passes.
#[doc(hidden)]
#[macro_export]
macro_rules! typed_stub {
    ([$($export:tt)*] $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)? => $implementation:path) => {
        $( $crate::is_word::<$type>(); )*
        $( $crate::answers::<$answer>(); )?
        const _: unsafe extern "C" fn($($type,)* $crate::Entry) $(-> $answer)? = $implementation;
        $crate::stub!([$($export)*] $name($($argument)*) => $implementation);
    };
}

/// The same for a function of any number of arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! typed_variadic {
    ([$($export:tt)*] $name:ident $(-> $answer:ty)? => $implementation:path) => {
        $( $crate::answers::<$answer>(); )?
        const _: for<'a> unsafe extern "C" fn($crate::Words<'a>) $(-> $answer)? = $implementation;
        $crate::variadic!([$($export)*] $name => $implementation);
    };
}

/// The arguments of a function that takes any number of them, first those that came in registers.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Words<'a> {
    registers: *const usize,
    stack: *const usize,
    call: PhantomData<&'a usize>,
}

impl Words<'_> {
    /// The argument of that number.
    ///
    /// # Safety
    /// The caller gave so many.
    pub unsafe fn word(self, number: usize) -> usize {
        // SAFETY: the stub has stored the registers; behind them the arguments go on where the caller put them.
        unsafe {
            match number.checked_sub(arch::ARGUMENT_REGISTERS) {
                None => *self.registers.add(number),
                Some(on_stack) => *self.stack.add(on_stack),
            }
        }
    }
}
