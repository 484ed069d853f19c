//! Entry stubs: functions that add the [`Entry`](crate::Entry) to the arguments of their implementation.
//!
//! Each architecture has `stub!([attributes] name(argument …) => implementation)`, for up to six arguments, and
//! `pass_on!([attributes] name but number, number => implementation, original)`.
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
