//! Events of the API server's audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// Prefix of the user names of OLM's programs.
pub const OLM_ACCOUNTS: &str = "system:serviceaccount:olm:";

/// A completed request (or the start of a watch) in the API server's log, reduced to the fields that tests use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// `ResponseStarted`, `ResponseComplete` or `Panic`.
    pub stage: String,
    /// Kubernetes verb: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// User who sent the request.
    pub user: AuditUser,
    /// Impersonated user, if there is one (`kubectl --as`).
    #[serde(default)]
    pub impersonated_user: Option<AuditUser>,
    /// Object of the request; `None` for discovery and health.
    #[serde(default)]
    pub object_ref: Option<AuditObject>,
    /// Status of the response.
    #[serde(default)]
    pub response_status: Option<AuditStatus>,
    /// Annotations of the API server, for example the decision of RBAC (`authorization.k8s.io/decision`).
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Time of arrival, RFC 3339 with microseconds.
    pub request_received_timestamp: String,
}

/// The user of an [`AuditEvent`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AuditUser {
    /// User name, for example `system:serviceaccount:olm:olm-operator`.
    #[serde(default)]
    pub username: String,
    /// Further attributes from its token.
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl AuditUser {
    /// Returns the pod to which the token belongs; empty for other tokens.
    pub fn pod(&self) -> &str {
        let pods = self.extra.get("authentication.kubernetes.io/pod-name");
        pods.and_then(|pods| pods.first()).map_or("", String::as_str)
    }
}

/// The object of an [`AuditEvent`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditObject {
    /// Plural resource name.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for lists and for creates under a generated name.
    pub name: String,
    /// Empty for the core group.
    pub api_group: String,
    /// `status`, `scale`, … or empty.
    pub subresource: String,
}

/// The answer of an [`AuditEvent`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AuditStatus {
    /// HTTP status code.
    #[serde(default)]
    pub code: u16,
    /// Reason of a rejection; empty otherwise.
    #[serde(default)]
    pub message: String,
}

impl AuditEvent {
    /// Returns true for a completed request that changed an object: create, update, patch or delete with status 2xx.
    pub fn is_write(&self) -> bool {
        self.is_write_request()
            && self
                .response_status
                .as_ref()
                .is_some_and(|status| (200..300).contains(&status.code))
    }

    /// Returns the same, regardless of the status.
    pub fn is_write_request(&self) -> bool {
        self.stage == "ResponseComplete"
            && ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }
}

/// Returns all events of the log, in the order in which requests completed. An incomplete last line is ignored.
///
/// # Errors
/// The log cannot be read, or a complete line is no event.
pub fn read(log: &Path) -> anyhow::Result<Vec<AuditEvent>> {
    AuditTail::open(log, "")?.read()
}

/// Reads new events of a growing log.
#[derive(Debug)]
pub struct AuditTail {
    log: BufReader<File>,
    /// Path of the log, for errors.
    path: PathBuf,
    /// Beginning of an incomplete line.
    partial: Vec<u8>,
    /// Text of the lines that are parsed. The others are not, to save time.
    wanted: &'static str,
}

impl AuditTail {
    fn open(log: &Path, wanted: &'static str) -> anyhow::Result<Self> {
        let file = File::open(log).with_context(|| format!("cannot open {}", log.display()))?;
        Ok(Self {
            log: BufReader::with_capacity(1 << 20, file),
            path: log.to_owned(),
            partial: Vec::new(),
            wanted,
        })
    }

    /// Starts at the beginning of the log and reads the requests of OLM's programs.
    ///
    /// # Errors
    /// The log cannot be opened.
    pub(crate) fn whole_of_olm(log: &Path) -> anyhow::Result<Self> {
        Self::open(log, OLM_ACCOUNTS)
    }

    /// Starts at the end of the log and reads the requests of OLM's programs.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn of_olm(log: &Path) -> anyhow::Result<Self> {
        let mut tail = Self::whole_of_olm(log)?;
        tail.log.seek(SeekFrom::End(0))?;
        Ok(tail)
    }

    /// Returns the next event; `None` if there is none yet. An incomplete line is returned once it is complete.
    ///
    /// # Errors
    /// The log cannot be read, or a line that counts is no event.
    pub(crate) fn next_event(&mut self) -> anyhow::Result<Option<AuditEvent>> {
        loop {
            self.log
                .read_until(b'\n', &mut self.partial)
                .with_context(|| format!("cannot read {}", self.path.display()))?;
            if self.partial.last() != Some(&b'\n') {
                return Ok(None);
            }
            let line = std::mem::take(&mut self.partial);
            let line = String::from_utf8_lossy(&line);
            if line.contains(self.wanted) {
                let event = serde_json::from_str(&line);
                return event.map(Some).with_context(|| {
                    format!("{}: no audit event: {}", self.path.display(), line.trim_end())
                });
            }
        }
    }

    /// Returns the events since the last call.
    ///
    /// # Errors
    /// The errors of [`AuditTail::next_event`].
    pub fn read(&mut self) -> anyhow::Result<Vec<AuditEvent>> {
        std::iter::from_fn(|| self.next_event().transpose()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const LINE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces","verb":"create","user":{"username":"kubernetes-admin","groups":["system:masters"]},"sourceIPs":["192.168.77.1"],"userAgent":"kubectl","objectRef":{"resource":"namespaces","name":"a","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z","stageTimestamp":"2026-01-01T00:00:00.000000Z"}"#;

    /// Reads a log with this text.
    fn parse(text: &str) -> anyhow::Result<Vec<AuditEvent>> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        read(file.path())
    }

    #[test]
    fn writes_are_distinguished_from_reads_and_refusals() {
        let events = parse(&format!("{LINE}\n")).unwrap();
        assert!(events[0].is_write());
        assert_eq!(events[0].object_ref.as_ref().unwrap().resource, "namespaces");
        let refused = parse(&format!("{}\n", LINE.replace("201", "403"))).unwrap();
        assert!(!refused[0].is_write());
        let read = parse(&format!("{}\n", LINE.replace("create", "get"))).unwrap();
        assert!(!read[0].is_write());
        assert_eq!(read[0].user.username, "kubernetes-admin");
        assert_eq!(
            (read[0].is_write_request(), refused[0].is_write_request()),
            (false, true)
        );
    }

    #[test]
    fn the_pod_is_that_of_the_token() {
        assert_eq!(parse(&format!("{LINE}\n")).unwrap()[0].user.pod(), "");
        let extra = r#""username":"a","extra":{"authentication.kubernetes.io/pod-name":["b"]}"#;
        let line = LINE.replace(r#""username":"kubernetes-admin""#, extra);
        assert_eq!(parse(&format!("{line}\n")).unwrap()[0].user.pod(), "b");
    }

    #[test]
    fn a_line_still_being_written_is_left_out_and_a_broken_one_is_named() {
        assert_eq!(parse(&format!("{LINE}\n{{\"kind\":\"Ev")).unwrap().len(), 1);
        let error = parse(&format!("{LINE}\nnonsense\n")).unwrap_err();
        assert!(
            error.to_string().ends_with(": no audit event: nonsense"),
            "{error}"
        );
    }

    #[test]
    fn a_tail_reads_complete_lines_that_count_and_each_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = file.reopen().unwrap();
        let line = |name: &str| {
            let ours = LINE.replace("kubernetes-admin", "system:serviceaccount:olm:olm-operator");
            ours.replace(r#""name":"a""#, &format!(r#""name":"{name}""#)) + "\n"
        };
        log.write_all(line("old").as_bytes()).unwrap();
        let mut tail = AuditTail::of_olm(file.path()).unwrap();
        assert!(tail.read().unwrap().is_empty());

        let next = line("new");
        let (first, second) = next.split_at(40);
        log.write_all(b"{\"user\":{\"username\":\"kubernetes-admin\"}}\n")
            .unwrap();
        log.write_all(first.as_bytes()).unwrap();
        assert!(tail.read().unwrap().is_empty());
        log.write_all(second.as_bytes()).unwrap();
        let events = tail.read().unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].object_ref.as_ref().unwrap().name, "new");
        assert!(tail.read().unwrap().is_empty());
    }
}
