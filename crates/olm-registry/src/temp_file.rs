//! Files without a name, which end with the process.

use std::fs::File;
use std::io;
use std::path::Path;

/// Returns an empty file in the folder for temporary files, or in memory if nothing can be written.
/// Containers may have a read-only root and no volume. First tries in or beside the folder `near`, which may
/// be absent: a mounted cache is on a volume.
pub(crate) fn create(near: Option<&Path>) -> io::Result<File> {
    near.into_iter()
        .flat_map(|folder| folder.ancestors().take(2))
        .find_map(|folder| tempfile::tempfile_in(folder).ok())
        .map_or_else(tempfile::tempfile, Ok)
        .or_else(|error| {
            tracing::debug!(%error, folder = %std::env::temp_dir().display(), "cannot create a temporary file, using memory");
            in_memory()
        })
}

/// Returns an empty file in memory.
pub(crate) fn in_memory() -> io::Result<File> {
    let file = rustix::fs::memfd_create("olm-registry", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};

    #[test]
    fn files_in_memory_hold_what_is_written() {
        let mut file = super::in_memory().expect("file");
        file.write_all(b"text").expect("written");
        file.rewind().expect("rewound");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, "text");
    }
}
