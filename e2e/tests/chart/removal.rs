//! Remaining objects after an uninstall.

use anyhow::{Context as _, ensure};
use e2e::lab::PATIENCE;
use xtask::kubectl::{Destination, text};
use xtask::{deploy, workspace};

use crate::{API_SERVICE, KUBECTL_TIMEOUT, OLM, OPERATORS, Release, output};

/// Returns the objects with helm's mark, as `kind/name`.
pub fn of_helm(kubectl: &Destination) -> anyhow::Result<Vec<String>> {
    let kinds = "deployments,services,serviceaccounts,configmaps,secrets,networkpolicies,poddisruptionbudgets,roles,rolebindings,\
                 clusterroles,clusterrolebindings,priorityclasses,apiservices,namespaces,clusterserviceversions,operatorgroups,olmconfigs";
    let found = kubectl.run(&[
        "get",
        kinds,
        "-A",
        "-l",
        "app.kubernetes.io/managed-by=Helm",
        "-o",
        "name",
    ])?;
    Ok(found.lines().map(str::to_owned).collect())
}

/// Checks the state that `docs/guides/install-olm.md` describes for an uninstall.
pub fn uninstalled(kubectl: &Destination) -> anyhow::Result<()> {
    let mut left = of_helm(kubectl)?;
    left.sort();
    ensure!(
        left == [
            "namespace/olm",
            "namespace/operators",
            "olmconfig.operators.coreos.com/cluster",
            "operatorgroup.operators.coreos.com/global-operators",
            "operatorgroup.operators.coreos.com/olm-operators",
        ],
        "{left:?} are left"
    );
    for namespace in [OLM, OPERATORS] {
        let found = kubectl
            .get(&["namespace", namespace])?
            .context("a namespace is gone")?;
        ensure!(text(&found, "/status/phase") == "Active", "{namespace}: {found}");
    }
    ensure!(
        kubectl.get(&["apiservice", API_SERVICE])?.is_none(),
        "{API_SERVICE} is left"
    );
    // Objects that OLM created for package-server; the garbage collector deletes them later.
    let kinds = "deployments,services,secrets,roles,rolebindings,clusterroles,clusterrolebindings,clusterserviceversions,operatorconditions";
    kubectl.wait("what package-server had to go", PATIENCE, |kubectl| {
        let found = kubectl.run(&["get", kinds, "-A", "-o", "name"])?;
        let left: Vec<&str> = found.lines().filter(|name| name.contains("package")).collect();
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        })
    })?;
    for operator in deploy::OPERATORS {
        let pods = format!("app={operator}");
        kubectl.run(&[
            "wait",
            "--for=delete",
            KUBECTL_TIMEOUT,
            "pods",
            "-n",
            OLM,
            "-l",
            &pods,
        ])?;
    }
    let definitions = kubectl.get(&["crd"])?.unwrap_or_default();
    let ours = definitions["items"].as_array().into_iter().flatten();
    let ours = ours
        .filter(|crd| text(crd, "/spec/group") == "operators.coreos.com")
        .count();
    ensure!(ours == 8, "{ours} CustomResourceDefinitions are left");
    // The servers of APIs that the deletion of a namespace checks must be gone, too.
    kubectl.run(&["create", "namespace", "passing"])?;
    kubectl.run(&["delete", "namespace", "passing", "--wait=true", KUBECTL_TIMEOUT])?;
    Ok(())
}

/// Runs the guide's lines that remove everything, in a shell, and checks that nothing is left.
pub fn nothing_is_left(release: &Release) -> anyhow::Result<()> {
    let guide = std::fs::read_to_string(workspace::root().join("docs/guides/install-olm.md"))?;
    let part = guide.split_once("#### Nothing left\n").map(|(_, part)| part);
    let block = part
        .and_then(|part| {
            part.split("```sh\n")
                .find(|block| block.contains("helm uninstall"))
        })
        .and_then(|rest| rest.split("```").next());
    let lines = block.context("the guide has no block of commands for that")?;
    ensure!(lines.contains("helm uninstall olm --wait\n"), "{lines}");
    let mut shell = release.helm.command("timeout");
    shell.args([
        "600",
        "sh",
        "-ec",
        &format!("helm() {{ \"$HELM\" \"$@\"; }}\n{lines}"),
    ]);
    output(
        shell
            .env("HELM", &release.helm.program)
            .current_dir(workspace::root()),
    )?;
    let found = release.kubectl.run(&[
        "get",
        "namespaces,crd,clusterroles,clusterrolebindings,priorityclasses,apiservices,mutatingwebhookconfigurations,validatingwebhookconfigurations",
        "-o",
        "name",
    ])?;
    // The operator's API keeps its definition and the roles of that: `kubectl operator uninstall --delete-crd` removes them
    // before.
    let ours = |name: &&str| {
        name.ends_with("/olm")
            || name.ends_with("/operators")
            || [
                "operators.coreos.com",
                "/olm.",
                "/olm:",
                "aggregate-olm",
                "operator-lifecycle-manager",
            ]
            .iter()
            .any(|part| name.contains(part))
    };
    let left: Vec<&str> = found.lines().filter(ours).collect();
    ensure!(left.is_empty(), "{left:?} are left");
    Ok(())
}
