//! Who asks.

use std::collections::BTreeMap;

use serde::Serialize;

/// Group of everybody who said who they are.
const AUTHENTICATED: &str = "system:authenticated";
/// Who did not say who they are.
const ANONYMOUS: &str = "system:anonymous";
/// Group of those.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Group of those who may do everything; the API server itself looks at discovery as one of them.
const MASTERS: &str = "system:masters";

/// A user, as Kubernetes knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct User {
    /// Name.
    pub name: String,
    /// What tells users of the same name apart.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What else was said, for whoever decides.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The same as a member of the group of all who said who they are, unless they did not: the API server passes those on, too.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        let is_in = |name: &str| self.groups.iter().any(|group| group == name);
        if self.name != ANONYMOUS && !is_in(UNAUTHENTICATED) && !is_in(AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whether nobody has to be asked what they may do.
    pub fn may_everything(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_did_not_say_who_they_are_is_in_no_group_of_those_who_did() {
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
