//! Copies a bundle out of its image, from inside of it. `cpb FOLDER` runs as an init container of an unpack Job in the bundle's
//! own image, which usually contains no programs.
//!
//! Called as `cp`, it copies one file: this puts it into the shared volume (`cp -Rv /bin/cpb /util/cpb`). Called as
//! `copy-content`, it copies a catalog's content out of the catalog's image.
//!
//! # Guarantees
//! - Of a bundle only plain files are copied: a link of the image would be followed in the pod, which contains the token of its account.
//! - Search and copy are limited; exceeding a limit is an error that names the limit.

mod bundle;
mod content;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    let name = Path::new(&program).file_name().unwrap_or_default();
    if name == "copy-content" {
        let done = content::copy(&words);
        if let Err(text) = &done {
            // Upstream's program prints errors to stdout, and the kubelet reads the last output.
            let _ = writeln!(io::stdout(), "error: {text}");
        }
        return if done.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let is_cp = name == "cp";
    let operands: Vec<OsString> = words
        .into_iter()
        .filter(|word| !word.as_encoded_bytes().starts_with(b"-"))
        .collect();
    let done = match (is_cp, operands.as_slice()) {
        (true, [from, to]) => std::fs::copy(from, to).map(drop).map_err(|error| {
            let (from, to) = (Path::new(from), Path::new(to));
            format!("cannot copy {} to {}: {error}", from.display(), to.display())
        }),
        (true, _) => Err("usage: cp FROM TO".to_owned()),
        (false, [to]) => bundle::copy(Path::new("/"), &PathBuf::from(to)),
        (false, _) => Err("usage: cpb FOLDER".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            let _ = writeln!(io::stderr(), "error: {text}");
            ExitCode::FAILURE
        }
    }
}
