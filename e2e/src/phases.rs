//! Phases of ClusterServiceVersions over time: all events of a watch, without gaps.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use xtask::kubectl::{Destination, text};

/// Path of all ClusterServiceVersions.
const ALL: &str = "/apis/operators.coreos.com/v1alpha1/clusterserviceversions";
/// Time before a closed watch is reopened.
const PAUSE: Duration = Duration::from_millis(200);

/// A watch of all ClusterServiceVersions, resumed whenever it is closed; stopped when dropped.
#[derive(Debug)]
pub struct Phases {
    shared: Arc<Mutex<Shared>>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Vec<Seen>,
    child: Option<Child>,
    is_over: bool,
}

/// An event of the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Type of the event, for example `MODIFIED`; `LISTED` if the watch had to be restarted.
    pub type_: String,
    /// `namespace/name`.
    pub csv: String,
    /// Phase in its status.
    pub phase: String,
}

impl Seen {
    fn of(type_: &str, csv: &Value) -> Self {
        Self {
            type_: type_.to_owned(),
            csv: format!(
                "{}/{}",
                text(csv, "/metadata/namespace"),
                text(csv, "/metadata/name")
            ),
            phase: text(csv, "/status/phase").to_owned(),
        }
    }
}

/// Returns the version to watch from, and all current objects.
fn list(kubectl: &Destination) -> anyhow::Result<(String, Vec<Value>)> {
    let mut list: Value = serde_json::from_str(&kubectl.run(&["get", "--raw", ALL])?)?;
    let version = text(&list, "/metadata/resourceVersion").to_owned();
    ensure!(!version.is_empty(), "a list without version");
    let all = list["items"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    Ok((version, all))
}

impl Phases {
    /// Starts a watch.
    ///
    /// # Errors
    /// The cluster does not respond.
    pub fn watch(kubectl: &Destination) -> anyhow::Result<Self> {
        let (mut version, _) = list(kubectl)?;
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (kubectl, of_reader) = (kubectl.clone(), Arc::clone(&shared));
        let reader = thread::spawn(move || {
            while let Ok(lines) = open(&kubectl, &version, &of_reader) {
                let mut is_lost = false;
                for line in lines.lines().map_while(Result::ok) {
                    let Ok(event) = serde_json::from_str::<Value>(&line) else {
                        break;
                    };
                    let object = &event["object"];
                    let name = |field: &str| text(object, field).to_owned();
                    if event["type"] == "ERROR" {
                        is_lost = true;
                        break;
                    }
                    version = name("/metadata/resourceVersion");
                    lock(&of_reader)
                        .seen
                        .push(Seen::of(text(&event, "/type"), object));
                }
                if is_lost {
                    // The API server drops its history when the definition changes, so all objects are listed again at once.
                    let Ok((newest, all)) = list(&kubectl) else {
                        return;
                    };
                    version = newest;
                    lock(&of_reader)
                        .seen
                        .extend(all.iter().map(|csv| Seen::of("LISTED", csv)));
                    continue;
                }
                if lock(&of_reader).is_over {
                    return;
                }
                thread::sleep(PAUSE);
            }
        });
        Ok(Self {
            shared,
            reader: Some(reader),
        })
    }

    /// Returns all events so far.
    ///
    /// # Errors
    /// The watch failed, so events may be missing.
    pub fn seen(&self) -> anyhow::Result<Vec<Seen>> {
        let is_running = self.reader.as_ref().is_some_and(|reader| !reader.is_finished());
        let seen = lock(&self.shared).seen.clone();
        ensure!(is_running, "the watch of ClusterServiceVersions ended: {seen:?}");
        Ok(seen)
    }

    /// Asserts that a ClusterServiceVersion was always in phase Succeeded.
    ///
    /// # Errors
    /// The ClusterServiceVersion `csv`, as `namespace/name`, was in another phase or was deleted, or the watch failed.
    pub fn always_succeeded(&self, csv: &str) -> anyhow::Result<()> {
        let seen = self.seen()?;
        let mut told = seen.iter().filter(|seen| seen.csv == csv);
        let other = told.find(|seen| seen.phase != "Succeeded" || seen.type_ == "DELETED");
        ensure!(other.is_none(), "{csv} was not always Succeeded: {seen:?}");
        Ok(())
    }
}

impl Drop for Phases {
    fn drop(&mut self) {
        {
            let mut shared = lock(&self.shared);
            shared.is_over = true;
            if let Some(child) = &mut shared.child {
                let _ = child.kill();
            }
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(
    kubectl: &Destination,
    version: &str,
    shared: &Mutex<Shared>,
) -> anyhow::Result<BufReader<std::process::ChildStdout>> {
    let mut shared = lock(shared);
    if let Some(mut ended) = shared.child.take() {
        let _ = ended.kill();
        let _ = ended.wait();
    }
    ensure!(!shared.is_over, "nobody looks any more");
    let path = format!("{ALL}?watch=1&resourceVersion={version}");
    let mut child = kubectl
        .kubectl(&["get", "--raw", &path])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run kubectl")?;
    let output = child.stdout.take().context("its output was not captured")?;
    shared.child = Some(child);
    Ok(BufReader::new(output))
}
