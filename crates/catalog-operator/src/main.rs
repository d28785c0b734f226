//! Controllers of CatalogSource, Subscription and InstallPlan, as a program; see the library.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Gives memory back that is free, which the system's allocator does only at the end of its heap: decision record 0024.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    catalog_operator::run::main(std::env::args_os())
}
