//! What a frame is to the person who reads about it: code of their own, or one of the many hands memory passes through.
use memscope_analysis::python_code::{self, is_import_machinery};
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Written for this program, as far as its place tells.
    Own,
    /// Installed: packages, shared objects of the system, headers that were compiled in.
    Library,
    /// Gets memory for its caller: naming it explains nothing.
    Wrapper,
    /// Python's import machinery.
    Import,
    /// The C code of the Python interpreter.
    Interpreter,
    /// What is outside of `main`, of a thread's function or of a library's constructors.
    Outset,
}

pub(super) fn of_python(file: &str) -> Role {
    if is_import_machinery(file) {
        return Role::Import;
    }
    if python_code::is_installed(file) { Role::Library } else { Role::Own }
}

/// `module` is the file name of the object; `source` the file its debug information names.
pub(super) fn of_native(function: &str, module: &Path, source: Option<&str>) -> Role {
    let name = module.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    if hands_memory_on(function) {
        return Role::Wrapper;
    }
    if OUTSETS.contains(&function) || is_loader(function, source) {
        return Role::Outset;
    }
    if is_interpreter(&name) {
        return Role::Interpreter;
    }
    let is_object = name.ends_with(".so") || name.contains(".so.");
    let installed =
        is_object && (is_system(&module.to_string_lossy()) || python_code::is_installed(&module.to_string_lossy()));
    if installed || source.is_some_and(is_installed_source) { Role::Library } else { Role::Own }
}

/// The function that runs Python code: where it stands in a native stack, Python frames take its place. From 3.14 on it
/// may be built as one function for each instruction.
pub(super) fn evaluates_python(function: &str) -> bool {
    let function = function.split('.').next().unwrap_or(function);
    matches!(function, "_PyEval_EvalFrameDefault" | "PyEval_EvalFrameEx") || function.starts_with("_TAIL_CALL_")
}

/// `python3.11`, `libpython3.11.so.1.0`.
fn is_interpreter(name: &str) -> bool {
    let rest = name.strip_prefix("lib").unwrap_or(name);
    rest.strip_prefix("python").is_some_and(|version| version.is_empty() || version.starts_with(['2', '3']))
}

/// The way from `dlopen`, which stays, to what a library runs when it is loaded.
fn is_loader(function: &str, source: Option<&str>) -> bool {
    let in_loader = source.is_some_and(|file| file.contains("/elf/dl-") || file.contains("/dlfcn/dlerror"));
    in_loader
        || ["_dl_", "__GI__dl_", "dl_open_worker"].iter().any(|prefix| function.starts_with(prefix))
        || matches!(function, "dlopen_doit" | "dlopen_implementation" | "_dlerror_run")
}

const OUTSETS: [&str; 9] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "__libc_start_main_alias_2",
    "start_thread",
    "clone",
    "clone3",
    "__clone3",
];

fn is_system(path: &str) -> bool {
    ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/", "/usr/local/Ascend/", "["]
        .iter()
        .any(|place| path.starts_with(place))
        || !path.contains('/')
}

/// Headers and crates that compilers put into the program itself.
fn is_installed_source(file: &str) -> bool {
    file.starts_with("/usr/include/")
        || file.starts_with("/rustc/")
        || ["/include/c++/", "/.cargo/registry/", "/rustlib/src/", "/bits/"].iter().any(|part| file.contains(part))
}

/// Functions whose whole business is to get memory for their caller.
fn hands_memory_on(function: &str) -> bool {
    WRAPPERS.contains(&function) || WRAPPER_PREFIXES.iter().any(|prefix| function.starts_with(prefix))
}

const WRAPPERS: &[&str] = &[
    // The C library's.
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "mmap",
    "mmap64",
    "strdup",
    "__strdup",
    "strndup",
    "__strndup",
    "asprintf",
    "vasprintf",
    "getdelim",
    // What nearly every C program calls its own.
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xstrdup",
    "xstrndup",
    "xmemdup",
    "xzalloc",
    "xnmalloc",
    "ximalloc",
    "x2nrealloc",
    "xpalloc",
    "xasprintf",
    "do_xmalloc",
    "ggc_internal_alloc",
    "ggc_internal_cleared_alloc",
    "bfd_malloc",
    "bfd_alloc",
    "bfd_zalloc",
    "_objalloc_alloc",
    "_obstack_newchunk",
    "_obstack_begin",
    "g_malloc",
    "g_malloc0",
    "g_malloc_n",
    "g_malloc0_n",
    "g_realloc",
    "g_strdup",
    "g_slice_alloc",
    "apr_palloc",
    "apr_pcalloc",
    "apr_allocator_alloc",
    "sqlite3Malloc",
    "sqlite3_malloc64",
    "zmalloc",
    "zcalloc",
    "ngx_alloc",
    "ngx_palloc",
    "palloc",
    "OPENSSL_malloc",
    "CRYPTO_malloc",
    "CRYPTO_zalloc",
    // Of C++ and Rust.
    "operator new",
    "operator new[]",
    "__rdl_alloc",
    "__rust_alloc",
    "__rustc::__rust_alloc",
];

const WRAPPER_PREFIXES: &[&str] = &[
    "std::allocator",
    "std::__new_allocator",
    "__gnu_cxx::new_allocator",
    "__gnu_cxx::__alloc_traits",
    "std::_Vector_base",
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create",
    "std::make_unique",
    "std::make_shared",
    "std::allocate_shared",
    "std::__allocate_guarded",
    "std::__shared_count",
    "alloc::alloc::",
    "alloc::raw_vec::",
    "<alloc::alloc::Global",
    "__rdl_",
    // Python's allocators, and those of the packages everybody has.
    "PyMem_",
    "_PyMem_",
    "PyObject_Malloc",
    "PyObject_Realloc",
    "PyObject_Calloc",
    "_PyObject_Malloc",
    "_PyObject_Realloc",
    "_PyObject_Calloc",
    "PyDataMem_",
    "PyArray_malloc",
    // How torch makes an empty tensor, whichever operator needs one.
    "c10::alloc_cpu",
    "c10::DefaultCPUAllocator",
    "c10::StorageImpl::StorageImpl",
    "c10::intrusive_ptr",
    "c10::make_intrusive",
    "c10::impl::wrap_kernel_functor",
    "at::detail::empty_",
    "at::detail::_empty_",
    "at::detail::make_tensor",
    "at::native::empty",
    "at::native::_empty",
    "at::_ops::empty",
    "at::_ops::_empty",
    "at::empty",
    "at::(anonymous namespace)::empty",
    "at::(anonymous namespace)::wrapper_CPU_empty",
    "at::(anonymous namespace)::(anonymous namespace)::wrapper_CPU_empty",
    "at::(anonymous namespace)::wrapper_CPU__empty",
    "at::RegisterBackendSelect",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_python_code_is_told_from_the_users() {
        for library in [
            "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py",
            "/usr/lib/python3/dist-packages/yaml/__init__.py",
            "/usr/lib64/python3.9/json/decoder.py",
            "<frozen abc>",
        ] {
            assert_eq!(of_python(library), Role::Library, "{library}");
        }
        for own in
            ["train.py", "/home/me/python/lib/train.py", "/home/lib/my_site-packages/a.py", "<string>", "<stdin>", ""]
        {
            assert_eq!(of_python(own), Role::Own, "{own}");
        }
        assert_eq!(of_python("<frozen importlib._bootstrap>"), Role::Import);
    }

    #[test]
    fn native_code_has_its_role_by_name_object_and_source() {
        let role = |function: &str, module: &str, source: Option<&str>| of_native(function, Path::new(module), source);
        assert_eq!(role("parse", "/usr/bin/git", None), Role::Own);
        assert_eq!(role("parse", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", None), Role::Own);
        assert_eq!(role("parse", "/home/me/libmine.so.1", None), Role::Own);
        assert_eq!(role("qsort", "/lib/x86_64-linux-gnu/libc.so.6", None), Role::Library);
        assert_eq!(role("at::add", "/v/lib/python3.11/site-packages/torch/lib/libtorch.so", None), Role::Library);
        assert_eq!(role("std::vector<int>::push_back", "/home/me/a", Some("/usr/include/c++/12/x.h")), Role::Library);
        assert_eq!(role("PyList_Append", "/usr/bin/python3.11", None), Role::Interpreter);
        assert_eq!(role("PyList_Append", "/usr/lib/libpython3.11.so.1.0", None), Role::Interpreter);
        assert_eq!(role("run", "/usr/bin/pythonista", None), Role::Own);
        assert_eq!(role("_start", "/home/me/a", None), Role::Outset);
        assert_eq!(role("_start", "/usr/bin/python3.11", None), Role::Outset);
    }

    #[test]
    fn only_functions_that_get_memory_for_others_are_wrappers() {
        for passed in ["operator new", "std::allocator_traits<int>::allocate", "alloc::raw_vec::finish_grow", "xmalloc"]
        {
            assert!(hands_memory_on(passed), "{passed}");
        }
        for named in ["main", "operator newline", "std::vector<int>::push_back", "parse_header"] {
            assert!(!hands_memory_on(named), "{named}");
        }
    }

    #[test]
    fn python_is_evaluated_by_one_function_of_each_version() {
        for function in ["_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault.cold", "_TAIL_CALL_CALL_FUNCTION_EX"] {
            assert!(evaluates_python(function), "{function}");
        }
        assert!(!evaluates_python("_PyEval_Vector") && !evaluates_python("PyEval_EvalCode"));
    }
}
