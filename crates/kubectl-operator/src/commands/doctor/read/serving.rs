//! Reads the configurations that make the API server call Services, and the endpoints of these.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::ResourceExt as _;
use olm_api::condition;
use olm_api::labels;

use super::super::observed::{Caller, Read};
use super::{Reader, owned, owned_by};
use crate::operators::{Gathered, Key};
use crate::reader::{PAGE, get, get_cluster};

/// Page size for CustomResourceDefinitions, which are large.
const PAGE_OF_DEFINITIONS: u32 = 50;
/// Label of the endpoints of a Service: its name.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl Reader<'_> {
    pub(super) async fn webhooks(&self, namespace: Option<&str>) -> Read<Vec<Caller>> {
        let selector = owned_by(namespace);
        let validating = |found: ValidatingWebhookConfiguration| {
            let webhooks = found.webhooks.into_iter().flatten();
            let calls = webhooks.map(|webhook| (webhook.client_config, webhook.failure_policy));
            caller("ValidatingWebhookConfiguration", found.metadata, calls)
        };
        let mutating = |found: MutatingWebhookConfiguration| {
            let webhooks = found.webhooks.into_iter().flatten();
            let calls = webhooks.map(|webhook| (webhook.client_config, webhook.failure_policy));
            caller("MutatingWebhookConfiguration", found.metadata, calls)
        };
        let mut callers = self.projected(&selector, PAGE, validating).await?;
        callers.extend(self.projected(&selector, PAGE, mutating).await?);
        Ok(callers)
    }

    pub(super) async fn api_services(&self, namespace: Option<&str>) -> Read<Vec<Caller>> {
        let keep = |found: APIService| {
            let conditions = found
                .status
                .into_iter()
                .flat_map(|status| status.conditions.into_iter().flatten());
            let unavailable = conditions
                .into_iter()
                .find(|found| found.type_ == "Available" && found.status == condition::FALSE);
            let service = found.spec?.service?;
            Some(Caller {
                object: owned("APIService", found.metadata)?,
                targets: vec![(service.namespace?, service.name?)],
                is_optional: false,
                trouble: unavailable.map(|found| found.message.or(found.reason).unwrap_or_default()),
            })
        };
        self.projected(&owned_by(namespace), PAGE, keep).await
    }

    /// Returns the conversions of definitions that ClusterServiceVersions own. For all namespaces, labelled ones are included.
    pub(super) async fn conversions(
        &self,
        namespace: Option<&str>,
        operators: &Gathered,
    ) -> Read<Vec<(String, Key)>> {
        let owned = operators.csvs.values().flat_map(|csv| csv.spec.owned_crds());
        let names: BTreeSet<String> = owned.map(|crd| crd.name.clone()).collect();
        if namespace.is_some() {
            let mut found = Vec::new();
            for name in &names {
                let read = get_cluster::<CustomResourceDefinition>(self.client, name);
                found.extend(self.within(read).await?.and_then(conversion));
            }
            return Ok(found);
        }
        let keep = |crd: CustomResourceDefinition| {
            let mut keys = crd.labels().keys();
            let is_labelled =
                keys.any(|key| key == labels::MANAGED || labels::operator_of_component(key).is_some());
            let is_wanted = is_labelled || names.contains(&crd.name_any());
            is_wanted.then_some(crd).and_then(conversion)
        };
        self.projected("", PAGE_OF_DEFINITIONS, keep).await
    }

    /// Returns the number of ready endpoints of a Service; `None` if it does not exist.
    pub(super) async fn service(&self, (namespace, name): &Key) -> Read<Option<usize>> {
        let service = self.within(get::<Service>(self.client, namespace, name)).await?;
        if service.is_none() {
            return Ok(None);
        }
        let slices: Vec<EndpointSlice> = self
            .all(Some(namespace), &format!("{SERVICE_NAME}={name}"))
            .await?;
        let endpoints = slices.into_iter().flat_map(|slice| slice.endpoints);
        // An endpoint without this condition counts as ready.
        let ready = endpoints.filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.and_then(|conditions| conditions.ready) != Some(false)
        });
        Ok(Some(ready.count()))
    }
}

/// Returns the configuration of these webhooks, each with its failure policy. OLM writes one webhook into each.
fn caller(
    kind: &str,
    metadata: ObjectMeta,
    calls: impl Iterator<Item = (WebhookClientConfig, Option<String>)>,
) -> Option<Caller> {
    let (configs, policies): (Vec<_>, Vec<_>) = calls.unzip();
    Some(Caller {
        object: owned(kind, metadata)?,
        targets: configs.into_iter().filter_map(target).collect(),
        is_optional: policies.iter().all(|policy| policy.as_deref() == Some("Ignore")),
        trouble: None,
    })
}

fn target(config: WebhookClientConfig) -> Option<Key> {
    let service = config.service?;
    Some((service.namespace, service.name))
}

/// Returns the name of a definition with the Service of its conversion webhook.
fn conversion(crd: CustomResourceDefinition) -> Option<(String, Key)> {
    let name = crd.name_any();
    let service = crd.spec.conversion?.webhook?.client_config?.service?;
    Some((name, (service.namespace, service.name)))
}

/// Returns the Services that are called.
pub(super) fn targets(
    webhooks: &Read<Vec<Caller>>,
    api_services: &Read<Vec<Caller>>,
    conversions: &Read<Vec<(String, Key)>>,
) -> BTreeSet<Key> {
    let callers = webhooks.iter().chain(api_services).flatten();
    let of_callers = callers.flat_map(|caller| &caller.targets);
    let of_conversions = conversions.iter().flatten().map(|(_, target)| target);
    of_callers.chain(of_conversions).cloned().collect()
}
