//! Go's names of processors.

/// Returns the architecture of this machine in Go's spelling, as in image indexes and versions: `amd64`, not `x86_64`.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}
