//! Rules of RBAC as single permissions, matched with requests.

use std::collections::BTreeSet;
use std::fmt;

/// Matches every group, resource or verb.
const ALL: &str = "*";

/// Subject of a permission or a request: objects of a kind, or a path of no resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    /// API group; empty for the core group.
    pub(super) group: String,
    /// Plural, with `/` and the subresource if there is one; or a path such as `/version`.
    pub(super) resource: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        match self.group.as_str() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

/// One verb on one subject, granted to an account by a role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    /// Name of the ServiceAccount in OLM's namespace.
    pub(super) account: String,
    /// The role that grants it.
    pub(super) role: String,
    /// Namespace to which it applies; `None` for all.
    pub(super) namespace: Option<String>,
    pub(super) subject: Subject,
    /// Names to which it applies; empty for all.
    pub(super) names: BTreeSet<String>,
    pub(super) verb: String,
}

/// A request as the API server authorizes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// Verb of RBAC, such as `watch` or `impersonate`.
    pub(super) verb: String,
    pub(super) subject: Subject,
    /// Empty for cluster-scoped objects.
    pub(super) namespace: String,
    /// Empty for requests without name, such as lists.
    pub(super) name: String,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.subject)?;
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, "") => write!(f, " in {namespace}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

impl Right {
    /// Returns true if it allows a request of its account.
    pub(super) fn allows(&self, request: &Request) -> bool {
        let verb = self.verb == ALL || self.verb == request.verb;
        let place = self
            .namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == request.namespace);
        let name = self.names.is_empty() || self.names.contains(&request.name);
        verb && place && name && self.subject.covers(&request.subject)
    }

    /// Returns how much more it allows than one verb on named objects of one namespace. If several permissions allow a request,
    /// the narrowest counts as used.
    pub(super) fn width(&self) -> (usize, bool, bool) {
        let wildcards = usize::from(self.verb == ALL) + self.subject.wildcards();
        (wildcards, self.names.is_empty(), self.namespace.is_none())
    }

    /// Returns true if any part of it is a wildcard.
    pub(super) fn has_wildcard(&self) -> bool {
        self.width().0 > 0
    }
}

impl Subject {
    fn covers(&self, asked: &Self) -> bool {
        (self.group == ALL || self.group == asked.group) && resource_covers(&self.resource, &asked.resource)
    }

    fn wildcards(&self) -> usize {
        usize::from(self.group == ALL) + usize::from(self.resource.contains(ALL))
    }
}

/// Returns true if a resource in a rule covers another. It does not cover its subresources; `*/status` covers that subresource of
/// every resource. A path may end in `*`.
fn resource_covers(resource: &str, asked: &str) -> bool {
    if asked.starts_with('/') {
        let start = resource.strip_suffix(ALL).filter(|start| start.starts_with('/'));
        return resource == asked || start.is_some_and(|start| asked.starts_with(start));
    }
    let of_any = resource.strip_prefix(ALL).filter(|rest| rest.starts_with('/'));
    resource == ALL
        || resource == asked
        || of_any.is_some_and(|subresource| {
            asked
                .split_once('/')
                .is_some_and(|(_, asked)| subresource[1..] == *asked)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(group: &str, resource: &str) -> Subject {
        Subject {
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }

    fn right(verb: &str, group: &str, resource: &str, names: &[&str], namespace: Option<&str>) -> Right {
        Right {
            account: "a".to_owned(),
            role: "r".to_owned(),
            namespace: namespace.map(str::to_owned),
            subject: subject(group, resource),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            verb: verb.to_owned(),
        }
    }

    fn request(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Request {
        Request {
            verb: verb.to_owned(),
            subject: subject(group, resource),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_right_allows_what_rbac_says_it_does() {
        let get = |resource| request("get", "apps", resource, "n", "x");
        let plain = right("get", "apps", "deployments", &[], None);
        let cases = [
            (plain.clone(), get("deployments"), true),
            (plain.clone(), get("deployments/status"), false),
            (
                plain.clone(),
                request("list", "apps", "deployments", "n", ""),
                false,
            ),
            (plain, request("get", "", "deployments", "n", "x"), false),
            (
                right("get", "*", "deployments", &[], None),
                get("deployments"),
                true,
            ),
            (
                right("get", "apps", "*", &[], None),
                get("deployments/status"),
                true,
            ),
            (
                right("get", "apps", "*/status", &[], None),
                get("deployments/status"),
                true,
            ),
            (
                right("get", "apps", "*/status", &[], None),
                get("deployments/scale"),
                false,
            ),
            (
                right("get", "apps", "*/status", &[], None),
                get("deployments"),
                false,
            ),
            (
                right("*", "apps", "deployments", &[], None),
                get("deployments"),
                true,
            ),
            (
                right("get", "apps", "deployments", &["x"], None),
                get("deployments"),
                true,
            ),
            (
                right("get", "apps", "deployments", &["y"], None),
                get("deployments"),
                false,
            ),
            (
                right("list", "apps", "deployments", &["x"], None),
                request("list", "apps", "deployments", "n", ""),
                false,
            ),
            (
                right("get", "apps", "deployments", &[], Some("n")),
                get("deployments"),
                true,
            ),
            (
                right("get", "apps", "deployments", &[], Some("m")),
                get("deployments"),
                false,
            ),
        ];
        for (right, request, allowed) in cases {
            assert_eq!(right.allows(&request), allowed, "{right:?} {request}");
        }
    }

    #[test]
    fn a_path_is_allowed_by_itself_or_by_its_start() {
        let path = |text: &str| subject("", text);
        assert!(path("/metrics").covers(&path("/metrics")));
        assert!(!path("/metrics").covers(&path("/metrics/x")));
        assert!(path("/healthz/*").covers(&path("/healthz/etcd")));
        assert!(!path("/healthz/*").covers(&path("/livez")));
        assert!(!path("/*").covers(&subject("", "pods")));
        assert!(!subject("*", "*").covers(&path("/metrics")));
    }

    #[test]
    fn the_right_that_allows_less_is_the_narrower() {
        let named = right("get", "", "pods", &["x"], None);
        let order = [
            right("get", "", "pods", &["x"], Some("n")),
            named.clone(),
            right("get", "", "pods", &[], Some("n")),
            right("get", "", "pods", &[], None),
            right("get", "", "*/log", &[], None),
            right("*", "*", "*", &[], None),
        ];
        for pair in order.windows(2) {
            assert!(pair[0].width() < pair[1].width(), "{pair:?}");
        }
        assert!(!named.has_wildcard() && order[4].has_wildcard());
    }
}
