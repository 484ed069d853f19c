//! Programs with an allocator of their own: their malloc never reaches a library, so the recording has their mappings only.
use std::fs::File;
use std::io::Read;
use std::path::Path;

use memchr::memmem;
use memscope_model::Outcome;
use object::elf::{FileHeader64, SHN_UNDEF, SHT_DYNSYM, Sym64};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, ReadCache, SectionIndex};

/// Texts that an allocator leaves in every program it is linked into, stripped or not.
const ALLOCATORS: [(&str, &[u8]); 4] = [
    ("jemalloc", b"<jemalloc>: "),
    ("tcmalloc", b"tcmalloc: "),
    ("PartitionAlloc", b"PartitionAlloc"),
    ("the Go runtime's", b"runtime.mallocgc"),
];

/// A sentence for the summary if the program's heap was not seen.
///
/// Two things have to come together, so that no ordinary program is accused: the calls of malloc that were seen do not
/// explain the memory, and the executable has an allocator.
pub(super) fn note(executable: &Path, outcome: &Outcome) -> Option<String> {
    const FEW_CALLS: u64 = 1000;
    const MUCH_MAPPED: u64 = 4 << 20;
    let mapped_elsewhere =
        outcome.peak_mapped_bytes >= MUCH_MAPPED && outcome.peak_heap_bytes < outcome.peak_mapped_bytes / 4;
    let few_calls = outcome.heap_allocations < FEW_CALLS;
    if !mapped_elsewhere && !few_calls {
        return None;
    }
    let allocator = match (few_calls && defines_malloc(executable), mapped_elsewhere) {
        (true, _) => known_allocator(executable).unwrap_or("it defines malloc"),
        (false, true) => known_allocator(executable)?,
        (false, false) => return None,
    };
    Some(format!(
        "the heap of this program was not seen: it has an allocator of its own ({allocator} in {}), only its mappings are \
         recorded",
        executable.display()
    ))
}

/// The program's own definition comes before that of any library, ours included.
fn defines_malloc(executable: &Path) -> bool {
    let Ok(file) = File::open(executable) else { return false };
    let Ok(length) = file.metadata().map(|metadata| metadata.len()) else { return false };
    exports(b"malloc\0", length, &ReadCache::new(file)).is_ok_and(|exported| exported)
}

/// Whether a function of this name, which ends in a NUL, is among the dynamic symbols that the file defines. Large programs
/// have a hundred thousand of them: their names are read in one piece.
fn exports(name: &[u8], length: u64, data: &ReadCache<File>) -> object::Result<bool> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let Some(table) = sections.iter().find(|section| section.sh_type(endian) == SHT_DYNSYM) else { return Ok(false) };
    let names = sections.section(SectionIndex(table.sh_link(endian) as usize))?;
    if names.sh_size(endian) > length || table.sh_size(endian) > length {
        return Ok(false);
    }
    // The end of another name may be this one's place.
    let places: Vec<usize> = memmem::find_iter(names.data(endian, data)?, name).collect();
    let symbols: &[Sym64<Endianness>] = table.data_as_array(endian, data)?;
    Ok(symbols
        .iter()
        .any(|symbol| symbol.st_shndx(endian) != SHN_UNDEF && places.contains(&(symbol.st_name(endian) as usize))))
}

fn known_allocator(executable: &Path) -> Option<&'static str> {
    // The largest programs have some hundred megabytes; texts lie near the beginning.
    const MOST_BYTES: u64 = 1 << 30;
    const CHUNK: usize = 1 << 20;
    const OVERLAP: usize = 64;
    let finders = ALLOCATORS.map(|(name, text)| (name, memmem::Finder::new(text)));
    let mut file = File::open(executable).ok().filter(is_regular)?.take(MOST_BYTES);
    let mut window = Vec::with_capacity(CHUNK + OVERLAP);
    loop {
        let kept = window.len().min(OVERLAP);
        window.drain(..window.len() - kept);
        if file.by_ref().take(CHUNK as u64).read_to_end(&mut window).ok()? == 0 {
            return None;
        }
        if let Some((name, _)) = finders.iter().find(|(_, finder)| finder.find(&window).is_some()) {
            return Some(name);
        }
    }
}

/// A pipe would never end.
fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(heap_allocations: u64, peak_heap_bytes: u64, peak_mapped_bytes: u64) -> Outcome {
        let mut outcome = Outcome::default();
        (outcome.heap_allocations, outcome.peak_heap_bytes) = (heap_allocations, peak_heap_bytes);
        outcome.peak_mapped_bytes = peak_mapped_bytes;
        outcome
    }

    #[test]
    fn only_memory_that_malloc_does_not_explain_is_blamed_on_an_allocator() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        let mut contents = vec![b'x'; (1 << 20) - 5];
        contents.extend(b"<jemalloc>: Error in atexit()");
        std::fs::write(&program, contents).unwrap();
        let told = note(&program, &outcome(51, 9000, 90 << 20)).unwrap();
        assert!(told.contains("(jemalloc in ") && told.contains("/program)"), "{told}");
        assert!(note(&program, &outcome(5000, 1 << 20, 90 << 20)).is_some());
        assert_eq!(note(&program, &outcome(5000, 80 << 20, 90 << 20)), None);
        assert_eq!(note(&program, &outcome(51, 9000, 1 << 20)), None);
        assert_eq!(note(Path::new("/bin/true"), &outcome(51, 9000, 90 << 20)), None);
        assert_eq!(note(Path::new("/nowhere"), &outcome(51, 9000, 90 << 20)), None);
    }

    #[test]
    fn a_program_that_defines_malloc_says_so_in_its_symbols() {
        let directory = tempfile::tempdir().unwrap();
        let compiled = |name: &str, text: &str| {
            let (source, program) = (directory.path().join(format!("{name}.c")), directory.path().join(name));
            std::fs::write(&source, text).unwrap();
            let mut compiler = std::process::Command::new("cc");
            compiler.args(["-fno-builtin", "-rdynamic", "-w", "-o"]).arg(&program).arg(&source);
            assert!(compiler.status().unwrap().success());
            program
        };
        let program =
            compiled("own", "void *malloc(unsigned long n) { return (void *)n; }\nint main(void) { return 0; }\n");
        let told = note(&program, &outcome(0, 0, 0)).unwrap();
        assert!(told.contains("(it defines malloc in "), "{told}");
        // One that hands its calls on to the C library is seen.
        assert_eq!(note(&program, &outcome(20_000, 1 << 20, 0)), None);
        // Nor is one accused that calls malloc, and has a function whose name ends in that.
        let caller = compiled(
            "caller",
            "void *malloc(unsigned long);\nvoid *xmalloc(void) { return malloc(1); }\nint main(void) { xmalloc(); }\n",
        );
        assert_eq!(note(&caller, &outcome(0, 0, 0)), None);
    }
}
