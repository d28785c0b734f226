//! `opm completion`

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Args;
use crate::printer;

pub(crate) fn run(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "opm", &mut script);
    printer::data(&String::from_utf8_lossy(&script))
}
