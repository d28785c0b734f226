//! Checks existing custom resources against the schema that a CustomResourceDefinition is about to get.
//!
//! In each version whose schema changes they are read page by page, up to the first page with one that does not fit. That is done at
//! each try of a plan, as upstream does.
//!
//! # Guarantees
//! Nothing of a resource is kept: one object of a page is checked at a time, and only names and fields are reported, no values.
//! - A check is bounded in time and in the bytes of a page.

mod pages;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use olm_runtime::isolation;
use serde_json::Value;

use self::pages::Resources;
use super::structural_schema::StructuralSchema;

/// Longest time for the check of one version of a definition.
const CHECK_TIME: Duration = Duration::from_secs(60);

/// The definition to check.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckRequest {
    /// Name of the CustomResourceDefinition.
    pub crd: String,
    /// Its API group.
    pub group: String,
    /// The name of its kind in paths.
    pub plural: String,
    /// The versions whose schema changes, with the new schema of each.
    pub versions: Vec<(String, Value)>,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckState {
    /// All resources fit.
    Fits,
    /// A resource does not fit.
    Misfit(Misfit),
    /// The resources could not be read.
    Unread(String),
}

/// A resource that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Version of the API it was read in.
    pub version: String,
    /// Its namespace; empty for none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The fields, and what is wrong with them.
    pub fields: String,
    /// The next ones that do not fit, of those read with it; they have none.
    pub others: Vec<Misfit>,
}

/// Checks all resources of a definition.
pub(crate) async fn check(client: &Client, request: CheckRequest) -> CheckState {
    let CheckRequest {
        crd,
        group,
        plural,
        versions,
    } = request;
    for (version, schema) in versions {
        // Schemas may be large, and others wait for this thread.
        let schema = isolation::blocking_in_round(move || StructuralSchema::new(schema)).await;
        let resources = Resources {
            client,
            group: &group,
            version: &version,
            plural: &plural,
            schema: Arc::new(schema),
        };
        let Ok(checked) = tokio::time::timeout(CHECK_TIME, resources.check_all()).await else {
            return CheckState::Unread(format!("timed out after {} s", CHECK_TIME.as_secs()));
        };
        match checked {
            Ok(None) => {}
            Ok(Some(misfit)) => {
                let Misfit {
                    namespace,
                    name,
                    fields,
                    ..
                } = &misfit;
                tracing::info!(%crd, version, namespace, name, fields, "custom resource does not match the new schema");
                return CheckState::Misfit(misfit);
            }
            Err(error) => {
                tracing::info!(%crd, version, %error, "cannot list custom resources");
                let cause = error.message();
                return CheckState::Unread(format!(
                    "error listing {group}/{version}, Resource={plural}: {cause}"
                ));
            }
        }
    }
    CheckState::Fits
}
