//! Watches objects with kubectl and records when each of their states arrived.

use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::kubectl::Destination;

/// One state of an object.
#[derive(Debug, Clone)]
pub(crate) struct Sighting {
    /// Time of arrival.
    pub at: Instant,
    pub object: Value,
}

/// Running watches, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Sightings {
    seen: Arc<Mutex<Vec<Sighting>>>,
    children: Vec<Child>,
}

impl Drop for Sightings {
    fn drop(&mut self) {
        for child in &mut self.children {
            // The process may have exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Sightings {
    /// Starts watching `kinds` in `namespace`.
    ///
    /// # Errors
    /// kubectl cannot be started.
    pub(crate) fn start(destination: &Destination, namespace: &str, kinds: &[&str]) -> anyhow::Result<Self> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut children = Vec::new();
        for kind in kinds {
            let mut child = destination
                .kubectl(&["get", kind, "-n", namespace, "-o", "json"])
                .args(["--watch", "--output-watch-events"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .context("cannot run kubectl")?;
            let output = child.stdout.take().context("kubectl's output was not captured")?;
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || record(output, &seen));
            children.push(child);
        }
        Ok(Self { seen, children })
    }

    /// Waits for the first sighting that `wanted` accepts.
    ///
    /// # Errors
    /// `patience` passes; the error names `what`.
    pub(crate) fn wait(
        &self,
        what: &str,
        patience: Duration,
        wanted: impl Fn(&Sighting) -> bool,
    ) -> anyhow::Result<Sighting> {
        let deadline = Instant::now() + patience;
        loop {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = seen.iter().find(|sighting| wanted(sighting)) {
                return Ok(found.clone());
            }
            drop(seen);
            if Instant::now() > deadline {
                bail!("waited {} s for {what}", patience.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn record(output: impl Read, seen: &Mutex<Vec<Sighting>>) {
    for event in serde_json::Deserializer::from_reader(output).into_iter::<Value>() {
        let Ok(mut event) = event else { return };
        let sighting = Sighting {
            at: Instant::now(),
            object: event["object"].take(),
        };
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(sighting);
    }
}
