//! kubectl against the cluster a command works on.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::{interrupt, process};

/// Time between two looks at something that is waited for.
const POLL: Duration = Duration::from_millis(500);

/// For so long on end kubectl may fail while something is waited for: an API server that has much to do answers late, or begins anew.
const HICCUP: Duration = Duration::from_secs(30);

/// Where a command works.
#[derive(Debug, Clone)]
pub enum Destination {
    /// The embedded cluster.
    Embedded(Cluster),
    /// A cluster of the user's own, named by its kubeconfig context.
    Existing {
        /// The context.
        context: String,
    },
}

impl Destination {
    /// A kubectl command for this cluster.
    pub fn kubectl(&self, arguments: &[&str]) -> Command {
        match self {
            Self::Embedded(cluster) => cluster.kubectl(arguments),
            Self::Existing { context } => {
                let mut command = Command::new("kubectl");
                command
                    .args(["--context", context])
                    .args(arguments)
                    .stdin(Stdio::null());
                command
            }
        }
    }

    /// Runs kubectl and returns what it prints.
    ///
    /// # Errors
    /// With kubectl's own words when it fails.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        process::output(self.kubectl(arguments), None, &shown(arguments))
    }

    /// Runs kubectl with `input` on its standard input.
    ///
    /// # Errors
    /// With kubectl's own words when it fails.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        process::output(self.kubectl(arguments), Some(input), &shown(arguments))
    }

    /// Applies objects, server side so that large CustomResourceDefinitions fit.
    ///
    /// # Errors
    /// When an object is refused.
    pub fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        self.run_with_input(
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                // Else every apply fetches the schemas of all kinds first, which a busy API server is long about.
                "--validate=false",
                "-f",
                "-",
            ],
            &list.to_string(),
        )?;
        Ok(())
    }

    /// One object or list as JSON; `None` when it does not exist.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn get(&self, arguments: &[&str]) -> anyhow::Result<Option<Value>> {
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

    /// Looks again and again until `look` finds something.
    ///
    /// # Errors
    /// After `patience`, naming `what` and what `look` saw last; when `look` fails, but if that is kubectl's failure only once it has
    /// lasted half a minute; on Ctrl-C.
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
            thread::sleep(POLL);
        }
    }

    /// What the API server says to `kubectl auth can-i`.
    ///
    /// # Errors
    /// When it could not be asked, which kubectl ends with the same exit code as "no".
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

/// Whether a program ran and failed, in difference to what a look finds wrong.
fn is_of_kubectl(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<process::Failed>())
}

fn shown(arguments: &[&str]) -> String {
    format!("kubectl {}", arguments.join(" "))
}

/// The answer of `can-i`, which may be followed by a reason.
fn yes_or_no(answer: &str) -> Option<bool> {
    match answer.split_whitespace().next()? {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// The text at a JSON pointer, empty when there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A destination that no test here asks.
    fn nowhere() -> Destination {
        Destination::Existing {
            context: String::new(),
        }
    }

    #[test]
    fn a_wait_outlives_a_kubectl_that_fails_once_and_no_other_fault() {
        let mut looks = 0;
        let found = nowhere().wait("something", Duration::from_secs(60), |_| {
            looks += 1;
            match looks {
                1 => {
                    Err(process::output(Command::new("false"), None, "kubectl get x").expect_err("it fails"))
                }
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
