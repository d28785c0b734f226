//! Finds the namespace of OLM, and the one whose catalogs every namespace may use.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use kube::{Client, ResourceExt as _};
use olm_api::v1alpha1::Subscription;

use crate::args::look::ReadArgs;
use crate::reader::{list, list_readable};

/// Name of the flag, for errors.
pub(crate) const FLAG: &str = "--global-catalog-namespace";
/// Default namespace of global catalogs.
pub(crate) const DEFAULT_NAMESPACE: &str = "olm";
/// Variable of catalog-operator that corresponds to the flag here, and takes precedence over its `--namespace`.
const VARIABLE: &str = "GLOBAL_CATALOG_NAMESPACE";
/// Selects the Deployment of catalog-operator, here and upstream.
const CATALOG_OPERATOR: &str = "app=catalog-operator";

/// OLM's namespaces: the chart's values `namespace` and `catalog_namespace`, which are usually the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OlmNamespaces {
    /// Namespace in which OLM's programs run; that of the catalogs if it is unknown.
    pub olm: String,
    /// Namespace whose catalogs every namespace may use.
    pub catalogs: String,
}

/// Finds OLM's namespaces. The catalog namespace is the given one, else that of catalog-operator's Deployment, which not every
/// user may read. Otherwise it is the one that Subscriptions of the namespace use, else the default.
pub(crate) async fn find(client: &Client, given: Option<&str>, namespace: Option<&str>) -> OlmNamespaces {
    // Not every user may read them.
    let programs = list::<Deployment>(client, None, CATALOG_OPERATOR).await;
    let programs = programs.unwrap_or_default();
    let program = programs.iter().find(|program| is_wanted(program));
    let of_program = || program.and_then(of_catalog_operator);
    let catalogs = match given.map(str::to_owned).or_else(of_program) {
        Some(catalogs) => catalogs,
        None => of_subscriptions(client, namespace)
            .await
            .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
    };
    let olm = program.and_then(|program| program.namespace());
    OlmNamespaces {
        olm: olm.unwrap_or_else(|| catalogs.clone()),
        catalogs,
    }
}

/// Finds them for flags that may name both.
pub(crate) async fn of_args(client: &Client, args: &ReadArgs, namespace: Option<&str>) -> OlmNamespaces {
    let mut found = find(client, args.global_catalog_namespace.as_deref(), namespace).await;
    if let Some(olm) = &args.olm_namespace {
        found.olm.clone_from(olm);
    }
    found
}

/// Returns true unless it is scaled to no pods.
pub(crate) fn is_wanted(program: &Deployment) -> bool {
    program.spec.as_ref().and_then(|spec| spec.replicas) != Some(0)
}

async fn of_subscriptions(client: &Client, namespace: Option<&str>) -> Option<String> {
    let namespace = namespace?;
    let found = list_readable::<Subscription>(client, Some(namespace), "").await;
    let (subscriptions, _) = found.ok()?;
    let mut homes = subscriptions.into_iter().map(|found| found.spec.source_namespace);
    homes.find(|home| !home.is_empty() && home != namespace)
}

/// Returns catalog-operator's setting, from a variable or a flag. `None` if the variable's value is elsewhere.
pub(crate) fn of_catalog_operator(program: &Deployment) -> Option<String> {
    let words = arguments(program);
    let flag = |name| value(&words, name).filter(|value| !value.is_empty());
    let mut variables = container(program)?.env.iter().flatten();
    let variable = variables.find(|variable| variable.name == VARIABLE);
    if variable.is_some_and(|variable| variable.value_from.is_some()) {
        return None;
    }
    let variable = variable.and_then(|variable| variable.value.as_deref());
    let said = flag(FLAG).or(variable.filter(|value| !value.is_empty()));
    let said = said.or_else(|| flag("--namespace"));
    Some(said.unwrap_or(DEFAULT_NAMESPACE).to_owned())
}

fn container(program: &Deployment) -> Option<&Container> {
    let pod = program.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()
}

/// Returns the command and arguments of the first container.
pub(crate) fn arguments(program: &Deployment) -> Vec<&str> {
    let words = container(program).map(|container| [&container.command, &container.args]);
    let words = words.into_iter().flatten().flatten().flatten();
    words.map(String::as_str).collect()
}

/// Returns the value of a flag, given as `--flag=value` or `--flag value`.
pub(crate) fn value<'a>(words: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = words
        .iter()
        .position(|word| word.split('=').next() == Some(flag))?;
    match words[at].split_once('=') {
        Some((_, value)) => Some(value),
        None => words.get(at + 1).copied(),
    }
}

#[cfg(test)]
mod tests {
    use olm_testing::cluster::{FakeCluster, Fault, Refusal};
    use serde_json::{Value, json};

    use super::*;
    use crate::operators::tests::subscription;

    fn program(command: &[&str], arguments: &[&str], env: &Value, replicas: u8) -> Value {
        let container =
            json!({"name": "main", "image": "olm", "command": command, "args": arguments, "env": env});
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "olm-system", "name": "catalog-operator", "labels": {"app": "catalog-operator"}},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "catalog-operator"}},
                "template": {"metadata": {"labels": {"app": "catalog-operator"}}, "spec": {"containers": [container]}}}})
    }

    async fn found(objects: &[Value], given: Option<&str>) -> (String, String) {
        let cluster = FakeCluster::new();
        objects.iter().for_each(|object| cluster.put(object.clone()));
        let (client, _link) = cluster.connect();
        let found = find(&client, given, Some("shop")).await;
        (found.olm, found.catalogs)
    }

    #[tokio::test(start_paused = true)]
    async fn the_namespace_of_global_catalogs_is_that_of_catalog_operator() {
        let none = json!([]);
        let variable = json!([{"name": "GLOBAL_CATALOG_NAMESPACE", "value": "market"}]);
        for (command, arguments, env, expected) in [
            // The arguments of OpenShift, of upstream's installation, and of ours.
            (
                &["/bin/catalog"][..],
                &["--namespace", "openshift-marketplace"][..],
                &none,
                "openshift-marketplace",
            ),
            (
                &["/bin/catalog"],
                &["-namespace", "x", "--namespace=catalogs"],
                &none,
                "catalogs",
            ),
            (&["/bin/catalog"], &["--namespace", "x"], &variable, "market"),
            (
                &[],
                &["--global-catalog-namespace=own", "--namespace=x"],
                &variable,
                "own",
            ),
            (&[], &[], &none, "olm"),
        ] {
            let objects = [program(command, arguments, env, 1)];
            let (olm, catalogs) = found(&objects, None).await;
            assert_eq!(
                (olm.as_str(), catalogs.as_str()),
                ("olm-system", expected),
                "{arguments:?}"
            );
            assert_eq!(found(&objects, Some("mine")).await.1, "mine");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_see_it_goes_by_the_subscriptions() {
        let both = |name: &str| (name.to_owned(), name.to_owned());
        assert_eq!(found(&[], None).await, both("olm"));
        let mut own = subscription("own", &json!({}));
        own["spec"]["sourceNamespace"] = json!("shop");
        let mut other = subscription("other", &json!({}));
        other["spec"]["sourceNamespace"] = json!("market");
        let off = program(&["/bin/catalog"], &["--namespace", "old"], &json!([]), 0);
        assert_eq!(
            found(&[own.clone(), other.clone(), off], None).await,
            both("market")
        );
        assert_eq!(found(&[own], None).await, both("olm"));
        let cluster = FakeCluster::new();
        cluster.put(other);
        cluster.on_request(|request| {
            let is_program = request.kind.kind == "Deployment";
            is_program.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "is forbidden")))
        });
        let (client, _link) = cluster.connect();
        assert_eq!(find(&client, None, Some("shop")).await.catalogs, "market");
    }
}
