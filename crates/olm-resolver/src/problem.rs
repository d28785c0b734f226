//! Input of resolution: one namespace with everything that may matter to it, as plain values.

use std::sync::Arc;

use olm_fbc::did_you_mean::did_you_mean;
use olm_fbc::property::Gvk;

use crate::catalog::{Catalog, CatalogKey, Snapshot};
use crate::enumeration::list;
use crate::runtime_constraint::RuntimeConstraint;

/// One namespace to resolve.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// The namespace.
    pub namespace: String,
    /// Namespace whose catalogs all namespaces may use; empty for none.
    pub global_namespace: String,
    /// All Subscriptions of the namespace.
    pub subscriptions: Vec<Subscription>,
    /// All ClusterServiceVersions of the namespace, copied ones included.
    pub installed: Vec<InstalledCsv>,
    /// CatalogSources of this namespace and the global one. Others are ignored.
    pub catalogs: Vec<Catalog>,
    /// Facts about the namespace's OperatorGroups.
    pub operator_group: OperatorGroup,
    /// The administrator's constraints on every bundle from a catalog.
    pub runtime_constraints: Vec<RuntimeConstraint>,
}

impl Problem {
    /// Returns the same namespace with only these Subscriptions and ClusterServiceVersions.
    pub(crate) fn limited<'p>(
        &self,
        subscriptions: impl Iterator<Item = &'p Subscription>,
        installed: impl Iterator<Item = &'p InstalledCsv>,
    ) -> Problem {
        Problem {
            namespace: self.namespace.clone(),
            global_namespace: self.global_namespace.clone(),
            subscriptions: subscriptions.cloned().collect(),
            installed: installed.cloned().collect(),
            catalogs: self.catalogs.clone(),
            operator_group: self.operator_group.clone(),
            runtime_constraints: self.runtime_constraints.clone(),
        }
    }

    /// Returns the content of a catalog; `None` if it does not exist or cannot be read.
    pub fn snapshot(&self, key: &CatalogKey) -> Option<&Snapshot> {
        let catalog = self.catalogs.iter().find(|catalog| catalog.key == *key)?;
        catalog.content.as_deref().ok()
    }

    /// Returns whether the Subscription waits for an InstallPlan to be approved or completed.
    pub fn awaits_plan(&self, subscription: &Subscription) -> bool {
        let Subscription {
            current_csv,
            installed_csv,
            ..
        } = subscription;
        !current_csv.is_empty()
            && current_csv != installed_csv
            && !self.installed.iter().any(|csv| csv.name == *current_csv)
    }

    /// Returns a message that there is no such Subscription. It lists the existing ones and the one that was
    /// probably meant.
    pub fn unknown_subscription(&self, name: &str) -> String {
        let known = || self.subscriptions.iter().map(|s| s.name.as_str());
        if self.subscriptions.is_empty() {
            return format!(
                "namespace {} has no subscription {name}, and no other",
                self.namespace
            );
        }
        let meant = did_you_mean(name, known());
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        format!(
            "namespace {} has no subscription {name}: its subscriptions are {}{meant}",
            self.namespace,
            list(known())
        )
    }
}

/// A Subscription. Empty texts mean "not set".
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subscription {
    /// Name of the object.
    pub name: String,
    /// `spec.name`.
    pub package: String,
    /// `spec.channel`; any channel if empty.
    pub channel: String,
    /// `spec.startingCSV`.
    pub starting_csv: String,
    /// `spec.source` and `spec.sourceNamespace`.
    pub catalog: CatalogKey,
    /// `status.currentCSV`.
    pub current_csv: String,
    /// `status.installedCSV`.
    pub installed_csv: String,
    /// Range of versions that the package is held within, as text; `None` for any version. An unreadable one
    /// allows none.
    pub hold: Option<String>,
    /// Requires another version than the installed one. Never set in a cluster; it serves to find out why an
    /// upgrade is held back.
    pub must_move: bool,
}

/// A ClusterServiceVersion of the namespace. Empty texts mean "not set".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledCsv {
    /// Name of the object.
    pub name: String,
    /// `spec.version`; an unreadable or empty one counts as 0.0.0.
    pub version: String,
    /// `spec.replaces`.
    pub replaces: String,
    /// `status.phase`, such as `Succeeded`.
    pub phase: String,
    /// True if this is a copy of a ClusterServiceVersion of another namespace.
    pub copied: bool,
    /// Annotation `operatorframework.io/properties`, if present. It replaces everything derived from the
    /// spec. Copies of a problem share the text and its parsed content.
    pub properties: Option<Arc<str>>,
    /// APIs of owned CRDs and APIServices.
    pub owned: Vec<Gvk>,
    /// APIs of required CRDs and APIServices.
    pub required: Vec<Gvk>,
}

/// Facts about OperatorGroups that resolution uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorGroup {
    /// Number of OperatorGroups in the namespace; resolution needs exactly one.
    pub count: usize,
    /// Their names, for messages; may be empty.
    pub names: Vec<String>,
    /// `spec.upgradeStrategy` is `TechPreviewUnsafeFailForward`.
    pub fail_forward: bool,
    /// True if catalogs of the global namespace are excluded.
    pub exclude_global_namespace: bool,
}

impl Default for OperatorGroup {
    /// One OperatorGroup with default settings.
    fn default() -> Self {
        OperatorGroup {
            count: 1,
            names: Vec::new(),
            fail_forward: false,
            exclude_global_namespace: false,
        }
    }
}
