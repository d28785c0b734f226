//! Controller and server of ClusterCatalogs, as a program; see the library.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Returns free memory to the system, which the system's allocator does only at the end of its heap: decision record 0024.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    catalogd::run::main(std::env::args_os())
}
