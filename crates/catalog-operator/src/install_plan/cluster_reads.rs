//! The live reads of a reconcile, and bundles.

use std::time::Duration;

use async_trait::async_trait;
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, ResourceExt};
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, WebhookType};
use olm_runtime::NamespacedName;
use olm_runtime::clock;
use olm_runtime::discovery::{Discovery, ServedKind, deadline};
use olm_runtime::error::ObserveError;
use olm_runtime::isolation;
use olm_runtime::plan::Target;
use olm_runtime::store::Store;
use serde_json::Value;

use super::custom_resources::{self, CheckRequest, CheckState};
use super::execution::{ErrorClass, StepError};
use super::observe::{NoObject, Reads};
use crate::bundle_unpack::{Subscriber, UnpackError, UnpackRequest, UnpackState, UnpackedBundle, Unpacker};
use crate::manifest::BundleImageReference;
use crate::timing::{debounce_left, elapsed};

/// [`Reads`] from a real cluster.
#[derive(Clone)]
pub(crate) struct ClusterReads {
    /// Connection to the API server.
    pub client: Client,
    /// Kinds the cluster serves.
    pub discovery: Discovery,
    /// Content of bundles.
    pub unpacker: Unpacker,
    /// ClusterServiceVersions of all namespaces, copies left out.
    pub csvs: Store<ClusterServiceVersion>,
    /// Where pull secrets are copied from.
    pub global_namespace: String,
}

#[async_trait]
impl Reads for ClusterReads {
    #[expect(clippy::disallowed_methods, reason = "reads what has no type")]
    async fn get(&self, target: &Target) -> Result<Option<Value>, ObserveError> {
        let what = target.to_string();
        let request = Request::new(target.collection_path());
        let request = request
            .get(&target.name, &GetParams::default())
            .map_err(|error| ObserveError::read(what.as_str(), error))?;
        let answer = deadline(&what, async {
            match self.client.request::<Value>(request).await {
                Ok(object) => Ok(Some(object)),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                Err(error) => Err(error),
            }
        });
        answer.await
    }

    async fn find_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Option<ServedKind>, ObserveError> {
        self.discovery.find_kind(group, version, kind).await
    }

    async fn bundle(
        &self,
        reference: &BundleImageReference,
        plan: &InstallPlan,
    ) -> Result<UnpackedBundle, NoObject> {
        let namespace = plan.metadata.namespace.clone().unwrap_or_default();
        let name = plan.metadata.name.clone().unwrap_or_default();
        let from = &reference.catalog_source_namespace;
        if *from != namespace && *from != self.global_namespace {
            // The plan's author cannot make use of another tenant's pull secrets.
            let catalog = &reference.catalog_source_name;
            return Err(NoObject::lasting(format!(
                "catalogsource {from}/{catalog} cannot be used from namespace {namespace}"
            )));
        }
        let request = UnpackRequest {
            image: reference.image.clone(),
            inline: None,
            bundle: reference.identifier.clone(),
            catalog: NamespacedName::new(
                &reference.catalog_source_namespace,
                &reference.catalog_source_name,
            ),
            deadline: None,
            retry_interval: None,
            subscriber: Subscriber::InstallPlan(NamespacedName::new(namespace, name)),
        };
        let none = match self.unpacker.request(&request) {
            UnpackState::Ready(bundle) => {
                if let Some(bundle) = isolation::blocking_in_round(move || bundle.read()).await {
                    return Ok(bundle);
                }
                // Its file is gone, so this unpacks it again.
                self.unpacker.request(&request);
                fetching(reference, Duration::ZERO)
            }
            UnpackState::Unpacking { trouble: None, since } => {
                fetching(reference, elapsed(since, clock::now()))
            }
            UnpackState::Unpacking {
                trouble: Some(error), ..
            } => NoObject::Fetching {
                message: format!("fetching bundle image: {error}"),
                debounce: None,
            },
            UnpackState::Failed { error, .. } => failed(&error),
        };
        Err(none)
    }

    fn csv_exists(&self, csv: &str) -> bool {
        csv.split_once('/')
            .is_some_and(|(namespace, name)| self.csvs.get(namespace, name).is_some())
    }

    fn converters(&self, crd: &str, namespace: &str) -> Vec<String> {
        let csvs = self.csvs.list_in(namespace).into_iter().filter(|csv| {
            let webhooks = csv.spec.webhook_definitions.iter();
            csv.metadata.deletion_timestamp.is_none()
                && webhooks
                    .filter(|webhook| webhook.type_ == WebhookType::Conversion)
                    .any(|webhook| webhook.conversion_crds.iter().any(|name| name == crd))
        });
        csvs.map(|csv| csv.name_any()).collect()
    }

    fn crd_owners(&self, crd: &str) -> Vec<NamespacedName> {
        let owns =
            |csv: &ClusterServiceVersion| csv.metadata.deletion_timestamp.is_none() && csv.spec.owns_crd(crd);
        NamespacedName::of_all(&self.csvs.list_where(owns))
    }

    async fn check_custom_resources(&self, request: CheckRequest) -> CheckState {
        custom_resources::check(&self.client, request).await
    }

    fn global_namespace(&self) -> &str {
        &self.global_namespace
    }
}

fn fetching(reference: &BundleImageReference, elapsed: Duration) -> NoObject {
    NoObject::Fetching {
        message: format!("fetching bundle image {}", reference.image),
        debounce: debounce_left(elapsed),
    }
}

/// The image was there when the plan was made. That a registry refuses or has lost it may be repaired.
fn failed(error: &UnpackError) -> NoObject {
    NoObject::Broken(StepError {
        message: error.to_string(),
        class: match error.class.is_content() {
            true => ErrorClass::Lasting,
            false => ErrorClass::Passing,
        },
    })
}
