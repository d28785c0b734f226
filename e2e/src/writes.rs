//! Writes of the operators for one namespace, read from the API server's audit log while it grows.
//!
//! A write is a successful create, update, patch or delete. Events are ignored: nothing depends on them.

use std::collections::{BTreeMap, BTreeSet};

use xtask::cluster::audit::{AuditEvent, OLM_ACCOUNTS};

/// Writes for one namespace, by program.
#[derive(Debug, Clone)]
pub struct Writes {
    namespace: String,
    /// Cluster-scoped objects created for the namespace.
    made: BTreeSet<String>,
    /// Writes in order, by program.
    pub by_program: BTreeMap<String, Vec<String>>,
}

impl Writes {
    /// Creates a counter for `namespace`. Its name must not be part of another namespace's.
    pub fn of(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            made: BTreeSet::new(),
            by_program: BTreeMap::new(),
        }
    }

    /// Returns the number of writes of a program.
    pub fn count(&self, program: &str) -> usize {
        self.by_program.get(program).map_or(0, Vec::len)
    }

    /// Returns the number of writes of all programs.
    pub fn total(&self) -> usize {
        self.by_program.values().map(Vec::len).sum()
    }

    /// Records an event; returns the program if the event is one of its writes for the namespace.
    pub fn note(&mut self, event: &AuditEvent) -> Option<String> {
        let program = event.user.username.strip_prefix(OLM_ACCOUNTS)?;
        let object = event
            .object_ref
            .as_ref()
            .filter(|object| object.resource != "events")?;
        if !event.is_write() {
            return None;
        }
        let belongs = if let ("operators", Some((_, namespace))) =
            (object.resource.as_str(), object.name.rsplit_once('.'))
        {
            // An Operator is named after its package and namespace, also while that of another test is deleted.
            namespace == self.namespace
        } else if object.namespace.is_empty() {
            // Earlier namespaces are being deleted at the same time, so a deletion must identify the owner of the object; nothing
            // is created for them any more.
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
    use super::*;

    fn line(program: &str, verb: &str, resource: &str, namespace: &str, name: &str, code: u16) -> String {
        format!(
            r#"{{"auditID":"1","stage":"ResponseComplete","requestURI":"/x/{namespace}","verb":"{verb}","user":{{"username":"{OLM_ACCOUNTS}{program}"}},"objectRef":{{"resource":"{resource}","namespace":"{namespace}","name":"{name}"}},"responseStatus":{{"code":{code}}},"requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z"}}"#
        ) + "\n"
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
            (line("a", "patch", "operators", "", "demo.n2", 200), false),
            (line("a", "delete", "operators", "", "demo.n2", 200), false),
            (line("a", "patch", "operators", "", "demo.n1", 200), true),
            (
                line("a", "deletecollection", "clusterroles", "", "", 200)
                    .replace("/x/", "/x?labelSelector=o%3Dn1"),
                true,
            ),
        ];
        let mut writes = Writes::of("n1");
        for (text, expected) in rows {
            let event = serde_json::from_str(&text).unwrap();
            assert_eq!(writes.note(&event).is_some(), expected, "{text}");
        }
        assert_eq!(
            writes.by_program["a"],
            [
                "create pods x",
                "patch clusterroles role",
                "patch operators demo.n1",
                "deletecollection clusterroles "
            ]
        );
        assert_eq!((writes.count("b"), writes.count("c"), writes.total()), (1, 0, 5));
    }
}
