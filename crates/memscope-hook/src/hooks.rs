//! The table of a library's hooks.

/// All hooks of a library, one line each. There are eight kinds, in this order; each may be left out.
///
/// ```text
/// memscope_hook::hooks! {
///     originals found by Original;
///
///     // implementation(arguments, Entry), by a stub that notes where it was entered.
///     entered {
///         halMemAlloc(address: *mut *mut c_void, size: u64, flag: u64) -> c_int, in DRIVER, else ABSENT => hal::allocate;
///     }
///     // implementation(arguments), which needs no stack.
///     plain { mlockall(flags: c_int) -> c_int, in LIBC, else FAILED => process::lock_all; }
///     // implementation(words), for a function of any number of arguments, each a word. It calls another in place of the original.
///     variadic { execl -> c_int => exec::execl; }
///     // wrapper(address of the original, || original(arguments)).
///     wrapped { fork() -> c_int, in LIBC, else FAILED => process::fork_by; }
///     // A C++ function whose original may throw: began(arguments, Entry) -> Next, ended(answer, token, Entry) -> answer, and
///     // where it is to be seen that it throws, thrown().
///     around { Execute is _ZN3atb6Runner7ExecuteEv(runner: usize), in ATB => atb::execute, atb::executed; }
///     // A C++ function of one argument that returns an object, and is called so often that it has a gate: while that word holds
///     // an address, calls go straight there. Else began(room for the object, argument) -> Next, ended(the same room) -> room.
///     gated { Callbacks is _ZN2at12getCallbacksEi(scope: u8), in TORCH, by GATE => torch::asked, torch::answered; }
///     // implementation(arguments) for two values of the first one; everything else goes straight on to the original.
///     chosen { prctl(option: c_int, value: usize) -> c_int, in LIBC, for SECCOMP, TSC => sandbox::prctl; }
///     // Exported, and in front of nothing.
///     own { InitInjectionMstx(get_table: Option<GetTable>) -> c_int => mstx::initialise; }
/// }
/// ```
///
/// A line gives
/// * the exported function;
/// * a type of its name (in `around` of the name before `is`) with the typed original, as [`functions!`] has it; with
///   `else`, the answer where there is no original, also `call(arguments)`; in `chosen` also `resolve()` and
///   `resolved()`: before the former the hook has no original;
/// * a name in the section `.memscope.exports` of the library, where `scripts/check-preload` reads what it has to export.
///
/// `Original` is the library's own way to find functions, see [`functions!`]. `ORIGINALS` has all of them, by name.
///
/// What is passed on has to be what comes in. This is a table:
///
/// ```
/// # use memscope_hook::Entry;
/// # struct Original(usize);
/// # impl Original {
/// #     const fn new(_name: &'static core::ffi::CStr, place: usize) -> Original { Original(place) }
/// #     fn address(&self) -> usize { self.0 }
/// # }
/// # const HERE: usize = 0;
/// memscope_hook::hooks! {
///     originals found by Original;
///     entered { hooked(address: *mut u8, size: u64) -> i32, in HERE, else 7 => implementation; }
/// }
/// unsafe extern "C" fn implementation(address: *mut u8, size: u64, _entry: Entry) -> i32 {
///     // SAFETY: passed on.
///     unsafe { hooked::call(address, size) }
/// }
/// ```
/// and the same with an argument too few in the table is none,
/// ```compile_fail,E0308
/// # use memscope_hook::Entry;
/// # struct Original(usize);
/// # impl Original {
/// #     const fn new(_name: &'static core::ffi::CStr, place: usize) -> Original { Original(place) }
/// #     fn address(&self) -> usize { self.0 }
/// # }
/// # const HERE: usize = 0;
/// memscope_hook::hooks! {
///     originals found by Original;
///     entered { hooked(address: *mut u8) -> i32, in HERE, else 7 => implementation; }
/// }
/// unsafe extern "C" fn implementation(address: *mut u8, size: u64, _entry: Entry) -> i32 { 0 }
/// ```
/// nor with another type,
/// ```compile_fail,E0308
/// # use memscope_hook::Entry;
/// # struct Original(usize);
/// # impl Original {
/// #     const fn new(_name: &'static core::ffi::CStr, place: usize) -> Original { Original(place) }
/// #     fn address(&self) -> usize { self.0 }
/// # }
/// # const HERE: usize = 0;
/// memscope_hook::hooks! {
///     originals found by Original;
///     entered { hooked(address: *mut u8, size: u32) -> i32, in HERE, else 7 => implementation; }
/// }
/// unsafe extern "C" fn implementation(address: *mut u8, size: u64, _entry: Entry) -> i32 { 0 }
/// ```
/// nor with one that no stub can pass,
/// ```compile_fail,E0277
/// # use memscope_hook::Entry;
/// # struct Original(usize);
/// # impl Original {
/// #     const fn new(_name: &'static core::ffi::CStr, place: usize) -> Original { Original(place) }
/// #     fn address(&self) -> usize { self.0 }
/// # }
/// # const HERE: usize = 0;
/// memscope_hook::hooks! {
///     originals found by Original;
///     entered { hooked(share: f64, size: u64) -> i32, in HERE, else 7 => implementation; }
/// }
/// unsafe extern "C" fn implementation(share: f64, size: u64, _entry: Entry) -> i32 { 0 }
/// ```
/// nor is a call of the original with too few arguments:
/// ```compile_fail,E0061
/// # use memscope_hook::Entry;
/// # struct Original(usize);
/// # impl Original {
/// #     const fn new(_name: &'static core::ffi::CStr, place: usize) -> Original { Original(place) }
/// #     fn address(&self) -> usize { self.0 }
/// # }
/// # const HERE: usize = 0;
/// memscope_hook::hooks! {
///     originals found by Original;
///     entered { hooked(address: *mut u8, size: u64) -> i32, in HERE, else 7 => implementation; }
/// }
/// unsafe extern "C" fn implementation(address: *mut u8, size: u64, _entry: Entry) -> i32 {
///     // SAFETY: passed on.
///     unsafe { hooked::call(address) }
/// }
/// ```
#[macro_export]
macro_rules! hooks {
    (
        originals found by $Original:ident;
        $(entered { $(
            $entered:ident($($entered_argument:ident: $entered_type:ty),* $(,)?) $(-> $entered_answer:ty)?,
                in $entered_place:expr $(, else $entered_absent:expr)? => $entered_by:path;
        )* })?
        $(plain { $(
            $plain:ident($($plain_argument:ident: $plain_type:ty),* $(,)?) $(-> $plain_answer:ty)?,
                in $plain_place:expr, else $plain_absent:expr => $plain_by:path;
        )* })?
        $(variadic { $(
            $variadic:ident $(-> $variadic_answer:ty)? => $variadic_by:path;
        )* })?
        $(wrapped { $(
            $wrapped:ident($($wrapped_argument:ident: $wrapped_type:ty),* $(,)?) $(-> $wrapped_answer:ty)?,
                in $wrapped_place:expr, else $wrapped_absent:expr => $wrapped_by:path;
        )* })?
        $(around { $(
            $around_as:ident is $around:ident($($around_argument:ident: $around_type:ty),* $(,)?),
                in $around_place:expr => $around_by:path $(, $around_then:path $(, $around_thrown:path)?)?;
        )* })?
        $(gated { $(
            $gated_as:ident is $gated:ident($gated_argument:ident: $gated_type:ty),
                in $gated_place:expr, by $gate:path => $gated_by:path, $gated_then:path;
        )* })?
        $(chosen { $(
            $chosen:ident($($chosen_argument:ident: $chosen_type:ty),* $(,)?) -> $chosen_answer:ty,
                in $chosen_place:expr, for $chosen_first:expr, $chosen_second:expr => $chosen_by:path;
        )* })?
        $(own { $(
            $own:ident($($own_argument:ident: $own_type:ty),* $(,)?) $(-> $own_answer:ty)? => $own_by:path;
        )* })?
    ) => {
        $($(
            $crate::function! {
                $entered($($entered_argument: $entered_type),*) $(-> $entered_answer)?,
                by $Original, in $entered_place $(, else $entered_absent)?
            }
            const _: () = {
                $crate::typed_stub!(
                    [#[unsafe(no_mangle)]]
                    $entered($($entered_argument: $entered_type),*) $(-> $entered_answer)? => $entered_by
                );
            };
        )*)?
        $($(
            $crate::function! {
                $plain($($plain_argument: $plain_type),*) $(-> $plain_answer)?,
                by $Original, in $plain_place, else $plain_absent
            }
            $crate::forward!($plain($($plain_argument: $plain_type),*) $(-> $plain_answer)? => $plain_by);
        )*)?
        $($(
            const _: () = {
                $crate::typed_variadic!([#[unsafe(no_mangle)]] $variadic $(-> $variadic_answer)? => $variadic_by);
            };
        )*)?
        $($(
            $crate::function! {
                $wrapped($($wrapped_argument: $wrapped_type),*) $(-> $wrapped_answer)?,
                by $Original, in $wrapped_place, else $wrapped_absent
            }
            const _: () = {
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $wrapped($($wrapped_argument: $wrapped_type),*) $(-> $wrapped_answer)? {
                    let Some(original) = $wrapped::find() else { return $wrapped_absent };
                    // SAFETY: the program's own arguments are passed on.
                    $wrapped_by(original as usize, || unsafe { original($($wrapped_argument),*) })
                }
            };
        )*)?
        $($(
            $crate::function! {
                $around_as is $around($($around_argument: $around_type),*) -> usize, by $Original, in $around_place
            }
            const _: () = {
                $crate::typed_around!(
                    $around($($around_argument: $around_type),*) => $around_by $(, $around_then $(, $around_thrown)?)?
                );
            };
        )*)?
        $($(
            $crate::function! {
                $gated_as is $gated($gated_argument: $gated_type), by $Original, in $gated_place
            }
            const _: () = {
                $crate::typed_gated!($gated($gated_argument: $gated_type) => $gated_by, $gated_then, $gate);
            };
        )*)?
        $($(
            $crate::function! {
                $chosen($($chosen_argument: $chosen_type),*) -> $chosen_answer, by $Original, in $chosen_place
            }
            const _: () = {
                type Function = unsafe extern "C" fn($($chosen_type),*) -> $chosen_answer;
                const _: Function = $chosen_by;
                static RESOLVED: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

                impl $chosen {
                    /// From now on the hook goes on to the original.
                    pub(crate) fn resolve() {
                        RESOLVED.store($chosen::ORIGINAL.address(), core::sync::atomic::Ordering::Relaxed);
                    }

                    /// What the hook goes on to. Until then it has nothing but its implementation.
                    pub(crate) fn resolved() -> Option<Function> {
                        match RESOLVED.load(core::sync::atomic::Ordering::Relaxed) {
                            0 => None,
                            // SAFETY: the address is that of the C function of this name, which has this type.
                            address => Some(unsafe { core::mem::transmute::<usize, Function>(address) }),
                        }
                    }
                }

                $crate::pass_on!(
                    [#[unsafe(no_mangle)]] $chosen but $chosen_first, $chosen_second => $chosen_by, RESOLVED
                );
            };
        )*)?
        $($(
            $crate::forward!($own($($own_argument: $own_type),*) $(-> $own_answer)? => $own_by);
        )*)?

        /// Every function that is hooked, and its name.
        #[allow(dead_code)]
        pub(crate) static ORIGINALS: &[(&core::ffi::CStr, &$Original)] = &[
            $($( ($entered::NAME, $entered::ORIGINAL), )*)?
            $($( ($plain::NAME, $plain::ORIGINAL), )*)?
            $($( ($wrapped::NAME, $wrapped::ORIGINAL), )*)?
            $($( ($around_as::NAME, $around_as::ORIGINAL), )*)?
            $($( ($gated_as::NAME, $gated_as::ORIGINAL), )*)?
            $($( ($chosen::NAME, $chosen::ORIGINAL), )*)?
        ];

        const _: () = {
            const NAMES: &str = concat!(
                $($( stringify!($entered), "\0", )*)?
                $($( stringify!($plain), "\0", )*)?
                $($( stringify!($variadic), "\0", )*)?
                $($( stringify!($wrapped), "\0", )*)?
                $($( stringify!($around), "\0", )*)?
                $($( stringify!($gated), "\0", )*)?
                $($( stringify!($chosen), "\0", )*)?
                $($( stringify!($own), "\0", )*)?
            );
            #[used]
            #[unsafe(link_section = ".memscope.exports")]
            static EXPORTS: [u8; NAMES.len()] = $crate::bytes(NAMES);
        };
    };
}

/// An exported function that is its implementation.
#[doc(hidden)]
#[macro_export]
macro_rules! forward {
    ($name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)? => $implementation:path) => {
        const _: () = {
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) $(-> $answer)? {
                const IMPLEMENTATION: unsafe extern "C" fn($($type),*) $(-> $answer)? = $implementation;
                // SAFETY: the caller's duty is passed on.
                unsafe { IMPLEMENTATION($($argument),*) }
            }
        };
    };
}
