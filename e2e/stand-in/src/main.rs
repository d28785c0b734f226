//! The program itself: reads its configuration, then exits at once or serves until it gets a stop signal.

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stand_in::{CONFIG_PATH, Config, listen};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let text = std::fs::read(CONFIG_PATH).with_context(|| format!("cannot read {CONFIG_PATH}"))?;
    let config: Config =
        serde_json::from_slice(&text).with_context(|| format!("{CONFIG_PATH} is no configuration"))?;
    if config.is_one_shot(&arguments) {
        return Ok(());
    }
    // Registered before serving: process 1 ignores signals without a handler.
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot handle signals")?;
    let count = listen(&config.ports)?;
    println!("standing in for `{}` on {count} ports", arguments.join(" "));
    signals.forever().next();
    Ok(())
}
