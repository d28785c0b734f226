//! `opm serve-configmap`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};

use super::DEFAULT_TERMINATION_LOG;

/// `opm serve-configmap`
#[derive(Debug, ClapArgs)]
pub(crate) struct ServeConfigMapArgs {
    /// Directory with the keys of the ConfigMap as files
    #[arg(value_hint = ValueHint::DirPath)]
    pub source_path: PathBuf,
    /// Port number to serve on
    #[arg(short = 'p', long, default_value = "50051")]
    pub port: u16,
    /// Wait until the files have this content; nodes mount a ConfigMap some time after it changed
    #[arg(long, value_name = "HASH", hide = true)]
    pub content_hash: Option<String>,
    /// Path to a container termination log file
    #[arg(
        short = 't',
        long,
        value_name = "FILE",
        default_value = DEFAULT_TERMINATION_LOG
    )]
    pub termination_log: PathBuf,
}
