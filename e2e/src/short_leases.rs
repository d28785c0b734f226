//! Operators with short Leases, for tests that kill them repeatedly: each waits until its own last Lease expires.

use anyhow::Context as _;
use serde_json::{Value, json};
use xtask::deploy::OPERATORS;
use xtask::kubectl::Destination;

use crate::operator::Operator;

/// A Lease lasts 10 s; on a busy machine its holder may be without an answer for most of it.
const TIMES: [&str; 3] = [
    "--leader-elect-lease-duration=10s",
    "--leader-elect-renew-deadline=8s",
    "--leader-elect-retry-period=1s",
];
const ARGUMENTS: &str = "/spec/template/spec/containers/0/args";

/// Both operators with short Leases; their own values are restored on drop.
#[derive(Debug)]
pub struct ShortLeases {
    destination: Destination,
    before: Vec<(&'static str, Value)>,
}

impl ShortLeases {
    /// Restarts both operators with short Leases and returns when they hold them.
    ///
    /// # Errors
    /// If OLM is not deployed, or an operator does not get its Lease.
    pub fn start(destination: &Destination) -> anyhow::Result<Self> {
        let mut leases = Self {
            destination: destination.clone(),
            before: Vec::new(),
        };
        for program in OPERATORS {
            let deployment = destination.get(&["deployment", "-n", "olm", program])?;
            let deployment = deployment.context("OLM is not deployed")?;
            let before = deployment.pointer(ARGUMENTS);
            let before = before.and_then(Value::as_array).cloned().unwrap_or_default();
            let mut arguments = before.clone();
            arguments.extend(TIMES.map(Value::from));
            leases.before.push((program, before.into()));
            set(destination, program, &arguments.into())?;
        }
        lead(destination)?;
        Ok(leases)
    }
}

impl Drop for ShortLeases {
    fn drop(&mut self) {
        let back = || -> anyhow::Result<()> {
            for (program, arguments) in &self.before {
                set(&self.destination, program, arguments)?;
            }
            lead(&self.destination)
        };
        if let Err(error) = back() {
            eprintln!("the operators are not as they were: {error:#}");
        }
    }
}

fn set(destination: &Destination, program: &str, arguments: &Value) -> anyhow::Result<()> {
    let patch = json!([{"op": "replace", "path": ARGUMENTS, "value": arguments}]).to_string();
    let name = format!("deployment/{program}");
    destination.run(&["patch", &name, "-n", "olm", "--type=json", "--patch", &patch])?;
    Ok(())
}

fn lead(destination: &Destination) -> anyhow::Result<()> {
    Operator::rolled_out(destination)?;
    Operator::all(destination)?;
    Ok(())
}
