//! Reads what a decision about an extension needs: packages of catalogs, the chosen bundle, and definitions in the cluster.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Api, ResourceExt as _};
use olm_api::extension_v1::{CatalogFilter, ClusterCatalog, ClusterExtension};
use olm_api::labels;
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::key::is_path_segment;
use olm_runtime::{NamespacedName, clock};

use super::choose::{LONGEST_NAME, active};
use super::revision::{annotations, has_secrets, is_current, made_from, newest, renewed_at};
use super::{ClusterExtensions, Observed, Refusal, Step};
use crate::apply::crd_safety::{CrdUpgrade, check_upgrades, definitions, lookup_error};
use crate::apply::phase::Phase;
use crate::apply::revisions::{DesiredRevision, RevisionDecision, decide_revision};
use crate::catalog_content::{never_had_content, served};
use crate::render::{Options, RenderError, render};
use crate::resolve::{Catalog, Chosen, PackageResult, Request};

impl Refusal {
    /// Returns the refusal of an attempt that may succeed later.
    fn repeated(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_configuration: false,
            is_repeated: true,
        }
    }
}

impl ClusterExtensions {
    /// Reads everything about an extension.
    pub(super) async fn read(
        &self,
        key: &NamespacedName,
        extension: Arc<ClusterExtension>,
    ) -> Result<Observed, ObserveError> {
        let revisions = self.revisions.list(&key.name);
        // Labels elsewhere are anybody's.
        let of_extension = |secret: &PartialObjectMeta<Secret>| {
            secret.labels().get(labels::EXTENSION_OWNER_NAME) == Some(&key.name)
                && secret.namespace().as_deref() == Some(&*self.system_namespace)
        };
        let mut observed = Observed {
            secrets: self.secrets.list_where(of_extension),
            extension: Arc::clone(&extension),
            revisions,
            deprecations: None,
            step: Step::Reading,
        };
        if extension.metadata.deletion_timestamp.is_some() {
            observed.step = Step::Deleted;
            return Ok(observed);
        }
        if key.name.len() > LONGEST_NAME {
            let length = key.name.len();
            let text = format!(
                "the name of the ClusterExtension has {length} characters, and labels of its revisions have room for {LONGEST_NAME}; \
                 create it under a shorter name"
            );
            observed.step = Step::Refused(Refusal {
                text,
                is_configuration: false,
                is_repeated: false,
            });
            return Ok(observed);
        }
        let filter = extension.spec.source.catalog.clone().unwrap_or_default();
        let active = active(&extension, &observed.revisions);
        let mut is_unreadable = false;
        let choice = match active.rollout(&filter) {
            Some(choice) => choice,
            None => match self.catalogs(key, &filter) {
                Some(catalogs) => {
                    let mut packages = catalogs.iter().map(|catalog| &catalog.package);
                    is_unreadable = packages.any(|package| matches!(package, PackageResult::Unreadable(_)));
                    let installed = active.installed.map(|set| Chosen::of_revision(set));
                    let request = Request {
                        filter: &filter,
                        installed: installed.as_ref(),
                        openshift: self.sources.openshift.as_ref(),
                        is_by_semver: labels::is_true(extension.annotations(), labels::SEMVER_UPGRADES),
                    };
                    active.choose(&request, &catalogs)
                }
                None => return Ok(observed),
            },
        };
        observed.deprecations = choice.deprecations;
        // Certificates are renewed also if the bundle is in no catalog any more.
        let due = || {
            let installed = newest(&observed.revisions)
                .filter(|set| renewed_at(set).is_some_and(|at| at <= clock::now()));
            installed.map(|set| Chosen::of_revision(set))
        };
        let bundle = choice.outcome.or_else(|error| due().ok_or(error));
        observed.step = match bundle {
            Ok(chosen) => Box::pin(self.step(key, &observed, &chosen)).await?,
            Err(text) => Step::Refused(Refusal {
                text,
                is_configuration: false,
                // Other errors end with a change of a catalog or of the extension.
                is_repeated: is_unreadable,
            }),
        };
        Ok(observed)
    }

    /// Returns the catalogs with the wanted package; `None` while one of them is being read.
    fn catalogs(&self, key: &NamespacedName, filter: &CatalogFilter) -> Option<Vec<Catalog>> {
        let found = self.catalogs.list();
        let extensions = self.extensions.list();
        let is_named = |package: &str| {
            let mut filters = extensions
                .iter()
                .filter_map(|extension| extension.spec.source.catalog.as_ref());
            filters.any(|filter| filter.package_name == package)
        };
        self.packages.retain(|(catalog, package)| {
            found.iter().any(|known| known.name_any() == *catalog) && is_named(package)
        });
        // All are asked for at once, before any answer is there.
        let read: Vec<Option<Catalog>> = found
            .iter()
            .map(|catalog| self.catalog(key, filter, catalog))
            .collect();
        read.into_iter().collect()
    }

    fn catalog(
        &self,
        key: &NamespacedName,
        filter: &CatalogFilter,
        catalog: &ClusterCatalog,
    ) -> Option<Catalog> {
        let (mut found, is_used) = Catalog::of(catalog, filter);
        if is_used {
            found.package = self.package(key, &found.name, &filter.package_name, catalog)?;
        }
        Some(found)
    }

    /// Returns the package as a catalog has it; `None` while it is being read.
    fn package(
        &self,
        key: &NamespacedName,
        name: &str,
        package: &str,
        catalog: &ClusterCatalog,
    ) -> Option<PackageResult> {
        let entry = (name.to_owned(), package.to_owned());
        let Some((base, digest)) = served(catalog) else {
            let had_none = matches!(self.packages.last(&entry), Some(None)) || never_had_content(catalog);
            return Some(PackageResult::unserved(name, had_none));
        };
        let contents = Arc::clone(&self.sources.contents);
        let (base, wanted) = (base.to_owned(), package.to_owned());
        let read = async move {
            let content = contents.package(&base, &wanted).await?;
            Ok(content.map(Arc::new))
        };
        Some(match self.packages.get_or_start(&entry, digest, key, read)? {
            Ok(Some(content)) => PackageResult::Found(content),
            Ok(None) => PackageResult::Absent,
            Err(error) => PackageResult::Unreadable(error),
        })
    }

    /// Compares the chosen bundle with the newest revision.
    async fn step(
        &self,
        key: &NamespacedName,
        observed: &Observed,
        chosen: &Chosen,
    ) -> Result<Step, ObserveError> {
        let Observed {
            extension, revisions, ..
        } = observed;
        let has_secrets = has_secrets(revisions, &observed.secrets);
        let account = self.account(extension);
        let made_from = made_from(extension, chosen, account.as_ref());
        if has_secrets && is_current(revisions, &made_from, clock::now()) {
            self.bundles.retain(|image| *image != chosen.image);
            return Ok(Step::Revision(RevisionDecision::default()));
        }
        if let Some(account) = &account
            && let Some(text) = self.missing_account(account).await?
        {
            return Ok(Step::Refused(Refusal::repeated(text)));
        }
        let (images, image) = (Arc::clone(&self.sources.images), chosen.image.clone());
        let pull = async move { images.bundle(&image).await.map(Arc::new) };
        let bundle = match self.bundles.get_or_start(&chosen.image, "", key, pull) {
            None => return Ok(Step::Reading),
            Some(Ok(bundle)) => bundle,
            Some(Err(error)) => return Ok(Step::Refused(Refusal::repeated(chosen.refusal(&error)))),
        };
        let certificates = self.certificates(&bundle, &extension.spec.namespace).await?;
        let options = Options {
            namespace: &extension.spec.namespace,
            config: extension.spec.inline_config(),
            certificates: &certificates.provider,
        };
        let rendered = render(&bundle, &options);
        if let Some(account) = &account
            && let Ok(objects) = &rendered
            && let Some(text) = Box::pin(self.missing_rights(account, objects)).await?
        {
            self.bundles.retain(|image| *image != chosen.image);
            return Ok(Step::Refused(Refusal::repeated(chosen.refusal(&text))));
        }
        let renewed_at = certificates.renewed_at;
        let decision = rendered.and_then(|objects| {
            let desired = DesiredRevision {
                extension: &key.name,
                extension_uid: extension.metadata.uid.as_deref().unwrap_or_default(),
                annotations: annotations(extension, account.as_ref(), chosen, &bundle, renewed_at),
                objects,
                adopts: extension.annotations().contains_key(labels::EXTENSION_ADOPTS),
                progress_deadline_minutes: extension.spec.progress_deadline_minutes,
                system_namespace: &self.system_namespace,
                has_secrets,
            };
            decide_revision(revisions, &desired).map_err(|error| RenderError::Defects(vec![error]))
        });
        let refusal = match decision {
            Ok(decision) => match self.check_definitions(extension, &decision.phases).await {
                Ok(()) => return Ok(Step::Revision(decision)),
                Err(text) => Refusal::repeated(chosen.refusal(&text)),
            },
            Err(error) => {
                let is_configuration = matches!(error, RenderError::Configuration(_));
                Refusal {
                    text: chosen.refusal(&error.to_string()),
                    is_configuration,
                    // The image may be a tag, and get another content.
                    is_repeated: !is_configuration,
                }
            }
        };
        self.bundles.retain(|image| *image != chosen.image);
        Ok(Step::Refused(refusal))
    }

    /// Checks the definitions of a revision against those in the cluster, unless the extension turns the check off.
    async fn check_definitions(&self, extension: &ClusterExtension, phases: &[Phase]) -> Result<(), String> {
        if !extension.spec.checks_crd_upgrades() {
            return Ok(());
        }
        let api = ApiResource::erase::<CustomResourceDefinition>(&());
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &api);
        let mut upgrades: Vec<CrdUpgrade<'_>> = Vec::new();
        for new in definitions(phases) {
            let name = new["metadata"]["name"].as_str().unwrap_or_default();
            if !is_path_segment(name) {
                // Such a definition cannot exist. The API server says so when it is applied.
                continue;
            }
            let what = format!("CustomResourceDefinition {name}");
            let old = deadline(&what, api.get_opt(name)).await;
            let old = old.map_err(|error| lookup_error(name, &error.to_string()))?;
            if let Some(old) = old {
                // An object that was decoded can be encoded.
                let old = serde_json::to_value(old).unwrap_or_default();
                upgrades.push(CrdUpgrade { old, new });
            }
        }
        check_upgrades(&upgrades)
    }
}
