//! Programs compiled here, looked up at addresses they report of themselves or `nm` gives.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::toolchain::{build_id, compile, functions, reported, run, source, strip_into};
use memscope_symbols::{SourceFrame, Symbolizer, render_c};
use tempfile::TempDir;

/// Nothing installed on the machine may answer.
fn symbolizer() -> Symbolizer {
    Symbolizer::with_debug_directories(Vec::new())
}

struct Built {
    directory: TempDir,
    path: PathBuf,
}

fn built(compiler: &str, name: &str, flags: &[&str]) -> Built {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    compile(compiler, &[&source(name)], flags, &path);
    Built { directory, path }
}

/// Function, file name, line, inlined.
fn brief(frames: &[SourceFrame]) -> Vec<(&str, &str, u32, bool)> {
    frames
        .iter()
        .map(|frame| {
            let file = frame.file.as_deref().unwrap_or("?").rsplit('/').next().unwrap();
            (frame.function.as_deref().unwrap_or("?"), file, frame.line.unwrap_or(0), frame.inlined)
        })
        .collect()
}

const INLINED: [(&str, &str, u32, bool); 3] =
    [("innermost", "inlined.c", 10, true), ("middle", "inlined.c", 15, true), ("physical", "inlined.c", 19, false)];

#[test]
fn inlined_c_functions_come_innermost_first_in_every_form_of_debug_information() {
    for flags in [
        &["-g", "-O2"][..],
        &["-g", "-O2", "-gdwarf-4"],
        &["-g", "-O2", "-gdwarf-5"],
        &["-g", "-O2", "-gz=zlib"],
        &["-g", "-O2", "-ffunction-sections", "-Wl,--gc-sections"],
    ] {
        let program = built("cc", "inlined.c", flags);
        let [inlined, private] = reported(&program.path)[..] else { panic!("two reports") };
        let id = build_id(&program.path);
        let mut symbolizer = symbolizer();
        assert_eq!(brief(symbolizer.c_frames(&program.path, &id, inlined)), INLINED, "{flags:?}");
        assert_eq!(
            brief(symbolizer.c_frames(&program.path, &id, private)),
            [("private_function", "inlined.c", 23, false)],
            "{flags:?}"
        );
        assert_eq!(symbolizer.problems(), [""; 0], "{flags:?}");
    }
}

#[test]
fn sections_compressed_by_other_tools_are_read() {
    let program = built("cc", "inlined.c", &["-g", "-O2"]);
    let inlined = reported(&program.path)[0];
    for format in ["zlib-gnu", "zlib-gabi", "zstd"] {
        let packed = program.directory.path().join(format);
        let mut objcopy = Command::new("objcopy");
        objcopy.arg(format!("--compress-debug-sections={format}")).arg(&program.path).arg(&packed);
        // Older binutils have no zstd.
        if !objcopy.output().unwrap().status.success() {
            assert_eq!(format, "zstd");
            continue;
        }
        assert_eq!(brief(symbolizer().c_frames(&packed, &[], inlined)), INLINED, "{format}");
    }
}

#[test]
fn cpp_names_are_qualified_and_without_parameters() {
    let program = built("c++", "names.cc", &["-g", "-O2"]);
    let [inlined, hidden] = reported(&program.path)[..] else { panic!("two reports") };
    let mut symbolizer = symbolizer();
    assert_eq!(
        brief(symbolizer.c_frames(&program.path, &[], inlined)),
        [("pool::Arena<int>::grow", "names.cc", 12, true), ("pool::Arena<int>::get", "names.cc", 18, false)]
    );
    assert_eq!(
        brief(symbolizer.c_frames(&program.path, &[], hidden)),
        [("(anonymous namespace)::hidden", "names.cc", 24, false)]
    );
}

#[test]
fn rust_names_of_both_manglings_are_paths_without_hash() {
    for flags in [&[][..], &["-Csymbol-mangling-version=v0"]] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition=2021", "-g", "-O", "-Ccodegen-units=1"]).args(flags);
        run(rustc.arg("-o").arg(&path).arg(source("names.rs")));
        let (start, size, name) = functions(&path)
            .into_iter()
            .find(|(_, _, name)| name.contains("4pool") && name.contains("3get"))
            .expect("the function that was not inlined");
        let mut symbolizer = symbolizer();
        let mut lines = Vec::new();
        for offset in start + 1..=start + size {
            let frames = brief(symbolizer.c_frames(&path, &[], offset));
            let (function, _, _, inlined) = frames[frames.len() - 1];
            assert!(!inlined && function.ends_with("::get") && function.contains("pool::"), "{name}: {function}");
            if let Some(&(_, file, line, inlined)) = frames.iter().find(|(name, ..)| *name == "names::pool::grow") {
                assert!(inlined && file == "names.rs");
                lines.push(line);
            }
        }
        assert!(lines.contains(&6), "{flags:?}: {lines:?}");
    }
}

#[test]
fn frames_agree_with_binutils_at_every_address() {
    if Command::new("addr2line").arg("--version").output().is_err() {
        return;
    }
    for optimisation in ["-O0", "-O2"] {
        let program = built("cc", "inlined.c", &["-g", optimisation]);
        let ours = ["report", "physical", "private_function", "main"];
        let addresses: Vec<u64> = functions(&program.path)
            .into_iter()
            .filter(|(_, _, name)| ours.contains(&name.as_str()))
            .flat_map(|(start, size, _)| start..start + size)
            .collect();
        assert!(addresses.len() > 50);
        let mut command = Command::new("addr2line");
        command.args(["-a", "-f", "-i", "-e"]).arg(&program.path);
        let theirs = run(command.args(addresses.iter().map(|address| format!("{address:#x}"))));
        let mut symbolizer = symbolizer();
        let mut mine = String::new();
        for &address in &addresses {
            mine.push_str(&format!("{address:#018x}\n"));
            for frame in symbolizer.c_frames(&program.path, &[], address + 1) {
                let line = frame.line.map_or("?".to_owned(), |line| line.to_string());
                mine.push_str(&format!("{}\n", frame.function.as_deref().unwrap_or("??")));
                mine.push_str(&format!("{}:{line}\n", frame.file.as_deref().unwrap_or("??")));
            }
        }
        let theirs: String =
            theirs.lines().map(|line| format!("{}\n", line.split(" (discriminator").next().unwrap())).collect();
        assert_eq!(mine, theirs, "{optimisation}");
    }
}

#[test]
fn without_debug_information_the_symbol_and_its_distance_are_shown() {
    let program = built("cc", "inlined.c", &["-O2", "-g0"]);
    let [inlined, private] = reported(&program.path)[..] else { panic!("two reports") };
    let mut symbolizer = symbolizer();
    for (offset, name) in [(inlined, "physical"), (private, "private_function")] {
        let start = functions(&program.path).into_iter().find(|(_, _, function)| function == name).unwrap().0;
        let expected =
            SourceFrame { function: Some(name.into()), symbol_offset: Some(offset - start), ..SourceFrame::default() };
        assert_eq!(symbolizer.c_frames(&program.path, &[], offset), [expected]);
    }
    assert_eq!(symbolizer.problems(), [""; 0]);
}

#[test]
fn a_return_address_after_the_last_instruction_belongs_to_the_caller_not_to_the_next_function() {
    let program = built("cc", "inlined.c", &["-g", "-O0"]);
    let (start, size, _) =
        functions(&program.path).into_iter().find(|(_, _, name)| name == "physical").expect("physical");
    let mut symbolizer = symbolizer();
    assert_eq!(symbolizer.c_frames(&program.path, &[], start + size)[0].function.as_deref(), Some("physical"));
}

fn shared_library(flags: &[&str]) -> Built {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("library.so");
    let code = directory.path().join("library.c");
    let text = "__attribute__((noinline, visibility(\"hidden\"))) int inner(int x) { return x * 3; }\n\
                int exported(int x) { return inner(x) + 1; }\n";
    std::fs::write(&code, text).unwrap();
    let mut cc = Command::new("cc");
    run(cc.args(["-shared", "-fPIC", "-O1", "-fno-ipa-ra"]).args(flags).arg("-o").arg(&path).arg(&code));
    Built { directory, path }
}

#[test]
fn a_stripped_library_names_what_it_exports_and_nothing_else() {
    let library = shared_library(&[]);
    let find = |name: &str| functions(&library.path).into_iter().find(|(_, _, function)| function == name).unwrap();
    let (exported, inner) = (find("exported"), find("inner"));
    run(Command::new("strip").arg(&library.path));
    let mut symbolizer = symbolizer();
    let frames = symbolizer.c_frames(&library.path, &[], exported.0 + 1);
    assert_eq!(frames[0].function.as_deref(), Some("exported"));
    assert_eq!(symbolizer.c_frames(&library.path, &[], inner.0 + 1), []);
    assert_eq!(render_c("/x/library.so", 0x10, &[]), "library.so+0x10");
}

#[test]
fn separate_debug_files_are_found_beside_in_dot_debug_and_by_build_id() {
    for place in ["program.debug", ".debug/program.debug", "by build id", "mirrored path"] {
        let program = built("cc", "inlined.c", &["-g", "-O2"]);
        let inlined = reported(&program.path)[0];
        let id = build_id(&program.path);
        let root = program.directory.path();
        let made = root.join("program.debug");
        strip_into(&program.path, &made);
        let global = root.join("global");
        let wanted = match place {
            "by build id" => {
                let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
                global.join(".build-id").join(&hex[..2]).join(format!("{}.debug", &hex[2..]))
            }
            "mirrored path" => global.join(root.strip_prefix("/").unwrap()).join("program.debug"),
            beside => root.join(beside),
        };
        std::fs::create_dir_all(wanted.parent().unwrap()).unwrap();
        std::fs::rename(&made, &wanted).unwrap();
        let mut symbolizer = Symbolizer::with_debug_directories(vec![global]);
        assert_eq!(brief(symbolizer.c_frames(&program.path, &id, inlined)), INLINED, "{place}");
        assert_eq!(symbolizer.problems(), [""; 0], "{place}");
        if place == "by build id" {
            // The program itself is gone, as after an upgrade; what is known by build id still holds.
            std::fs::remove_file(&program.path).unwrap();
            let mut symbolizer = Symbolizer::with_debug_directories(vec![root.join("global")]);
            assert_eq!(brief(symbolizer.c_frames(&program.path, &id, inlined)), INLINED);
        }
    }
}

#[test]
fn without_build_ids_the_checksum_decides_whether_a_debug_file_belongs() {
    let program = built("cc", "inlined.c", &["-g", "-O2", "-Wl,--build-id=none"]);
    let inlined = reported(&program.path)[0];
    let debug = program.directory.path().join("program.debug");
    strip_into(&program.path, &debug);
    assert_eq!(brief(symbolizer().c_frames(&program.path, &[], inlined)), INLINED);
    let mut bytes = std::fs::read(&debug).unwrap();
    bytes.push(0);
    std::fs::write(&debug, bytes).unwrap();
    let mut symbolizer = symbolizer();
    assert_eq!(symbolizer.c_frames(&program.path, &[], inlined), []);
    assert_eq!(symbolizer.problems().len(), 1);
}

#[test]
fn a_debug_file_of_another_build_is_passed_over() {
    let program = built("cc", "inlined.c", &["-g", "-O2"]);
    let inlined = reported(&program.path)[0];
    let debug = program.directory.path().join("program.debug");
    strip_into(&program.path, &debug);
    let other = built("cc", "inlined.c", &["-g", "-O0"]);
    std::fs::copy(&other.path, &debug).unwrap();
    let mut symbolizer = symbolizer();
    assert_eq!(symbolizer.c_frames(&program.path, &[], inlined), []);
    let [problem] = symbolizer.problems() else { panic!("{:?}", symbolizer.problems()) };
    assert!(problem.ends_with("has neither debug information nor function symbols"), "{problem}");
}

#[test]
fn a_file_of_another_build_than_the_recorded_one_is_refused_and_named() {
    let program = built("cc", "inlined.c", &["-g", "-O2"]);
    let inlined = reported(&program.path)[0];
    let mut symbolizer = symbolizer();
    assert_eq!(symbolizer.c_frames(&program.path, &[0xab; 20], inlined), []);
    assert_eq!(symbolizer.c_frames(&program.path, &[0xab; 20], inlined + 1), []);
    let [problem] = symbolizer.problems() else { panic!("{:?}", symbolizer.problems()) };
    assert!(problem.starts_with(program.path.to_str().unwrap()), "{problem}");
    assert!(problem.contains(&"ab".repeat(20)) && problem.contains("not used"), "{problem}");
    // The same path recorded with the right id is another module.
    assert_eq!(brief(symbolizer.c_frames(&program.path, &build_id(&program.path), inlined)), INLINED);

    let without = built("cc", "inlined.c", &["-g", "-O2", "-Wl,--build-id=none"]);
    assert_eq!(symbolizer.c_frames(&without.path, &[0xab; 20], inlined), []);
    assert!(symbolizer.problems()[1].contains("has no build id"), "{:?}", symbolizer.problems());
}

#[test]
fn split_debug_information_gives_lines_and_a_problem() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    let mut cc = Command::new("cc");
    cc.current_dir(&directory).args(["-fPIE", "-pie", "-g", "-O0", "-gsplit-dwarf", "-o"]);
    run(cc.arg(&path).arg(source("inlined.c")));
    let private = reported(&path)[1];
    let mut symbolizer = symbolizer();
    let frames =
        brief(symbolizer.c_frames(&path, &[], private)).pop().map(|(name, _, line, _)| (name.to_owned(), line));
    assert_eq!(frames, Some(("private_function".to_owned(), 23)));
    let [problem] = symbolizer.problems() else { panic!("{:?}", symbolizer.problems()) };
    assert!(problem.contains(".dwo"), "{problem}");
}

#[test]
fn what_is_not_an_object_file_costs_one_problem_line_each() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text");
    std::fs::write(&text, "not an object file at all, but long enough to hold a header of one").unwrap();
    let fifo = directory.path().join("fifo");
    run(Command::new("mkfifo").arg(&fifo));
    let missing = directory.path().join("missing");
    let mut symbolizer = symbolizer();
    for (path, reason) in [
        (&text, "is not an ELF file"),
        (&fifo, "is not a regular file"),
        (&directory.path().to_owned(), "is not a regular file"),
        (&missing, "cannot be opened"),
    ] {
        for offset in [0, 1, 0x1234, u64::MAX] {
            assert_eq!(symbolizer.c_frames(path, &[], offset), []);
        }
        let last = symbolizer.problems().last().unwrap();
        assert!(last.contains(reason), "{last}");
    }
    assert_eq!(symbolizer.problems().len(), 4);
    assert_eq!(symbolizer.c_frames(Path::new("linux-vdso.so.1"), &[], 0x10), []);
    assert_eq!(symbolizer.c_frames(Path::new("[vdso]"), &[], 0x10), []);
    assert_eq!(symbolizer.problems().len(), 4);
}

#[test]
fn an_answer_is_kept_even_when_the_file_is_gone() {
    let program = built("cc", "inlined.c", &["-g", "-O2"]);
    let inlined = reported(&program.path)[0];
    let mut symbolizer = symbolizer();
    let first = symbolizer.c_frames(&program.path, &[], inlined).as_ptr();
    std::fs::remove_file(&program.path).unwrap();
    let again = symbolizer.c_frames(&program.path, &[], inlined);
    assert_eq!((again.as_ptr(), brief(again)), (first, INLINED.to_vec()));
    assert_eq!(symbolizer.problems(), [""; 0]);
}

#[test]
fn offsets_at_the_ends_of_the_address_space_have_no_frames() {
    let program = built("cc", "inlined.c", &["-g", "-O2"]);
    let mut symbolizer = symbolizer();
    for offset in [0, 1, u64::MAX - 1, u64::MAX] {
        assert_eq!(symbolizer.c_frames(&program.path, &[], offset), [], "{offset:#x}");
    }
}
