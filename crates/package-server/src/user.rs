//! Who asks.

use std::collections::BTreeMap;

use serde::Serialize;

/// Group of everybody who said who they are.
const AUTHENTICATED: &str = "system:authenticated";
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
    /// The same as a member of the group of all who said who they are.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whether nobody has to be asked what they may do.
    pub fn may_everything(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}
