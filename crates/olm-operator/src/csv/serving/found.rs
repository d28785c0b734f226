//! Certificates, Services, APIServices and webhooks from the stores, as values.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use olm_runtime::plan::Target;
use serde_json::Value;

use crate::{
    csv::serving::{
        certificate::{Issued, Unfit, Validity},
        delegation,
        endpoint::Endpoint,
    },
    stores::ServingSecret,
};

/// The serving objects of a ClusterServiceVersion.
#[derive(Debug, Clone, Default)]
pub(crate) struct Serving {
    /// Its Deployments that serve, in the order of the strategy.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The wanted objects that exist, by the text of their [`Target`]; of Secrets, only the metadata.
    pub(crate) live: BTreeMap<String, Value>,
    /// Secrets with certificates, by Deployment.
    pub(crate) secrets: BTreeMap<String, Arc<ServingSecret>>,
    /// CAs of all Secrets with certificates that the ClusterServiceVersion owns, as PEM.
    pub(crate) own_cas: Vec<String>,
    /// Secrets with certificates that no Deployment uses any more, and their related objects, with uids.
    pub(crate) unused: Vec<(Target, Option<String>)>,
    /// Creation and renewal times of the valid certificates, by Deployment.
    pub(crate) valid: BTreeMap<String, Validity>,
    /// Reasons why the other certificates are not valid, by Deployment.
    pub(crate) unfit: BTreeMap<String, Unfit>,
    /// New certificates in their place, by Deployment. They are only issued for a reconcile that installs.
    pub(crate) issued: BTreeMap<String, Issued>,
    /// Webhook configurations, APIServices and bindings for their servers with the owner labels of the
    /// ClusterServiceVersion, and their uids.
    pub(crate) labelled: Vec<(Target, Option<String>)>,
    /// Existing Secrets, Roles and RoleBindings with a wanted name that are not OLM's, by the text of their
    /// [`Target`]; read for a reconcile that installs.
    pub(crate) strangers: BTreeSet<String>,
    /// Names of the bindings for servers of APIs, by Deployment.
    pub(crate) delegations: BTreeMap<String, delegation::Names>,
    /// Wanted APIServices that others own and keep, by name, with the reason for users.
    pub(crate) foreign_apis: BTreeMap<String, String>,
}

impl Serving {
    /// Returns the CA for the pods of a Deployment, as PEM; `None` when none was issued yet.
    pub(crate) fn ca(&self, deployment: &str) -> Option<&str> {
        match self.issued.get(deployment) {
            Some(issued) => Some(&issued.ca),
            None if self.valid.contains_key(deployment) => self.stored_ca(deployment),
            None => None,
        }
    }

    /// Returns the CA of the Secret, whether or not its certificate is valid.
    pub(crate) fn stored_ca(&self, deployment: &str) -> Option<&str> {
        self.secrets.get(deployment).map(|secret| secret.ca())
    }

    /// Returns the stored object of `target`.
    pub(crate) fn live(&self, target: &Target) -> Option<&Value> {
        self.live.get(&target.to_string())
    }
}
