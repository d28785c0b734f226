//! Users as Kubernetes identifies them.

use std::collections::BTreeMap;

use olm_api::names::{service_account_groups, service_account_user};
use serde::Serialize;

/// Group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";
/// Name of unauthenticated users.
const ANONYMOUS: &str = "system:anonymous";
/// Group of unauthenticated users.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Group of users with all permissions; the API server itself requests discovery as a member.
const MASTERS: &str = "system:masters";

/// A user as known to Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct User {
    /// Name.
    pub name: String,
    /// Distinguishes users with the same name.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Extra attributes for the authorizer.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns a ServiceAccount as a user, with the groups that every account has.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: service_account_user(namespace, name),
            groups: service_account_groups(namespace).into(),
            ..Self::default()
        }
    }

    /// Adds the user to the group of authenticated users, unless they are anonymous: the API server forwards anonymous requests, too.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        let is_in = |name: &str| self.groups.iter().any(|group| group == name);
        if self.name != ANONYMOUS && !is_in(UNAUTHENTICATED) && !is_in(AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// True if no permission has to be checked for this user.
    pub fn may_everything(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unauthenticated_users_are_in_no_group_of_authenticated_ones() {
        let groups = |name: &str, groups: &[&str]| {
            let user = User {
                name: name.to_owned(),
                groups: groups.iter().map(|group| (*group).to_owned()).collect(),
                ..User::default()
            };
            user.authenticated().groups
        };
        assert_eq!(groups("ada", &["a"]), ["a", AUTHENTICATED]);
        assert_eq!(groups("ada", &[AUTHENTICATED]), [AUTHENTICATED]);
        assert_eq!(groups(ANONYMOUS, &[UNAUTHENTICATED]), [UNAUTHENTICATED]);
        assert!(groups(ANONYMOUS, &[]).is_empty());
        assert_eq!(groups("eve", &[UNAUTHENTICATED]), [UNAUTHENTICATED]);
    }
}
