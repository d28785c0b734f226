//! What uninstalling an operator deletes, leaves and loses. Pure.

use std::fmt;

use anyhow::bail;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use olm_api::v1alpha1::{ClusterServiceVersion, Subscription};

use super::known;
use crate::operators::Gathered;
use crate::terminal::plain;
use crate::writer::subject;

/// Objects of one kind that are named.
pub(super) const MAX_NAMED: usize = 5;

/// What goes and what stays.
#[derive(Debug, Clone)]
pub(super) struct Removal {
    pub namespace: String,
    /// None where a ClusterServiceVersion has none.
    pub subscription: Option<Subscription>,
    /// What it installed; the older one, too, during an upgrade.
    pub csvs: Vec<ClusterServiceVersion>,
    /// CustomResourceDefinitions of the operator.
    pub definitions: Vec<Definition>,
    pub notes: Vec<String>,
}

/// A CustomResourceDefinition of an operator.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub name: String,
    /// Whether it is named to be deleted.
    pub is_deleted: bool,
    /// Whether OLM deletes its objects of itself, as the ClusterServiceVersion says.
    pub is_cleaned: bool,
    /// Others that own or need it.
    pub others: Vec<String>,
    pub crd: Option<CustomResourceDefinition>,
    pub objects: Objects,
}

/// What there is of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Objects {
    Unknown(String),
    /// Not even the kind.
    NoDefinition,
    Known {
        count: usize,
        /// There are more.
        at_least: bool,
        /// Of those that were looked at.
        with_finalizers: usize,
        names: Vec<String>,
    },
}

impl Removal {
    /// What to call to go on, once the Subscription is gone.
    pub(super) fn again(&self) -> String {
        let name = self.csvs.last().map(|csv| csv.name_any()).unwrap_or_default();
        let crds = self.definitions.iter().filter(|definition| definition.is_deleted);
        let crds = crds.map(|definition| format!(" --delete-crd {}", plain(&definition.name)));
        format!(
            "{} -n {}{}",
            plain(&name),
            self.namespace,
            crds.collect::<String>()
        )
    }
}

/// Decides it for the operator of this name. `doubt` is why other namespaces are not known.
///
/// # Errors
/// For people: there is no such operator, or a definition may not go.
pub(super) fn decide(
    gathered: &Gathered,
    namespace: &str,
    name: &str,
    delete_crds: &[String],
    doubt: Option<String>,
) -> anyhow::Result<Removal> {
    let operators = gathered.operators();
    let mut own = operators
        .iter()
        .filter(|operator| operator.namespace() == namespace);
    let Some(operator) = own.find(|operator| operator.name() == name) else {
        let known = known(gathered, namespace);
        bail!("namespace {namespace} has no operator {}: {known}", plain(name));
    };
    let mut csvs: Vec<ClusterServiceVersion> = operator.installed.into_iter().cloned().collect();
    let current = operator.current.filter(|current| {
        let is_same = |csv: &ClusterServiceVersion| csv.name_any() == current.name_any();
        !csvs.iter().any(is_same)
    });
    csvs.extend(current.cloned());
    let mut names: Vec<&str> = csvs
        .iter()
        .flat_map(|csv| csv.spec.owned_crds())
        .map(|crd| crd.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    for wanted in delete_crds {
        if !names.contains(&wanted.as_str()) {
            let owned: Vec<String> = names.iter().map(|name| plain(name)).collect();
            let owned = if owned.is_empty() {
                "none".to_owned()
            } else {
                owned.join(", ")
            };
            let (name, wanted) = (plain(name), plain(wanted));
            bail!(
                "{name} does not own CustomResourceDefinition {wanted}, so it is not deleted: it owns {owned}"
            );
        }
    }
    let is_cleaned = csvs
        .iter()
        .any(|csv| csv.spec.cleanup.as_ref().is_some_and(|cleanup| cleanup.enabled));
    let mut definitions = Vec::new();
    for crd in names {
        let is_deleted = delete_crds.iter().any(|wanted| wanted == crd);
        let others = others(gathered, namespace, &csvs, crd);
        if is_deleted && !others.is_empty() {
            let text = others.join(", ");
            bail!("CustomResourceDefinition {} is not deleted: {text}", plain(crd));
        }
        if is_deleted && let Some(doubt) = &doubt {
            bail!(
                "CustomResourceDefinition {} is not deleted, as it is not known who else needs it: {doubt}",
                plain(crd)
            );
        }
        definitions.push(Definition {
            name: crd.to_owned(),
            is_deleted,
            is_cleaned,
            others,
            crd: None,
            objects: Objects::NoDefinition,
        });
    }
    let mut notes: Vec<String> = Vec::new();
    notes.extend(
        doubt.map(|doubt| format!("who needs these kinds in other namespaces is not known: {doubt}")),
    );
    Ok(Removal {
        namespace: namespace.to_owned(),
        subscription: operator.subscription.cloned(),
        csvs,
        definitions,
        notes,
    })
}

/// Operators that stay and own or need a kind.
fn others(gathered: &Gathered, namespace: &str, going: &[ClusterServiceVersion], crd: &str) -> Vec<String> {
    let mut others = Vec::new();
    for ((of, name), csv) in &gathered.csvs {
        if of == namespace && going.iter().any(|csv| csv.name_any() == *name) {
            continue;
        }
        let (of, name) = (plain(of), plain(name));
        if csv.spec.owned_crds().iter().any(|owned| owned.name == crd) {
            others.push(format!("{of}/{name} owns it, too"));
        } else if csv
            .spec
            .required_crds()
            .iter()
            .any(|required| required.name == crd)
        {
            others.push(format!("{of}/{name} needs it"));
        }
    }
    others
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(subscription) = &self.subscription {
            writeln!(f, "deletes  {}", subject(subscription))?;
        }
        for csv in &self.csvs {
            writeln!(
                f,
                "deletes  {}, with its Deployments, ServiceAccounts and permissions",
                subject(csv)
            )?;
        }
        for definition in &self.definitions {
            write!(f, "{definition}")?;
        }
        let has_left = self.definitions.iter().any(|definition| !definition.is_deleted);
        if has_left {
            writeln!(
                f,
                "note: what is left has nobody who looks after it; a later install takes it up again"
            )?;
        }
        for note in &self.notes {
            writeln!(f, "note: {}", plain(note))?;
        }
        Ok(())
    }
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = plain(&self.name);
        let verb = if self.is_deleted { "deletes" } else { "leaves " };
        let lost = match (self.is_deleted, self.is_cleaned) {
            (true, _) => "which are lost",
            (false, true) => "which are LOST all the same, as the operator has OLM clean up after it",
            (false, false) => "which stay",
        };
        let others = match self.others.is_empty() {
            true => String::new(),
            false => format!("; {}", self.others.join(", ")),
        };
        match &self.objects {
            Objects::NoDefinition => writeln!(
                f,
                "leaves   nothing of CustomResourceDefinition {name}: it is not there"
            )?,
            Objects::Unknown(cause) => writeln!(
                f,
                "{verb}  CustomResourceDefinition {name} with objects that are not known ({}), {lost}{others}",
                plain(cause)
            )?,
            Objects::Known { count: 0, .. } => {
                writeln!(
                    f,
                    "{verb}  CustomResourceDefinition {name}, of which there are no objects{others}"
                )?;
            }
            Objects::Known {
                count,
                at_least,
                names,
                with_finalizers,
            } => {
                let more = if *at_least { "at least " } else { "" };
                let named: Vec<String> = names.iter().map(|name| plain(name)).collect();
                let dots = if *count > named.len() { ", …" } else { "" };
                let objects = if *count == 1 { "object" } else { "objects" };
                writeln!(
                    f,
                    "{verb}  CustomResourceDefinition {name} with {more}{count} {objects}, {lost}: {}{dots}{others}",
                    named.join(", ")
                )?;
                if *with_finalizers > 0 && !self.is_deleted {
                    writeln!(
                        f,
                        "note: {with_finalizers} of them have finalizers; without the operator they cannot be deleted as they should be"
                    )?;
                }
            }
        }
        Ok(())
    }
}
