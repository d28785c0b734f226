//! Where things are in this checkout.

use std::path::{Path, PathBuf};

/// The workspace's root folder: the one with the top `Cargo.toml`.
///
/// Fixed when xtask is compiled, so that a binary started by its path (`sudo target/debug/xtask …`) finds its checkout.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

/// Where everything about clusters is kept: built programs in `bin`, beside one folder for each cluster.
pub fn clusters() -> PathBuf {
    root().join("target/cluster")
}
