//! Which writes an operator has made for one namespace, as the API server's audit log tells while it grows.
//!
//! A write is a create, update, patch or delete that was answered with success. Events are left out: they are sent
//! beside the work, and nothing depends on them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::Context as _;
use xtask::cluster::audit::AuditEvent;

/// Start of the user names of OLM's programs.
const ACCOUNTS: &str = "system:serviceaccount:olm:";

/// The audit log from some moment on.
#[derive(Debug)]
pub struct AuditTail {
    log: File,
    /// The start of a line that is still being written.
    partial: Vec<u8>,
}

impl AuditTail {
    /// Begins at the log's end.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn from_now(log: &Path) -> anyhow::Result<Self> {
        let mut file = File::open(log).with_context(|| format!("cannot open {}", log.display()))?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self {
            log: file,
            partial: Vec::new(),
        })
    }

    /// What OLM's programs asked since the last look.
    ///
    /// # Errors
    /// When the log cannot be read or a line of it is not an event.
    pub fn read(&mut self) -> anyhow::Result<Vec<AuditEvent>> {
        self.log
            .read_to_end(&mut self.partial)
            .context("cannot read the audit log")?;
        let complete = self
            .partial
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let rest = self.partial.split_off(complete);
        let text = std::mem::replace(&mut self.partial, rest);
        parse(&String::from_utf8_lossy(&text))
    }
}

/// Lines of others are not even parsed: the reader is to be quick.
fn parse(text: &str) -> anyhow::Result<Vec<AuditEvent>> {
    text.lines()
        .filter(|line| line.contains(ACCOUNTS))
        .map(|line| serde_json::from_str(line).with_context(|| format!("not an audit event: {line}")))
        .collect()
}

/// Writes for one namespace, by program.
#[derive(Debug, Clone)]
pub struct Writes {
    namespace: String,
    /// Cluster-scoped objects made for it.
    made: BTreeSet<String>,
    /// What was written, in order, by program.
    pub by_program: BTreeMap<String, Vec<String>>,
}

impl Writes {
    /// Counts for `namespace`. Its name must not be part of another's.
    pub fn of(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            made: BTreeSet::new(),
            by_program: BTreeMap::new(),
        }
    }

    /// How many a program has made.
    pub fn count(&self, program: &str) -> usize {
        self.by_program.get(program).map_or(0, Vec::len)
    }

    /// How many all programs have made.
    pub fn total(&self) -> usize {
        self.by_program.values().map(Vec::len).sum()
    }

    /// Takes notice of an event; returns the program when the event is one of its writes for the namespace.
    pub fn note(&mut self, event: &AuditEvent) -> Option<String> {
        let program = event.user.username.strip_prefix(ACCOUNTS)?;
        let object = event
            .object_ref
            .as_ref()
            .filter(|object| object.resource != "events")?;
        if !event.is_write() {
            return None;
        }
        let belongs = if object.namespace.is_empty() {
            // Earlier namespaces are being cleared away at the same time, so a deletion has to show whose object it was;
            // nothing is made for them any more.
            let is_deletion = event.verb.starts_with("delete");
            let known = self.made.contains(&object.name) || event.request_uri.contains(&self.namespace);
            if !is_deletion {
                self.made.insert(object.name.clone());
            }
            known || !is_deletion
        } else {
            object.namespace == self.namespace
        };
        if !belongs {
            return None;
        }
        let subresource = if object.subresource.is_empty() {
            String::new()
        } else {
            format!("/{}", object.subresource)
        };
        let text = format!("{} {}{subresource} {}", event.verb, object.resource, object.name);
        self.by_program.entry(program.to_owned()).or_default().push(text);
        Some(program.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn line(program: &str, verb: &str, resource: &str, namespace: &str, name: &str, code: u16) -> String {
        format!(
            r#"{{"auditID":"1","stage":"ResponseComplete","requestURI":"/x/{namespace}","verb":"{verb}","user":{{"username":"{ACCOUNTS}{program}"}},"objectRef":{{"resource":"{resource}","namespace":"{namespace}","name":"{name}"}},"responseStatus":{{"code":{code}}},"requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z"}}"#
        ) + "\n"
    }

    #[test]
    fn only_complete_lines_of_our_programs_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = file.reopen().unwrap();
        log.write_all(line("a", "create", "pods", "n", "old", 201).as_bytes())
            .unwrap();
        let mut tail = AuditTail::from_now(file.path()).unwrap();
        assert!(tail.read().unwrap().is_empty());

        let next = line("a", "create", "pods", "n", "new", 201);
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

    #[test]
    fn writes_belong_to_a_namespace_by_object_or_by_having_been_made_for_it() {
        let rows = [
            (line("a", "create", "pods", "n1", "x", 201), true),
            (line("a", "create", "pods", "n2", "x", 201), false),
            (line("a", "patch", "pods", "n1", "x", 409), false),
            (line("a", "get", "pods", "n1", "x", 200), false),
            (line("a", "create", "events", "n1", "x", 201), false),
            (line("a", "delete", "clusterroles", "", "early", 200), false),
            (line("a", "patch", "clusterroles", "", "role", 200), true),
            (line("b", "delete", "clusterroles", "", "role", 200), true),
            (
                line("a", "deletecollection", "clusterroles", "", "", 200)
                    .replace("/x/", "/x?labelSelector=o%3Dn1"),
                true,
            ),
        ];
        let mut writes = Writes::of("n1");
        for (text, expected) in rows {
            let event = parse(&text).unwrap().remove(0);
            assert_eq!(writes.note(&event).is_some(), expected, "{text}");
        }
        assert_eq!(
            writes.by_program["a"],
            [
                "create pods x",
                "patch clusterroles role",
                "deletecollection clusterroles "
            ]
        );
        assert_eq!((writes.count("b"), writes.count("c"), writes.total()), (1, 0, 4));
    }
}
