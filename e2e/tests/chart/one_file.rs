//! The single file for `kubectl apply`, with the commands of `docs/guides/install-olm.md`.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::cluster::Scratch;
use e2e::lab::PATIENCE;
use xtask::cluster::UpOptions;
use xtask::kubectl::Destination;
use xtask::workspace;

use crate::OLM;

/// Runs the lines that begin with `kubectl` in the `number`th block of the guide's part about `kubectl`.
fn as_the_guide_says(kubectl: &Destination, number: usize) -> anyhow::Result<Vec<String>> {
    let root = workspace::root();
    let guide = std::fs::read_to_string(root.join("docs/guides/install-olm.md"))?;
    let part = guide
        .split("\n## ")
        .find(|part| part.starts_with("With kubectl\n"));
    let part = part.context("the guide has no part `With kubectl`")?;
    let block = part
        .split("```sh\n")
        .nth(number)
        .and_then(|rest| rest.split("```").next());
    let mut told = Vec::new();
    for line in block.context("no such block of commands")?.lines() {
        let Some(arguments) = line.strip_prefix("kubectl ") else {
            continue;
        };
        let arguments: Vec<String> = arguments
            .split_whitespace()
            .map(|word| match word {
                // The previous line generated it from the file, with other image names.
                "install.yaml" => root.join("manifests/install.yaml").to_string_lossy().into_owned(),
                word if word.starts_with("manifests/") => root.join(word).to_string_lossy().into_owned(),
                word => word.to_owned(),
            })
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        told.push(kubectl.run(&arguments)?);
    }
    Ok(told)
}

#[test]
fn arch_002_the_file_is_applied_and_taken_away_by_the_lines_of_the_guide() -> anyhow::Result<()> {
    let scratch = Scratch::start("chart-file", UpOptions { no_node: true })?;
    let kubectl = Destination::Embedded((*scratch).clone());
    ensure!(as_the_guide_says(&kubectl, 1)?.len() == 3);
    for object in [
        "csv/packageserver",
        "olmconfig/cluster",
        "operatorgroup/olm-operators",
        "deployment/olm-operator",
    ] {
        ensure!(kubectl.get(&["-n", OLM, object])?.is_some(), "no {object}");
    }
    let again = as_the_guide_says(&kubectl, 1)?.concat();
    ensure!(!again.contains(" created"), "{again}");

    as_the_guide_says(&kubectl, 2)?;
    let file = workspace::root().join("manifests/install.yaml");
    let file = file.to_string_lossy();
    let get = ["get", "--ignore-not-found", "-o", "name", "-f", &file];
    // Some kinds in a deleted namespace need a moment to disappear.
    kubectl.wait("what is OLM's to be gone", PATIENCE, |kubectl| {
        let left = kubectl.run(&get)?;
        let mut left: Vec<&str> = left
            .lines()
            .filter(|name| !name.starts_with("customresourcedefinition"))
            .collect();
        left.sort_unstable();
        let kept = [
            "namespace/olm",
            "namespace/operators",
            "olmconfig.operators.coreos.com/cluster",
            "operatorgroup.operators.coreos.com/global-operators",
            "operatorgroup.operators.coreos.com/olm-operators",
        ];
        Ok(if left == kept {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        })
    })?;
    let definitions = kubectl.run(&["get", "crd", "-o", "name"])?;
    let ours = definitions
        .lines()
        .filter(|name| name.ends_with(".operators.coreos.com"));
    ensure!(ours.count() == 8, "{definitions}");
    Ok(())
}

/// The first run may look up kinds before their definitions are served; the guide describes this.
#[test]
fn arch_002_one_file_is_applied_by_kubectl_in_two_rounds_at_most() -> anyhow::Result<()> {
    let scratch = Scratch::start("chart-rounds", UpOptions { no_node: true })?;
    let kubectl = Destination::Embedded((*scratch).clone());
    let file = workspace::root().join("manifests/install.yaml");
    let file = file.to_string_lossy().into_owned();
    let apply = ["apply", "-f", &file];
    if let Err(error) = kubectl.run(&apply) {
        let first = format!("{error:#}");
        // A kind with a new definition may be unknown, or known but not served yet.
        let unknown: usize = ["no matches for kind", "could not find the requested resource"]
            .iter()
            .map(|words| first.matches(words).count())
            .sum();
        ensure!(
            (1..=4).contains(&unknown) && !first.contains("Too long"),
            "{first}"
        );
        kubectl.wait(
            "the definitions to be served",
            Duration::from_secs(180),
            |kubectl| Ok(kubectl.run(&apply).map_err(|error| format!("{error:#}"))),
        )?;
    }
    let again = kubectl.run(&apply)?;
    ensure!(!again.contains(" created"), "{again}");
    Ok(())
}
