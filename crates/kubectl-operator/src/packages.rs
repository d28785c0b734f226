//! Packages of catalogs as package-server serves them. Pure except for the reads.

#[cfg(test)]
pub(crate) mod tests;

use anyhow::bail;
use kube::api::ListParams;
use kube::{Client, Resource as _};
use olm_api::api_key::{ApiKey, ApiSet};
use olm_api::labels;
use olm_api::packages::{Deprecation, PackageManifest};
use olm_api::v1::OperatorGroup;
use olm_fbc::did_you_mean::did_you_mean;
use serde::Serialize;

use crate::command_line::CommandLine;
use crate::reader::{answer, api, is_unknown_kind, list_names, place};

/// Maximum number of packages named in an error about a missing one.
const MAX_NAMED: usize = 5;

/// A package of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Package {
    pub name: String,
    pub catalog: String,
    pub catalog_namespace: String,
    pub catalog_display_name: String,
    /// Display name of the default channel's head.
    pub display_name: String,
    pub provider: String,
    pub default_channel: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    pub channels: Vec<Channel>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A channel of a package.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Channel {
    pub name: String,
    /// ClusterServiceVersion of the head.
    pub head: String,
    pub head_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// Install modes that the head supports.
    pub install_modes: Vec<String>,
    /// Oldest Kubernetes version that the head supports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_kube_version: String,
    /// Namespace that the head suggests.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub suggested_namespace: String,
    /// CustomResourceDefinitions of the head, as `Kind (name)`.
    pub provides: Vec<String>,
    /// APIs that the head provides, as far as package-server lists them.
    #[serde(skip)]
    pub apis: ApiSet,
    /// CustomResourceDefinitions that the head requires.
    pub requires: Vec<String>,
    /// Versions, newest first.
    pub versions: Vec<Version>,
}

/// A version in a channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    pub version: String,
    /// ClusterServiceVersion of the version.
    #[serde(rename = "csv")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
}

impl Package {
    /// Returns NAMESPACE/NAME of the catalog.
    pub(crate) fn catalog_key(&self) -> String {
        format!("{}/{}", self.catalog_namespace, self.catalog)
    }

    /// Returns the default channel.
    pub(crate) fn head_channel(&self) -> Option<&Channel> {
        self.channels
            .iter()
            .find(|channel| channel.name == self.default_channel)
    }

    /// Returns the command that installs a channel of this package. It names the catalog, because another may have a package of
    /// the same name. `None` if a name is not safe to paste into a shell.
    pub(crate) fn install_command(
        &self,
        channel: &str,
        commands: &CommandLine,
        namespace: &str,
        needs_group: bool,
    ) -> Option<String> {
        let group = if needs_group {
            " --create-operator-group"
        } else {
            ""
        };
        let form = format!("install {{}} --catalog {{}} --channel {{}}{group}");
        let catalog = self.catalog_key();
        let names = [self.name.as_str(), &catalog, channel];
        commands.offered(&form, &names, Some(namespace))
    }
}

/// Returns true if the namespace has no OperatorGroup, without which OLM installs nothing in it. False if that is unknown.
pub(crate) async fn needs_group(client: &Client, namespace: &str) -> bool {
    let groups = list_names::<OperatorGroup>(client, namespace).await;
    groups.is_ok_and(|groups| groups.is_empty())
}

impl From<PackageManifest> for Package {
    fn from(manifest: PackageManifest) -> Self {
        let status = manifest.status.unwrap_or_default();
        let text = |text: Option<String>| text.unwrap_or_default();
        let of_default = status
            .channels
            .iter()
            .find(|channel| channel.name == status.default_channel)
            .and_then(|channel| channel.current_csv_desc.clone())
            .unwrap_or_default();
        let provider = status
            .provider
            .or(of_default.provider)
            .and_then(|provider| provider.name);
        Self {
            name: match status.package_name.is_empty() {
                true => text(manifest.metadata.name),
                false => status.package_name,
            },
            catalog: status.catalog_source,
            catalog_namespace: status.catalog_source_namespace,
            catalog_display_name: status.catalog_source_display_name,
            display_name: text(of_default.display_name),
            provider: text(provider),
            default_channel: status.default_channel,
            deprecated: message(status.deprecation.as_ref()),
            channels: status.channels.into_iter().map(Channel::from).collect(),
            description: text(of_default.description),
        }
    }
}

impl From<olm_api::packages::PackageChannel> for Channel {
    fn from(channel: olm_api::packages::PackageChannel) -> Self {
        let description = channel.current_csv_desc.unwrap_or_default();
        let modes = description.install_modes.iter().filter(|mode| mode.supported);
        let definitions = description.custom_resource_definitions.unwrap_or_default();
        let services = description.api_service_definitions.unwrap_or_default();
        let services = services.owned.iter().map(ApiKey::from);
        let owned = definitions
            .owned
            .iter()
            .filter_map(|crd| ApiKey::try_from(crd).ok());
        let named = |crd: &olm_api::v1alpha1::CrdDescription| format!("{} ({})", crd.kind, crd.name);
        let entries = channel.entries.into_iter();
        let suggested = description.annotations.get(labels::SUGGESTED_NAMESPACE);
        Self {
            suggested_namespace: suggested.cloned().unwrap_or_default(),
            install_modes: modes.map(|mode| mode.type_.as_str().to_owned()).collect(),
            provides: definitions.owned.iter().map(named).collect(),
            apis: owned.chain(services).collect(),
            requires: definitions.required.iter().map(named).collect(),
            min_kube_version: description.min_kube_version.unwrap_or_default(),
            head_version: description.version.unwrap_or_default(),
            name: channel.name,
            head: channel.current_csv,
            deprecated: message(channel.deprecation.as_ref()),
            versions: entries
                .map(|entry| Version {
                    version: entry.version.unwrap_or_default(),
                    name: entry.name,
                    deprecated: message(entry.deprecation.as_ref()),
                })
                .collect(),
        }
    }
}

fn message(deprecation: Option<&Deprecation>) -> Option<String> {
    deprecation.map(|deprecation| match deprecation.message.as_str() {
        "" => "no reason given".to_owned(),
        message => message.to_owned(),
    })
}

/// Packages offered in a namespace by name and catalog, or the reason why the API is not served.
pub(crate) type Offered = Result<Vec<Package>, String>;

/// Reads the packages of the catalogs that a namespace can use, or each package of all catalogs once.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn offered(client: &Client, namespace: Option<&str>) -> anyhow::Result<Offered> {
    let packages = api::<PackageManifest>(client, namespace);
    let what = || {
        let kind = PackageManifest::plural(&());
        format!("list {kind} in {}", place(namespace))
    };
    let found = answer(what, async {
        match packages.list(&ListParams::default()).await {
            Err(error) if is_not_served(&error) => Ok(Err(crate::reader::said(&error))),
            answer => answer.map(Ok),
        }
    })
    .await?;
    Ok(found.map(|list| {
        let mut packages: Vec<Package> = list.items.into_iter().map(Package::from).collect();
        packages.sort_by_cached_key(|package| (package.name.clone(), package.catalog_key()));
        packages
    }))
}

/// Returns NAMESPACE/NAME of the catalog that package-server prefers for a package. `None` if it cannot be read.
pub(crate) async fn preferred(client: &Client, namespace: &str, name: &str) -> Option<String> {
    let found = crate::reader::get::<PackageManifest>(client, namespace, name).await;
    let package = Package::from(found.ok()??);
    Some(package.catalog_key())
}

/// Returns true if no server is registered for the API, or it does not respond.
fn is_not_served(error: &kube::Error) -> bool {
    is_unknown_kind(error) || matches!(error, kube::Error::Api(status) if status.code == 503)
}

/// Does the same, with an error if the API is not served.
///
/// # Errors
/// The API is not served, or the request fails.
pub(crate) async fn all(
    client: &Client,
    namespace: Option<&str>,
    commands: &CommandLine,
) -> anyhow::Result<Vec<Package>> {
    match offered(client, namespace).await? {
        Ok(packages) => Ok(packages),
        Err(cause) => {
            let (group, version) = (PackageManifest::group(&()), PackageManifest::version(&()));
            bail!(
                "this cluster does not serve {group}/{version} ({cause}): OLM's package-server is missing or not ready; see `kubectl get apiservice {version}.{group}` and `{}`",
                commands.suggest("catalog list", &[], None)
            )
        }
    }
}

/// Returns the packages of that name, limited to one catalog if given.
///
/// # Errors
/// There is no such package; the text names those that exist.
pub(crate) fn named(
    packages: Vec<Package>,
    name: &str,
    catalog: Option<&str>,
    namespace: &str,
    commands: &CommandLine,
) -> anyhow::Result<Vec<Package>> {
    let is_wanted = |package: &Package| catalog.is_none_or(|catalog| is_catalog(package, catalog));
    let (found, others): (Vec<_>, Vec<_>) = packages
        .into_iter()
        .partition(|package| package.name == name && is_wanted(package));
    if !found.is_empty() {
        return Ok(found);
    }
    let elsewhere = others.iter().filter(|package| package.name == name);
    let catalogs: Vec<String> = elsewhere.map(|package| package.catalog_key()).collect();
    if !catalogs.is_empty() {
        let catalog = catalog.unwrap_or_default();
        bail!(
            "catalog {catalog} has no package {name}, but {} has",
            catalogs.join(", ")
        );
    }
    let word = name.to_lowercase();
    let mut like: Vec<String> = others
        .iter()
        .filter(|package| {
            package.name.to_lowercase().contains(&word) || word.contains(&package.name.to_lowercase())
        })
        .map(|package| package.name.clone())
        .collect();
    if like.is_empty() {
        let names = others.iter().map(|package| package.name.as_str());
        like.extend(did_you_mean(name, names).map(str::to_owned));
    }
    like.dedup();
    like.truncate(MAX_NAMED);
    let way_out = match (like.is_empty(), others.len()) {
        (false, _) => format!("did you mean {}?", like.join(", ")),
        (true, 0) => format!(
            "there are no packages; see `{}`",
            commands.suggest("catalog list", &[], None)
        ),
        (true, count) => format!(
            "list all {count} packages with `{}`",
            commands.suggest("list-available", &[], Some(namespace))
        ),
    };
    bail!("no catalog for this namespace has a package {name}; {way_out}")
}

/// Returns true if a package is from a catalog, given as NAME or NAMESPACE/NAME.
pub(crate) fn is_catalog(package: &Package, catalog: &str) -> bool {
    package.catalog == catalog || package.catalog_key() == catalog
}
