use super::*;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

unsafe extern "C" {
    fn dlsym(scope: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

const RTLD_NOW: c_int = 2;

/// Tests that load libraries, or say what is loaded, come one after another.
static LOADING: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn by_loader(name: &CStr) -> usize {
    // SAFETY: a valid name in the global scope.
    unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) as usize }
}

/// Compiles a shared library of its own for one test.
fn library(directory: &std::path::Path, name: &str, source: &str, flags: &[&str]) -> CString {
    let path = directory.join(name);
    let file = directory.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let status = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&path)
        .arg(&file)
        .args(flags)
        .status()
        .expect("a C compiler is needed");
    assert!(status.success());
    CString::new(path.into_os_string().into_encoded_bytes()).unwrap()
}

fn scratch(name: &str) -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("memscope-loader-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn symbols_of_the_global_scope_are_those_the_loader_finds() {
    // Plain functions, a variable, several versions (pthread_create, fclose), and those chosen by the processor.
    for name in [
        c"malloc",
        c"free",
        c"dlclose",
        c"pthread_create",
        c"pthread_attr_init",
        c"fclose",
        c"qsort",
        c"environ",
        c"posix_memalign",
        c"mmap64",
        c"memcpy",
        c"strlen",
        c"memset",
        c"time",
        c"gettimeofday",
    ] {
        let found = find_next(name).unwrap_or_else(|| panic!("{name:?} is not found"));
        assert_eq!(found.address, by_loader(name), "{name:?}");
        assert_eq!(find_global(name), Some(found));
        // SAFETY: nothing of the global scope is unloaded here.
        assert_eq!(unsafe { find_next_at_start(name) }, Some(found));
        assert_eq!(found.object.find(name), Some(found.address));
        assert_eq!(Object::of_id(found.object.id()), Some(found.object));
    }
    assert_eq!(find_next(c"no_library_has_this"), None);
    assert_eq!(find_anywhere(c"no_library_has_this"), None);
    assert_eq!(find_anywhere(c""), None);
}

#[test]
fn the_global_scope_is_recognised() {
    let memory = &mut Memory::careful();
    let scope = GlobalScope::find(memory).expect("this loader's structures are as expected");
    assert!((2..100).contains(&scope.count), "{}", scope.count);
}

#[test]
fn what_is_loaded_out_of_sight_is_found_by_file_by_linker_name_and_anywhere() {
    let _alone = LOADING.lock().unwrap();
    let directory = scratch("local");
    for (style, number) in [("gnu", 1), ("sysv", 2)] {
        let function = CString::new(format!("answer_of_{style}")).unwrap();
        let source = format!("int answer_of_{style}(void) {{ return {number}; }}");
        let name = CString::new(format!("libmemscope_{style}_test.so")).unwrap();
        let linker_name = CString::new(format!("libknown_as_{style}.so.1")).unwrap();
        let so_name = format!("-Wl,-soname,{}", linker_name.to_str().unwrap());
        let style = format!("-Wl,--hash-style={style}");
        let path = library(&directory, name.to_str().unwrap(), &source, &[&style, &so_name]);
        let watch = Watch::new();
        assert!(watch.has_changed() && !watch.has_changed());
        // SAFETY: loads a library without initialisers, and asks it for a function of its own.
        let (handle, address) = unsafe {
            let handle = dlopen(path.as_ptr(), RTLD_NOW);
            (handle, dlsym(handle, function.as_ptr()) as usize)
        };
        assert_ne!(address, 0);
        assert!(watch.has_changed() && !watch.has_changed());
        assert_eq!(find_next(&function), None, "it is not in the global scope");
        let found = find_anywhere(&function).unwrap();
        assert_eq!(found.address, address);
        assert_eq!(find_in(&name, &function), Some(found));
        assert_eq!(find_in(&linker_name, &function), Some(found));
        assert_eq!(loaded(&name), Some(found.object));
        // SAFETY: the path is a C string of the loaded object.
        assert_eq!(unsafe { CStr::from_ptr(found.object.path() as *const c_char) }, path.as_c_str());
        // SAFETY: nothing of the library is used any more.
        assert_eq!(unsafe { dlclose(handle) }, 0);
        assert_eq!(find_anywhere(&function), None);
        assert_eq!(Object::of_id(found.object.id()), None);
    }
    assert_eq!(loaded(c"libno_such.so"), None);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn of_several_versions_the_default_one_is_found() {
    let _alone = LOADING.lock().unwrap();
    let directory = scratch("versions");
    std::fs::write(directory.join("map"), "OLD { global: answer; local: *; }; NEW { global: answer; } OLD;").unwrap();
    let source = "int first(void) { return 1; } int second(void) { return 2; }\n\
                  __asm__(\".symver first,answer@OLD\\n.symver second,answer@@NEW\");";
    let map = format!("-Wl,--version-script={}", directory.join("map").display());
    let path = library(&directory, "libversions.so", source, &[&map]);
    // SAFETY: loads a library without initialisers and calls its function, which takes nothing.
    unsafe {
        assert!(!dlopen(path.as_ptr(), RTLD_NOW).is_null());
        let found = find_anywhere(c"answer").unwrap();
        let answer: extern "C" fn() -> c_int = std::mem::transmute(found.address);
        assert_eq!(answer(), 2);
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn searches_survive_libraries_that_come_and_go_meanwhile() {
    let _alone = LOADING.lock().unwrap();
    let directory = scratch("comings");
    let path = library(&directory, "libcomes_and_goes.so", "int here(void) { return 3; }", &[]);
    const SEARCHERS: u32 = 2;
    let over = AtomicBool::new(false);
    let have_searched = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..SEARCHERS {
            scope.spawn(|| {
                let mut searches = 0u32;
                while !over.load(Ordering::Relaxed) {
                    assert!(find_next(c"malloc").is_some());
                    assert_eq!(find_anywhere(c"no_library_has_this"), None);
                    searches += 1;
                    if searches == 1 {
                        have_searched.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut rounds = 0;
        while rounds < 300 || have_searched.load(Ordering::Relaxed) < SEARCHERS {
            rounds += 1;
            // SAFETY: nothing of the library is used.
            unsafe {
                let handle = dlopen(path.as_ptr(), RTLD_NOW);
                assert!(!handle.is_null());
                dlclose(handle);
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    std::fs::remove_dir_all(directory).unwrap();
}
