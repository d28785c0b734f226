//! `kubectl operator rights`: prints the Roles that the ServiceAccount of an OperatorGroup needs to install a bundle.

mod roles;

use anyhow::bail;
use kube::ResourceExt as _;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::ClusterServiceVersion;
use serde::Deserialize as _;
use serde_json::{Value, json};

use self::roles::{reach, roles};
use super::graph;
use crate::args::look::RightsArgs;
use crate::args::shared::{Document, quoted};
use crate::cluster::Cluster;
use crate::groups::Group;
use crate::reader::list;
use crate::{Verdict, catalogs, printer};

/// Prints the Roles.
///
/// # Errors
/// The cluster or the catalog cannot be read, or the catalog does not have the content of the bundle.
pub(crate) async fn run(args: &RightsArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let (package, version) = (args.package.as_str(), args.version.as_deref());
    let subscriptions = graph::subscriptions(client, namespace).await?;
    let given = args.catalog.as_deref();
    let global = args.global_catalog_namespace.as_deref();
    let key = graph::catalog(&cluster, package, given, global, &subscriptions).await?;
    let channel = args.channel.as_deref();
    let (entry, bundle) = catalogs::read_version(client, &key, package, channel, version).await?;
    let csv = bundle
        .csv
        .as_ref()
        .and_then(|csv| ClusterServiceVersion::deserialize(csv).ok());
    // Of a bundle with an image a catalog only has metadata, without the install strategy.
    let Some(csv) = csv.filter(|csv| !csv.spec.install.deployments().is_empty()) else {
        bail!(
            "catalog {key} has only the image of {}, so its rights are not known; a plan that waits for approval shows them: `{}`",
            entry.name,
            cluster.suggest("approve {}", &["NAME"])
        );
    };
    let groups = list::<OperatorGroup>(client, Some(namespace), "").await?;
    let group = groups.first().filter(|_| groups.len() == 1).map(Group::from);
    let (targets, account) = group
        .map(|group| (group.targets, group.account))
        .unwrap_or_default();
    let targets = targets.unwrap_or_else(|| {
        printer::warning(&format!(
            "the target namespaces are not known, because namespace {namespace} has no single OperatorGroup without a selector; these rights are for {namespace} alone"
        ));
        vec![namespace.to_owned()]
    });
    let made = roles(package, &csv, &bundle.objects, namespace, &targets);
    match args.output {
        Document::Json => printer::document(
            &json!({"apiVersion": "v1", "kind": "List", "items": made}),
            Document::Json,
        )?,
        Document::Yaml => {
            for (at, role) in made.iter().enumerate() {
                if at > 0 {
                    printer::script("---\n")?;
                }
                printer::document(role, Document::Yaml)?;
            }
        }
    }
    if let Some(warning) = reach(&made, namespace) {
        printer::warning(&warning);
    }
    for role in &made {
        printer::progress(&format!(
            "to bind it: {}",
            binding(role, namespace, account.as_deref())
        ));
    }
    let crds = csv.spec.required_crds().iter().map(|crd| crd.name.as_str());
    let apis = csv.spec.required_api_services().iter();
    let required: Vec<&str> = crds.chain(apis.map(|api| api.name.as_str())).collect();
    if !required.is_empty() {
        printer::warning(&format!(
            "{} requires {}; operators that provide them need rights of their own",
            csv.name_any(),
            required.join(", ")
        ));
    }
    Ok(Verdict::Fine)
}

/// Returns the command that binds a role to the account of the OperatorGroup.
fn binding(role: &Value, namespace: &str, account: Option<&str>) -> String {
    let text = |value: &Value| quoted(value.as_str().unwrap_or_default());
    let name = text(&role["metadata"]["name"]);
    let account = quoted(&format!("{namespace}:{}", account.unwrap_or("ACCOUNT")));
    match role["kind"] == "ClusterRole" {
        true => format!(
            "kubectl create clusterrolebinding {name} --clusterrole={name} --serviceaccount={account}"
        ),
        false => format!(
            "kubectl create rolebinding {name} --role={name} --serviceaccount={account} -n {}",
            text(&role["metadata"]["namespace"])
        ),
    }
}
