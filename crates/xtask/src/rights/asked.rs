//! Requests of OLM's accounts to the API server, and the permissions that allowed them.

use std::collections::BTreeMap;
use std::path::Path;

use super::rule::{Request, Right, Subject};
use crate::cluster::audit::{AuditEvent, AuditTail, AuditUser, OLM_ACCOUNTS};

/// Annotation with the decision of RBAC: `allow` or `forbid`. It is missing if a request did not reach authorization.
const DECISION: &str = "authorization.k8s.io/decision";
/// Prefix of the user name of every ServiceAccount, before namespace and name.
const ACCOUNT: &str = "system:serviceaccount:";

/// Requests, matched with permissions.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Number of requests for each permission, by its index.
    pub(super) used: BTreeMap<usize, u64>,
    /// Requests denied due to missing permission: `account: request`, and their number.
    pub(super) refused: BTreeMap<String, u64>,
    /// Number of requests by OLM.
    pub(super) requests: u64,
}

impl Asked {
    /// Reads the requests in a log line by line.
    ///
    /// # Errors
    /// The log cannot be read, or a line of OLM is no audit event.
    pub(super) fn read(log: &Path, rights: &[Right]) -> anyhow::Result<Self> {
        let mut asked = Self::default();
        let mut events = AuditTail::whole_of_olm(log)?;
        while let Some(event) = events.next_event()? {
            asked.note(&event, rights);
        }
        Ok(asked)
    }

    /// Records an event; those of other accounts are ignored.
    pub(super) fn note(&mut self, event: &AuditEvent, rights: &[Right]) {
        let Some(account) = event.user.username.strip_prefix(OLM_ACCOUNTS) else {
            return;
        };
        self.requests += 1;
        if let Some(user) = &event.impersonated_user {
            // The permissions of the impersonated user do not concern us.
            self.allowed(account, &impersonation(user), rights);
            for request in impersonation_extras(user) {
                self.allowed(account, &request, rights);
            }
            return;
        }
        let code = event.response_status.as_ref().map_or(0, |status| status.code);
        match event.annotations.get(DECISION).map(String::as_str) {
            Some("allow") if lacks_another(event) => self.refuse(account, event),
            Some("allow") => {
                for request in requests(event, code) {
                    self.allowed(account, &request, rights);
                }
            }
            // Impersonation is denied before the request itself is authorized.
            Some(_) => self.refuse(account, event),
            None if code == 403 => self.refuse(account, event),
            None => {}
        }
    }

    fn allowed(&mut self, account: &str, request: &Request, rights: &[Right]) {
        let allowing = || {
            let ours = rights.iter().enumerate();
            ours.filter(|(_, right)| right.account == account && right.allows(request))
        };
        let Some(narrowest) = allowing().map(|(_, right)| right.width()).min() else {
            // A role outside the chart allows it: discovery, or a role that OLM creates for API servers.
            return;
        };
        for (place, _) in allowing().filter(|(_, right)| right.width() == narrowest) {
            *self.used.entry(place).or_default() += 1;
        }
    }

    fn refuse(&mut self, account: &str, event: &AuditEvent) {
        let what = requests(event, 0)
            .first()
            .map_or_else(|| event.request_uri.clone(), ToString::to_string);
        *self.refused.entry(format!("{account}: {what}")).or_default() += 1;
    }
}

/// Returns true if an allowed request lacked a further permission: to create the object that an apply does not find, or to grant
/// permissions that the account lacks. Admission denies with other messages.
fn lacks_another(event: &AuditEvent) -> bool {
    let refusal = event.response_status.as_ref().filter(|status| status.code == 403);
    let cannot = format!("User \"{}\" cannot ", event.user.username);
    refusal.is_some_and(|status| {
        status.message.contains(&cannot) || status.message.contains("is attempting to grant RBAC permissions")
    })
}

/// Returns the permissions that RBAC checked for an event, that of the request first.
fn requests(event: &AuditEvent, code: u16) -> Vec<Request> {
    let Some(object) = &event.object_ref else {
        let path = event.request_uri.split('?').next().unwrap_or_default();
        return vec![on_object(&event.verb, "", path.to_owned(), "", "")];
    };
    let resource = if object.subresource.is_empty() {
        object.resource.clone()
    } else {
        format!("{}/{}", object.resource, object.subresource)
    };
    let request = on_object(
        &event.verb,
        &object.api_group,
        resource,
        &object.namespace,
        &object.name,
    );
    // Server-side apply and update of a missing object also require permission to create it.
    let creates = code == 201 && ["patch", "update"].contains(&event.verb.as_str());
    let creation = creates.then(|| Request {
        verb: "create".to_owned(),
        ..request.clone()
    });
    [Some(request), creation].into_iter().flatten().collect()
}

/// Returns the request to impersonate `user`. Without explicit groups no permission for groups is needed, because a
/// ServiceAccount implies its own.
fn impersonation(user: &AuditUser) -> Request {
    let account = user
        .username
        .strip_prefix(ACCOUNT)
        .and_then(|rest| rest.split_once(':'));
    let (resource, namespace, name) = match account {
        Some((namespace, name)) => ("serviceaccounts", namespace, name),
        None => ("users", "", user.username.as_str()),
    };
    on_object("impersonate", "", resource.to_owned(), namespace, name)
}

/// Returns the further requests for extra attributes of `user`: one for each value.
fn impersonation_extras(user: &AuditUser) -> impl Iterator<Item = Request> {
    let extras = user.extra.iter();
    let values = extras.flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    values.map(|(key, value)| {
        let resource = format!("userextras/{key}");
        on_object("impersonate", "authentication.k8s.io", resource, "", value)
    })
}

/// Returns a request about objects of a kind, with `/` and the subresource in `resource` if there is one, or about a path.
fn on_object(verb: &str, group: &str, resource: String, namespace: &str, name: &str) -> Request {
    Request {
        verb: verb.to_owned(),
        subject: Subject {
            group: group.to_owned(),
            resource,
        },
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use std::io::Write as _;

    use serde_json::{Value, json};

    use super::*;

    fn right(verb: &str, group: &str, resource: &str) -> Right {
        Right {
            account: "a".to_owned(),
            role: "r".to_owned(),
            namespace: None,
            subject: Subject {
                group: group.to_owned(),
                resource: resource.to_owned(),
            },
            names: BTreeSet::new(),
            verb: verb.to_owned(),
        }
    }

    fn event(verb: &str, code: u16, decision: Option<&str>) -> Value {
        let mut event = json!({
            "auditID": "1", "stage": "ResponseComplete", "verb": verb, "requestURI": "/api/v1/namespaces/n/pods/p?x=y",
            "user": {"username": format!("{OLM_ACCOUNTS}a")},
            "objectRef": {"resource": "pods", "namespace": "n", "name": "p"},
            "responseStatus": {"code": code}, "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        });
        if let Some(decision) = decision {
            event["annotations"] = json!({DECISION: decision});
        }
        event
    }

    fn note(asked: &mut Asked, rights: &[Right], event: Value) {
        asked.note(&serde_json::from_value(event).unwrap(), rights);
    }

    #[test]
    fn a_request_counts_for_the_narrowest_right_that_allows_it() {
        let rights = [
            right("get", "*", "*"),
            right("get", "", "pods"),
            right("list", "", "pods"),
        ];
        let mut asked = Asked::default();
        note(&mut asked, &rights, event("get", 404, Some("allow")));
        assert_eq!(asked.used, BTreeMap::from([(1, 1)]));
        let mut other = event("get", 200, Some("allow"));
        other["objectRef"]["resource"] = json!("secrets");
        note(&mut asked, &rights, other);
        assert_eq!(asked.used, BTreeMap::from([(0, 1), (1, 1)]));
        let mut stranger = event("list", 200, Some("allow"));
        stranger["user"]["username"] = json!("kubernetes-admin");
        note(&mut asked, &rights, stranger);
        assert_eq!((asked.requests, asked.used.len()), (2, 2));
    }

    #[test]
    fn an_apply_that_creates_uses_the_right_to_create() {
        let rights = [right("patch", "", "pods"), right("create", "", "pods")];
        let mut asked = Asked::default();
        note(&mut asked, &rights, event("patch", 200, Some("allow")));
        assert_eq!(asked.used, BTreeMap::from([(0, 1)]));
        note(&mut asked, &rights, event("patch", 201, Some("allow")));
        assert_eq!(asked.used, BTreeMap::from([(0, 2), (1, 1)]));
    }

    #[test]
    fn refused_is_what_rbac_refuses_and_not_what_admission_does() {
        let rights = [right("create", "", "pods")];
        let mut asked = Asked::default();
        let mut quota = event("create", 403, Some("allow"));
        quota["responseStatus"]["message"] = json!("exceeded quota: q");
        note(&mut asked, &rights, quota);
        let mut going = event("patch", 403, Some("allow"));
        going["responseStatus"]["message"] = json!(
            r#"pods "p" is forbidden: unable to create new content in namespace n because it is being terminated"#
        );
        note(&mut asked, &rights, going);
        note(&mut asked, &rights, event("create", 429, None));
        assert!(asked.refused.is_empty());
        note(&mut asked, &rights, event("delete", 403, Some("forbid")));
        note(&mut asked, &rights, event("delete", 403, Some("forbid")));
        // The impersonation is denied.
        note(&mut asked, &rights, event("create", 403, None));
        // A patch is allowed but not the creation of the missing object; a creation is allowed but not to grant its permissions.
        for message in [
            r#"pods "p" is forbidden: User "system:serviceaccount:olm:a" cannot create resource "pods""#,
            "roles is forbidden: user is attempting to grant RBAC permissions not currently held",
        ] {
            let mut beyond = event("patch", 403, Some("allow"));
            beyond["responseStatus"]["message"] = json!(message);
            note(&mut asked, &rights, beyond);
        }
        let refused = [
            ("a: create pods n/p", 1),
            ("a: delete pods n/p", 2),
            ("a: patch pods n/p", 2),
        ];
        let refused = refused.map(|(text, number)| (text.to_owned(), number));
        assert_eq!(asked.refused, BTreeMap::from(refused));
    }

    #[test]
    fn requests_on_behalf_of_a_tenant_are_impersonations_and_nothing_else() {
        let rights = [
            right("impersonate", "", "serviceaccounts"),
            right("get", "", "pods"),
        ];
        let mut asked = Asked::default();
        let mut refused = event("get", 403, Some("forbid"));
        refused["impersonatedUser"] = json!({"username": "system:serviceaccount:n:installer"});
        note(&mut asked, &rights, refused);
        assert_eq!(asked.used, BTreeMap::from([(0, 1)]));
        assert!(asked.refused.is_empty());
        let user = AuditUser {
            username: "rosa".to_owned(),
            extra: BTreeMap::new(),
        };
        assert_eq!(impersonation(&user).to_string(), "impersonate users rosa");
    }

    #[test]
    fn extra_fields_of_an_impersonated_user_need_their_own_right() {
        let rights = [
            right("impersonate", "", "serviceaccounts"),
            right("impersonate", "authentication.k8s.io", "userextras/example.com"),
            right("impersonate", "authentication.k8s.io", "userextras/other"),
        ];
        let mut asked = Asked::default();
        let mut event = event("create", 201, Some("allow"));
        event["impersonatedUser"] =
            json!({"username": "system:serviceaccount:n:installer", "extra": {"example.com": ["marks"]}});
        note(&mut asked, &rights, event);
        assert_eq!(asked.used, BTreeMap::from([(0, 1), (1, 1)]));
    }

    #[test]
    fn what_is_no_object_is_asked_by_its_path() {
        let mut asked = event("get", 200, None);
        asked["objectRef"] = Value::Null;
        let asked: AuditEvent = serde_json::from_value(asked).unwrap();
        assert_eq!(
            requests(&asked, 200)[0].to_string(),
            "get /api/v1/namespaces/n/pods/p"
        );
    }

    #[test]
    fn a_log_is_read_to_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let mut file = std::fs::File::create(&log).unwrap();
        let line = event("get", 200, Some("allow")).to_string();
        writeln!(
            file,
            "{line}\n{{\"user\": \"somebody else's, and no event\"}}\n{line}"
        )
        .unwrap();
        write!(file, "{}", &line[..line.len() - 1]).unwrap();
        let rights = [right("get", "", "pods")];
        let asked = Asked::read(&log, &rights).unwrap();
        assert_eq!(asked.used, BTreeMap::from([(0, 2)]));

        writeln!(file).unwrap();
        let broken = Asked::read(&log, &rights).unwrap_err();
        assert!(broken.to_string().contains(": no audit event: {"), "{broken}");
    }
}
