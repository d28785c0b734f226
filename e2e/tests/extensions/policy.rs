//! ClusterExtensions of users who are not administrators, with the policy of `docs/reference/cluster-extensions.md`.

use anyhow::{Context as _, ensure};
use e2e::lab::PATIENCE;
use serde_json::{Value, json};
use xtask::kubectl::Destination;
use xtask::workspace;

use crate::{OLM, extension, setup};

const NAME: &str = "heath";
/// A namespace that the policy allows.
const ALLOWED: &str = "shop";

/// Returns the policy and its binding as the page has them.
fn of_the_page() -> anyhow::Result<String> {
    let page = std::fs::read_to_string(workspace::root().join("docs/reference/cluster-extensions.md"))?;
    let part = page.split_once("### For users who are not administrators\n");
    let block = part.and_then(|(_, part)| part.split_once("```yaml\n"));
    let block = block.and_then(|(_, block)| block.split_once("```"));
    let (block, _) = block.context("the page has no policy")?;
    Ok(block.to_owned())
}

/// Returns an extension with an account.
fn with_account(namespace: &str) -> Value {
    let mut object = extension(NAME, namespace, &json!({}));
    object["spec"]["serviceAccount"] = json!({"name": "installer"});
    object
}

/// Creates an object as `sam`, or only asks whether that would be accepted.
fn create(kubectl: &Destination, object: &Value, more: &[&str]) -> anyhow::Result<()> {
    let arguments = [&["create", "-f", "-", "--as=sam"][..], more].concat();
    kubectl.run_with_input(&arguments, &object.to_string()).map(drop)
}

#[test]
fn v1_002_users_need_an_account_of_a_namespace_that_the_policy_of_the_page_allows() -> anyhow::Result<()> {
    let setup = setup()?;
    let lab = &setup.lab;
    let kubectl = lab.kubectl();
    let _namespace = lab.namespace(ALLOWED)?;
    let api = "rbac.authorization.k8s.io/v1";
    let verbs = ["get", "create", "patch", "update"];
    kubectl.apply(&[
        json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "sam"}, "rules": [
            {"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions"], "verbs": verbs}]}),
        json!({"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": "sam"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sam"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "sam"}]}),
    ])?;
    let refused = |object: &Value, reason: &str| {
        // The API server sees rights and policies a moment after their writer.
        kubectl.wait(&format!("to be refused: {reason}"), PATIENCE, |kubectl| {
            Ok(match create(kubectl, object, &["--dry-run=server"]) {
                Ok(()) => Err("it was accepted".to_owned()),
                Err(error) if format!("{error:#}").contains(reason) => Ok(()),
                Err(error) => Err(format!("{error:#}")),
            })
        })
    };
    let without = extension(NAME, ALLOWED, &json!({}));
    kubectl.wait("sam to have rights", PATIENCE, |kubectl| {
        let created = create(kubectl, &without, &["--dry-run=server"]);
        Ok(created.map_err(|error| format!("{error:#}")))
    })?;
    kubectl.run_with_input(&["apply", "-f", "-"], &of_the_page()?)?;
    refused(
        &without,
        "spec.serviceAccount.name is required and cannot be removed",
    )?;
    refused(
        &with_account(OLM),
        "spec.namespace must be a namespace for ClusterExtensions",
    )?;
    create(kubectl, &with_account(ALLOWED), &[])?;
    let patch = [
        "patch",
        "clusterextension",
        NAME,
        "--as=sam",
        "--type=merge",
        "-p",
    ];
    let removal = [&patch[..], &[r#"{"spec": {"serviceAccount": null}}"#]].concat();
    let error = kubectl.run(&removal).err().context("sam removed the account")?;
    ensure!(
        format!("{error:#}").contains("spec.serviceAccount.name is required"),
        "{error:#}"
    );
    let range = [
        &patch[..],
        &[r#"{"spec": {"source": {"catalog": {"version": "1.x"}}}}"#],
    ]
    .concat();
    kubectl.run(&range)?;
    // Administrators can do without.
    kubectl.run_with_input(
        &["create", "-f", "-", "--dry-run=server"],
        &extension("heather", OLM, &json!({})).to_string(),
    )?;
    Ok(())
}
