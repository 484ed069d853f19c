//! Functions of other libraries, by name and type.

/// Functions that are called and not hooked:
///
/// ```
/// # struct Original(usize);
/// # impl Original {
/// #     const fn new(_name: &'static core::ffi::CStr, place: usize) -> Original { Original(place) }
/// #     fn address(&self) -> usize { self.0 }
/// # }
/// # const RUNTIME: usize = 0;
/// memscope_hook::functions! {
///     found by Original;
///     rtGetDevice(device: *mut i32) -> i32, in RUNTIME, else 0x99;
/// }
/// let mut device = 0;
/// // SAFETY: the pointer is to a variable of that type.
/// let answer = unsafe { rtGetDevice::call(&raw mut device) };
/// # assert_eq!(answer, 0x99);
/// ```
///
/// Each becomes a type of the function's name (or, in `Short is _ZN9MangledEv(…)`, of the short one) with
/// * `find()`, which gives the function or `None`;
/// * `call(arguments)`, if there is an `else`: what stands there is the answer where there is no function;
/// * `NAME`, and `ORIGINAL`, which finds it: `Original::new(name, place)`, a `const fn`, whose `address()` is 0 where there
///   is none.
#[macro_export]
macro_rules! functions {
    (
        found by $Original:ident;
        $(
            $(#[$about:meta])*
            $known_as:ident $(is $name:ident)? ($($argument:ident: $type:ty),* $(,)?) $(-> $answer:ty)?, in $place:expr
                $(, else $absent:expr)?;
        )*
    ) => {
        $( $crate::function! {
            $(#[$about])* $known_as $(is $name)? ($($argument: $type),*) $(-> $answer)?, by $Original, in $place $(, else $absent)?
        } )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! function {
    ($(#[$about:meta])* $name:ident($($arguments:tt)*) $($more:tt)*) => {
        $crate::function! { $(#[$about])* $name is $name($($arguments)*) $($more)* }
    };
    (
        $(#[$about:meta])*
        $known_as:ident is $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?, by $Original:ident, in $place:expr
    ) => {
        $(#[$about])*
        #[allow(non_camel_case_types)]
        pub(crate) enum $known_as {}

        const _: () = {
            type Function = unsafe extern "C" fn($($type),*) $(-> $answer)?;

            const NAME: &core::ffi::CStr = $crate::c_name(concat!(stringify!($name), "\0"));
            static ORIGINAL: $Original = $Original::new(NAME, $place);

            #[allow(dead_code)]
            impl $known_as {
                pub(crate) const NAME: &'static core::ffi::CStr = NAME;
                pub(crate) const ORIGINAL: &'static $Original = &ORIGINAL;

                /// The function itself, if it is there.
                #[inline(always)]
                pub(crate) fn find() -> Option<Function> {
                    match ORIGINAL.address() {
                        0 => None,
                        // SAFETY: the address is that of the C function of this name, which has this type.
                        address => Some(unsafe { core::mem::transmute::<usize, Function>(address) }),
                    }
                }
            }
        };
    };
    (
        $(#[$about:meta])*
        $known_as:ident is $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?, by $Original:ident, in $place:expr,
        else $absent:expr
    ) => {
        $crate::function! {
            $(#[$about])*
            $known_as is $name($($argument: $type),*) $(-> $answer)?, by $Original, in $place
        }

        #[allow(dead_code)]
        impl $known_as {
            /// Calls it; where it is not there, the answer is that of a call without us.
            ///
            /// # Safety
            /// Its own.
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            pub(crate) unsafe fn call($($argument: $type),*) $(-> $answer)? {
                match $known_as::find() {
                    // SAFETY: passed on.
                    Some(function) => unsafe { function($($argument),*) },
                    None => $absent,
                }
            }
        }
    };
}
