//! Runs kubectl against the cluster of a command.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

mod reader;

use crate::cluster::Cluster;
use crate::{images, interrupt, process};

/// Polling interval of a wait that has just begun.
const POLL: Duration = Duration::from_millis(300);
/// Polling interval of a long wait.
const MAX_POLL: Duration = Duration::from_secs(1);

/// Time for which kubectl may keep failing during a wait. A busy API server may respond late or restart.
const HICCUP: Duration = Duration::from_secs(30);

/// The cluster that a command works on.
#[derive(Debug, Clone)]
pub enum Destination {
    /// The embedded cluster.
    Embedded(Cluster),
    /// An existing cluster of the user, selected by its kubeconfig context.
    Existing {
        /// Name of the context.
        context: String,
        /// Registry that it pulls from and the user may push to.
        registry: String,
    },
}

impl Destination {
    /// Returns a kubectl command for this cluster.
    pub fn kubectl(&self, arguments: &[&str]) -> Command {
        match self {
            Self::Embedded(cluster) => cluster.kubectl(arguments),
            Self::Existing { context, .. } => {
                let mut command = Command::new("kubectl");
                command
                    .args(["--context", context])
                    .args(arguments)
                    .stdin(Stdio::null());
                command
            }
        }
    }

    /// Returns the registry that takes the place of our images' own, if one does.
    pub(crate) fn registry(&self) -> Option<&str> {
        match self {
            Self::Embedded(_) => None,
            Self::Existing { registry, .. } => Some(registry),
        }
    }

    /// Pushes an image tar to the registry from which this cluster pulls.
    ///
    /// # Errors
    /// The push fails.
    pub(crate) fn push(&self, tar: &Path, reference: &str) -> anyhow::Result<()> {
        match self {
            Self::Embedded(cluster) => cluster.load(tar, &[reference.to_owned()]),
            Self::Existing { registry, .. } => images::copy(tar, reference, registry),
        }
    }

    /// Returns a command of the plugin `program` for this cluster.
    pub(crate) fn plugin(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = match self {
            Self::Embedded(cluster) => cluster.command(program),
            Self::Existing { .. } => Command::new(program),
        };
        command.args(arguments).stdin(Stdio::null());
        if let Self::Existing { context, .. } = self {
            command.args(["--context", context]);
        }
        command
    }

    /// Runs kubectl and returns its output.
    ///
    /// # Errors
    /// kubectl fails; the error includes its messages.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        process::output(&mut self.kubectl(arguments), None, &shown(arguments))
    }

    /// Runs kubectl with `input` as standard input.
    ///
    /// # Errors
    /// kubectl fails; the error includes its messages.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        process::output(&mut self.kubectl(arguments), Some(input), &shown(arguments))
    }

    /// Applies objects on the server side, because large CustomResourceDefinitions do not fit into an annotation.
    ///
    /// # Errors
    /// An object is rejected.
    pub fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        self.run_with_input(
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                // Validation would fetch the schemas of all kinds at each apply, which takes long on a busy API server.
                "--validate=false",
                "-f",
                "-",
            ],
            &list.to_string(),
        )?;
        Ok(())
    }

    /// Returns an object or list as JSON; `None` if it does not exist.
    ///
    /// # Errors
    /// The cluster does not respond.
    pub fn get(&self, arguments: &[&str]) -> anyhow::Result<Option<Value>> {
        if let Self::Embedded(cluster) = self
            && let Some(found) = reader::read(&cluster.api_socket(), arguments)
        {
            return Ok(found);
        }
        let mut given = vec!["get", "--ignore-not-found", "-o", "json"];
        given.extend(arguments);
        let text = self.run(&given)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&text)
            .map(Some)
            .context("kubectl did not print JSON")
    }

    /// Polls `look` until it returns a value.
    ///
    /// # Errors
    /// `patience` passes (the error has `what` and the last state), `look` fails, or the user presses Ctrl-C. Failures of kubectl
    /// only count after half a minute.
    pub fn wait<T>(
        &self,
        what: &str,
        patience: Duration,
        mut look: impl FnMut(&Self) -> anyhow::Result<Result<T, String>>,
    ) -> anyhow::Result<T> {
        let began = Instant::now();
        let mut answered = began;
        loop {
            interrupt::check()?;
            let seen = match look(self) {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(seen)) => {
                    answered = Instant::now();
                    seen
                }
                Err(error) if is_of_kubectl(&error) && answered.elapsed() < HICCUP => format!("{error:#}"),
                Err(error) => return Err(error),
            };
            if began.elapsed() > patience {
                bail!("waited {} s for {what}; last seen: {seen}", patience.as_secs());
            }
            thread::sleep((began.elapsed() / 10).clamp(POLL, MAX_POLL));
        }
    }

    /// Waits until the object that these arguments of `kubectl get` name exists and is as wanted, and returns it.
    ///
    /// # Errors
    /// The errors of [`Destination::wait`]; the last state is the object's status.
    pub fn wait_for(
        &self,
        arguments: &[&str],
        what: &str,
        patience: Duration,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        self.wait(what, patience, |destination| {
            Ok(match destination.get(arguments)? {
                Some(object) if is_wanted(&object) => Ok(object),
                Some(object) => Err(object["status"].to_string()),
                None => Err("it does not exist".to_owned()),
            })
        })
    }

    /// Waits until the object that these arguments of `kubectl get` name does not exist.
    ///
    /// # Errors
    /// The errors of [`Destination::wait`]; the last state is the object's metadata.
    pub fn wait_until_gone(&self, arguments: &[&str], patience: Duration) -> anyhow::Result<()> {
        let what = format!("{} to be gone", arguments.join(" "));
        self.wait(&what, patience, |destination| {
            Ok(match destination.get(arguments)? {
                None => Ok(()),
                Some(object) => Err(object["metadata"].to_string()),
            })
        })
    }

    /// Returns the result of `kubectl auth can-i`.
    ///
    /// # Errors
    /// The request fails, for which kubectl has the same exit code as for "no".
    pub fn can_i(&self, arguments: &[&str]) -> anyhow::Result<bool> {
        let mut given = vec!["auth", "can-i"];
        given.extend(arguments);
        let output = self
            .kubectl(&given)
            .output()
            .with_context(|| format!("cannot run `{}`", shown(&given)))?;
        let answer = String::from_utf8_lossy(&output.stdout);
        yes_or_no(&answer).ok_or_else(|| {
            let words = String::from_utf8_lossy(&output.stderr);
            process::Failed(format!("`{}` did not answer: {}", shown(&given), words.trim())).into()
        })
    }
}

/// Returns true for the failure of a program, as opposed to an error of the check itself.
fn is_of_kubectl(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<process::Failed>())
}

fn shown(arguments: &[&str]) -> String {
    format!("kubectl {}", arguments.join(" "))
}

/// Parses the output of `can-i`, which may include a reason after the first word.
fn yes_or_no(answer: &str) -> Option<bool> {
    match answer.split_whitespace().next()? {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// Returns the text at a JSON pointer; empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a destination that these tests never use.
    fn nowhere() -> Destination {
        Destination::Existing {
            context: String::new(),
            registry: String::new(),
        }
    }

    #[test]
    fn a_wait_outlives_a_kubectl_that_fails_once_and_no_other_fault() {
        let mut looks = 0;
        let found =
            nowhere().wait("something", Duration::from_secs(60), |_| {
                looks += 1;
                match looks {
                    1 => Err(process::output(&mut Command::new("false"), None, "kubectl get x")
                        .expect_err("it fails")),
                    2 => Ok(Err("nothing yet".to_owned())),
                    _ => Ok(Ok(looks)),
                }
            });
        assert_eq!(found.unwrap(), 3);
        let fault = nowhere().wait(
            "something",
            Duration::from_secs(60),
            |_| -> anyhow::Result<Result<(), _>> {
                looks += 1;
                if looks == 4 {
                    bail!("it is another one")
                } else {
                    Ok(Err(String::new()))
                }
            },
        );
        assert_eq!(fault.unwrap_err().to_string(), "it is another one");
    }

    #[test]
    fn a_kubectl_that_fails_does_not_say_no() {
        assert_eq!(yes_or_no("yes\n"), Some(true));
        assert_eq!(yes_or_no("no\n"), Some(false));
        assert_eq!(yes_or_no("no - RBAC: clusterrole not found\n"), Some(false));
        assert_eq!(yes_or_no(""), None);
        assert_eq!(yes_or_no("error: You must be logged in to the server\n"), None);
    }
}
