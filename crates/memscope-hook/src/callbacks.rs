//! Functions that are handed to somebody else.

/// A list of functions with what they are listed under. The implementation takes an [`Entry`](crate::Entry) after the
/// arguments.
///
/// ```
/// use core::ffi::c_char;
/// use memscope_hook::Entry;
///
/// memscope_hook::callbacks! {
///     /// Index in the table, function.
///     static INJECTED: [usize];
///     1 => mark(message: *const c_char) => on_mark;
/// }
///
/// unsafe extern "C" fn on_mark(_message: *const c_char, _entry: Entry) {}
/// # assert_eq!(INJECTED[0].0, 1);
/// ```
#[macro_export]
macro_rules! callbacks {
    (
        $(#[$about:meta])*
        static $list:ident: [$Key:ty];
        $(
            $key:expr => $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $answer:ty)? => $implementation:path;
        )*
    ) => {
        $(#[$about])*
        static $list: &[($Key, $crate::Callback)] = &[$(($key, {
            $crate::typed_stub!([] $name($($argument: $type),*) $(-> $answer)? => $implementation);
            $name
        })),*];
    };
}
