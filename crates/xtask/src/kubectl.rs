//! kubectl against the cluster a command works on.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::interrupt;

/// Time between two looks at something that is waited for.
const POLL: Duration = Duration::from_millis(300);

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
        self.finish(self.kubectl(arguments), None, arguments)
    }

    /// Runs kubectl with `input` on its standard input.
    ///
    /// # Errors
    /// With kubectl's own words when it fails.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        self.finish(self.kubectl(arguments), Some(input), arguments)
    }

    /// Applies objects, server side so that large CustomResourceDefinitions fit.
    ///
    /// # Errors
    /// When an object is refused.
    pub fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        self.run_with_input(
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            &list.to_string(),
        )?;
        Ok(())
    }

    /// One object or list as JSON; `None` when it does not exist.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn get(&self, arguments: &[&str]) -> anyhow::Result<Option<Value>> {
        let mut words = vec!["get", "--ignore-not-found", "-o", "json"];
        words.extend(arguments);
        let text = self.run(&words)?;
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
    /// After `patience`, naming `what` and what `look` saw last; when `look` fails; on Ctrl-C.
    pub fn wait<T>(
        &self,
        what: &str,
        patience: Duration,
        mut look: impl FnMut(&Self) -> anyhow::Result<Result<T, String>>,
    ) -> anyhow::Result<T> {
        let began = Instant::now();
        loop {
            interrupt::check()?;
            let seen = match look(self)? {
                Ok(found) => return Ok(found),
                Err(seen) => seen,
            };
            if began.elapsed() > patience {
                bail!("waited {} s for {what}; last seen: {seen}", patience.as_secs());
            }
            thread::sleep(POLL);
        }
    }

    fn finish(
        &self,
        mut command: Command,
        input: Option<&str>,
        arguments: &[&str],
    ) -> anyhow::Result<String> {
        let shown = || format!("kubectl {}", arguments.join(" "));
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run `{}`", shown()))?;
        if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin
                .write_all(text.as_bytes())
                .with_context(|| format!("`{}` did not read its input", shown()))?;
        }
        let output = child
            .wait_with_output()
            .with_context(|| format!("lost `{}`", shown()))?;
        if !output.status.success() {
            bail!(
                "`{}` failed: {}",
                shown(),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The text at a JSON pointer, empty when there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
