//! Packages that are installed, the reasons for choosing them, and their expected results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use e2e::corpus::bundle::Bundle;
use e2e::corpus::catalog::Catalog;
use e2e::corpus::expectation::{Surroundings, Targets, derive};
use e2e::corpus::journey::Leg;

/// A namespace of the test with its OperatorGroup. Operators that are approved manually, or that must fail as a whole, have one
/// of their own: InstallPlans and resolution are shared within a namespace.
pub struct Site {
    /// Name of the namespace.
    pub name: &'static str,
    /// Namespaces that its OperatorGroup selects.
    pub targets: Targets,
}

/// All sites.
pub static SITES: [Site; 8] = [
    Site {
        name: "corpus-own",
        targets: Targets::Own,
    },
    Site {
        name: "corpus-all",
        targets: Targets::All,
    },
    Site {
        name: "corpus-camel-k",
        targets: Targets::OneOther,
    },
    Site {
        name: "corpus-keda",
        targets: Targets::All,
    },
    Site {
        name: "corpus-kiali",
        targets: Targets::Own,
    },
    Site {
        name: "corpus-hive",
        targets: Targets::Own,
    },
    Site {
        name: "corpus-windows",
        targets: Targets::Own,
    },
    Site {
        name: "corpus-build",
        targets: Targets::Own,
    },
];

/// A package that is installed from its default channel.
pub struct Choice {
    /// Name of the package.
    pub package: &'static str,
    /// Namespace of the install.
    pub site: &'static str,
    /// True if InstallPlans are approved manually.
    pub manual: bool,
    /// First version, if it is not the channel's head.
    pub start: Option<&'static str>,
    /// Reason for the choice.
    why: &'static str,
}

const fn head(package: &'static str, site: &'static str, why: &'static str) -> Choice {
    Choice {
        package,
        site,
        manual: false,
        start: None,
        why,
    }
}

const fn walk(
    package: &'static str,
    site: &'static str,
    manual: bool,
    start: &'static str,
    why: &'static str,
) -> Choice {
    let start = Some(start);
    Choice {
        package,
        site,
        manual,
        start,
        why,
    }
}

/// All choices. By default bundles have CRDs in v1, no webhooks, and images by tag.
pub static CHOICES: [Choice; 17] = [
    walk(
        "kiali",
        "corpus-kiali",
        true,
        "kiali-operator.v1.34.0",
        "its image's entrypoint, without probes; resources without a name",
    ),
    walk(
        "hive-operator",
        "corpus-hive",
        true,
        "hive-operator.v1.1.6",
        "twenty CRDs, with each edge anew",
    ),
    walk(
        "camel-k",
        "corpus-camel-k",
        false,
        "camel-k-operator.v1.4.0",
        "upgrades by themselves; one other namespace; a command looked up in PATH; strategy Recreate",
    ),
    walk(
        "keda",
        "corpus-keda",
        true,
        "keda.v2.0.0",
        "each version changes the selector of its Deployment, the last to one that takes the old pods up; CRDs of 400 KiB",
    ),
    head(
        "redis-operator",
        "corpus-own",
        "a fixed user, limits of memory, one CRD of 300 KiB",
    ),
    head(
        "kubernetes-imagepuller-operator",
        "corpus-own",
        "no clusterPermissions; an empty minKubeVersion; resources without a name",
    ),
    head(
        "ibm-block-csi-operator-community",
        "corpus-own",
        "exec probes by a relative path; a required node affinity",
    ),
    head(
        "integrity-shield-operator",
        "corpus-own",
        "a ClusterRole in v1beta1; exec probes and hooks; a pull secret that is missing",
    ),
    head(
        "koku-metrics-operator",
        "corpus-own",
        "its image is pinned by digest; a volume without source",
    ),
    head("etcd", "corpus-own", "CRDs in v1beta1"),
    head(
        "sosreport-operator",
        "corpus-all",
        "two containers, one without command; ServiceAccount default; a Service",
    ),
    head(
        "mongodb-atlas-kubernetes",
        "corpus-all",
        "probes of a port that is not declared; null in its pod template",
    ),
    head(
        "devopsinabox",
        "corpus-all",
        "an entrypoint with arguments and probes",
    ),
    head(
        "varnish-operator",
        "corpus-all",
        "does not support all namespaces",
    ),
    head("cert-manager", "corpus-all", "webhooks"),
    head(
        "community-windows-machine-config-operator",
        "corpus-windows",
        "a ServiceMonitor and a PrometheusRule, which the cluster does not serve",
    ),
    head(
        "buildv2-operator",
        "corpus-build",
        "needs an API that no operator of the catalog provides",
    ),
];

/// A choice with its data from the corpus.
pub struct Candidate {
    /// The choice.
    pub choice: &'static Choice,
    /// Namespaces that its OperatorGroup selects.
    pub targets: Targets,
    /// Parent of its bundle folders.
    pub folder: PathBuf,
    /// Its catalog.
    pub catalog: Catalog,
    /// Bundles it passes through.
    pub bundles: Vec<Bundle>,
    /// Expected result of each bundle.
    pub legs: Vec<Leg>,
}

/// Reads the chosen packages of the corpus and derives their expected results.
pub fn candidates(corpus: &Path, around: &Surroundings) -> anyhow::Result<Vec<Candidate>> {
    let mut catalogs = BTreeMap::new();
    for choice in &CHOICES {
        let file = corpus.join("fbc").join(choice.package).join("catalog.json");
        catalogs.insert(choice.package, Catalog::read(&file)?);
    }
    CHOICES
        .iter()
        .map(|choice| {
            let site = SITES
                .iter()
                .find(|site| site.name == choice.site)
                .context("a choice has no site")?;
            let neighbours = CHOICES.iter().filter(|other| other.site == choice.site);
            let provided = neighbours
                .flat_map(|other| catalogs[other.package].provided())
                .collect();
            let around = Surroundings {
                provided,
                ..around.clone()
            };
            candidate(
                corpus,
                choice,
                site.targets,
                catalogs[choice.package].clone(),
                &around,
            )
            .with_context(|| format!("package {}", choice.package))
        })
        .collect()
}

fn candidate(
    corpus: &Path,
    choice: &'static Choice,
    targets: Targets,
    catalog: Catalog,
    around: &Surroundings,
) -> anyhow::Result<Candidate> {
    let folder = corpus.join("bundles").join(choice.package);
    let (mut bundles, mut legs) = (Vec::new(), Vec::new());
    for csv in catalog.path(catalog.default_channel(), choice.start)? {
        let bundle = Bundle::read(&folder.join(&csv))?;
        ensure!(bundle.name() == csv, "the folder {csv} holds {}", bundle.name());
        let expectation = derive(&bundle, &catalog.required(&csv)?, targets, around)?;
        bundles.push(bundle);
        legs.push(Leg { csv, expectation });
    }
    let last = legs.len().saturating_sub(1);
    if let Some(leg) = legs[..last].iter().find(|leg| !leg.expectation.is_success()) {
        bail!("{} is not the last and must be {}", leg.csv, leg.expectation);
    }
    Ok(Candidate {
        choice,
        targets,
        folder,
        catalog,
        bundles,
        legs,
    })
}

/// Checks that the choices cover the required cases.
pub fn check_choice(candidates: &[Candidate]) {
    let count =
        |holds: &dyn Fn(&Candidate) -> bool| candidates.iter().filter(|candidate| holds(candidate)).count();
    let goal = |candidate: &Candidate| {
        candidate
            .legs
            .last()
            .map(|leg| leg.expectation.to_string())
            .unwrap_or_default()
    };
    assert!(candidates.len() >= 10);
    assert!(count(&|candidate| goal(candidate) == "Succeeded/InstallSucceeded") >= 6);
    assert!(
        count(&|candidate| candidate.legs.len() > 2) >= 2,
        "two walk two or more edges"
    );
    assert!(count(&|candidate| candidate.choice.manual) >= 2);
    let has_permissions = |candidate: &Candidate| {
        candidate
            .bundles
            .iter()
            .any(|bundle| !bundle.permissions("clusterPermissions").is_empty())
    };
    let installed = |candidate: &Candidate| goal(candidate).starts_with("Succeeded");
    assert!(count(&|candidate| installed(candidate) && has_permissions(candidate)) >= 8);
    let pinned = |candidate: &Candidate| {
        candidate
            .bundles
            .iter()
            .any(|bundle| bundle.images().any(|image| image.contains('@')))
    };
    assert!(count(&|candidate| pinned(candidate) && goal(candidate) == "Installing/InstallWaiting") == 1);
    let outcomes: BTreeSet<String> = candidates.iter().map(goal).collect();
    assert_eq!(outcomes.len(), 6, "{outcomes:?}");
    assert!(
        candidates
            .iter()
            .all(|candidate| !candidate.choice.why.is_empty())
    );
}
