//! Where Python code comes from, by the name of its file.

/// The code that imports modules.
pub fn is_import_machinery(file: &str) -> bool {
    file.starts_with("<frozen importlib") || file.starts_with("<frozen zipimport")
}

/// Code that was installed, not written for this program: packages, Python's own modules, those inside the interpreter.
pub fn is_installed(file: &str) -> bool {
    let mut folders = file.split('/').peekable();
    while let Some(folder) = folders.next() {
        let in_python =
            |next: &&str| next.strip_prefix("python").is_some_and(|version| version.starts_with(['2', '3']));
        match folder {
            "site-packages" | "dist-packages" => return true,
            "lib" | "lib64" if folders.peek().is_some_and(in_python) => return true,
            _ => {}
        }
    }
    file.starts_with("<frozen ") || file == "<__array_function__ internals>"
}
