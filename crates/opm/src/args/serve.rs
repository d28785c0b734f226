//! `opm serve`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};

/// File from which Kubernetes reads the reason why a container terminated.
pub(crate) use olm_api::unpacked_bundle::TERMINATION_LOG as DEFAULT_TERMINATION_LOG;

/// `opm serve`
#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// Directory of the catalog
    #[arg(value_hint = ValueHint::DirPath)]
    pub source_path: PathBuf,
    /// Port number to serve on
    #[arg(short = 'p', long, default_value = "50051")]
    pub port: u16,
    /// If set, sync and persist server cache directory
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    /// Sync the serve cache and exit without serving
    #[arg(long)]
    pub cache_only: bool,
    /// Exit with error if cache is not present or has been invalidated; without it such a cache is not used, and with =false
    /// it is made anew
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub cache_enforce_integrity: Option<bool>,
    /// With --cache-only, also write the cache in the layout that upstream's opm starts from; =false leaves it out, for
    /// images that only this program serves [default: true]
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        value_name = "BOOL",
        hide_default_value = true,
        action = clap::ArgAction::Set
    )]
    pub cache_upstream: bool,
    /// Path to a container termination log file
    #[arg(
        short = 't',
        long,
        value_name = "FILE",
        default_value = DEFAULT_TERMINATION_LOG
    )]
    pub termination_log: PathBuf,
    /// Accepted for compatibility; this program has no profiling endpoint
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "",
        hide_default_value = true,
        hide = true
    )]
    pub pprof_addr: String,
    /// Accepted for compatibility; this program has no profiling endpoint
    #[arg(long, hide = true)]
    pub pprof_capture_profiles: bool,
}
