//! Faults of a bundle or its image are reported by name, nothing is applied, and fixing the fault is enough.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::lab::{Lab, Namespace, PATIENCE, catalog_source, condition, operator_group, subscription};
use e2e::operator::{Operator, assert_no_restart};
use e2e::variant::{CSV_FILE, DEFINITION_FILE, Variant};
use serde_json::{Value, json};
use xtask::catalog::Package;
use xtask::kubectl::text;

/// Retry interval after a rejection by a registry.
const RETRY: Duration = Duration::from_secs(60);
/// Timeout of an install once the bundle is available, on a busy machine.
const INSTALL: Duration = Duration::from_secs(120);

/// A bundle, its catalog and the Subscription to it, in a namespace of its own.
struct Case {
    namespace: Namespace<'static>,
    variant: Variant,
    /// Image of the bundle in the catalog.
    image: String,
    operators: Vec<Operator>,
}

impl Case {
    /// Publishes a catalog that describes a good bundle with the image `image`. `fault` changes the bundle that is pushed under
    /// that name; if it returns false, none is pushed.
    fn new(
        name: &str,
        image: impl Fn(&Variant) -> String,
        fault: impl Fn(&Variant) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Self> {
        let lab = Lab::shared()?;
        let home = lab.folder(name)?;
        let variant = Variant::new(name, &home.join("good"))?;
        let image = image(&variant);
        let faulty = variant.copy_to(&home.join("faulty"))?;
        if fault(&faulty)? {
            push(lab, &faulty, &image)?;
        }
        let case = Self {
            namespace: lab.namespace(name)?,
            operators: operators(lab)?,
            variant,
            image,
        };
        publish_catalog(
            lab,
            name,
            &[case.variant.package(&case.image)],
            &case.catalog("v1"),
        )?;
        Ok(case)
    }

    fn catalog(&self, tag: &str) -> String {
        format!("olm.local/{}-catalog:{tag}", self.variant.package_name())
    }

    fn subscribe(&self) -> anyhow::Result<()> {
        self.subscribe_in(operator_group("group", &[self.namespace.name()]))
    }

    fn subscribe_in(&self, group: Value) -> anyhow::Result<()> {
        self.namespace.apply(&[
            catalog_source("catalog", &self.catalog("v1")),
            group,
            subscription(
                "wanted",
                self.variant.package_name(),
                "stable",
                "catalog",
                self.namespace.name(),
            ),
        ])
    }

    /// Waits for the condition about an unavailable bundle. Its text names bundle and image and `parts`, the Subscription has an
    /// event with the same text, and nothing was applied.
    fn expect_refusal(&self, reason: &str, parts: &[&str]) -> anyhow::Result<()> {
        let condition = self
            .namespace
            .wait_for_condition("wanted", "BundleUnpackFailed")?;
        let message = text(&condition, "/message");
        let repository = self.image.split(['@', ':']).next().unwrap_or_default();
        for part in [self.variant.csv().as_str(), repository].iter().chain(parts) {
            assert!(message.contains(part), "{part:?} is not in: {message}");
        }
        assert_eq!(condition["reason"], reason, "{message}");
        let told = (message.to_owned(), "Warning".to_owned());
        let events = self.wait_for_event("Subscription", "BundleUnpackFailed", &told)?;
        assert_eq!(events, [told]);
        self.expect_nothing_applied()?;
        assert_no_restart(Lab::shared()?.kubectl(), &self.operators)
    }

    /// Returns messages and types of the events with this reason.
    fn events(&self, kind: &str, reason: &str) -> anyhow::Result<Vec<(String, String)>> {
        let events = self.namespace.list("events")?;
        let ours = events
            .iter()
            .filter(|event| event["involvedObject"]["kind"] == kind && event["reason"] == reason);
        Ok(ours
            .map(|event| {
                (
                    text(event, "/message").to_owned(),
                    text(event, "/type").to_owned(),
                )
            })
            .collect())
    }

    /// Waits for such an event, which follows the status; returns all with this reason.
    fn wait_for_event(
        &self,
        kind: &str,
        reason: &str,
        told: &(String, String),
    ) -> anyhow::Result<Vec<(String, String)>> {
        let kubectl = Lab::shared()?.kubectl();
        kubectl.wait(&format!("the event {reason}"), PATIENCE, |_| {
            let events = self.events(kind, reason)?;
            Ok(if events.contains(told) {
                Ok(events)
            } else {
                Err(format!("{events:?}"))
            })
        })
    }

    fn expect_nothing_applied(&self) -> anyhow::Result<()> {
        // A late application would be wrong, too.
        std::thread::sleep(Duration::from_secs(2));
        for kind in ["csv", "installplan", "deployment", "role", "rolebinding"] {
            let found = match kind {
                "csv" => self.namespace.own_csvs()?,
                _ => self.namespace.list(kind)?,
            };
            // Roles of an unpack Job do not belong to the bundle.
            let is_of_unpack =
                |name: &&str| name.len() == 63 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            let names: Vec<&str> = found
                .iter()
                .map(|object| text(object, "/metadata/name"))
                .filter(|name| !is_of_unpack(name))
                .collect();
            assert!(names.is_empty(), "{kind}: {names:?}");
        }
        let account = self
            .namespace
            .get("serviceaccount", self.variant.package_name())?;
        assert!(account.is_none(), "the operator's ServiceAccount exists");
        let definition = Lab::shared()?
            .kubectl()
            .get(&["crd", &self.variant.definition()])?;
        assert!(
            definition.is_none(),
            "the bundle's CustomResourceDefinition exists"
        );
        Ok(())
    }

    /// Waits until the operator is installed and the Subscription no longer reports a failure.
    fn expect_install(&self, within: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        self.namespace.wait_for_phase(&self.variant.csv(), "Succeeded")?;
        let took = began.elapsed();
        assert!(
            took <= within,
            "it took {} s, not {}",
            took.as_secs(),
            within.as_secs()
        );
        self.namespace
            .wait_for("subscription", "wanted", "no failure reported", |object| {
                text(object, "/status/state") == "AtLatestKnown"
                    && condition(object, "BundleUnpackFailed").is_none()
                    && condition(object, "ResolutionFailed").is_none()
            })?;
        assert_no_restart(Lab::shared()?.kubectl(), &self.operators)
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if let Ok(lab) = Lab::shared() {
            // Definitions are cluster-scoped, and a second run of the test must not find any.
            let name = self.variant.definition();
            let _ = lab
                .kubectl()
                .run(&["delete", "crd", &name, "--ignore-not-found", "--wait=false"]);
        }
    }
}

/// Returns the operators as they were when the first test of this program started.
fn operators(lab: &Lab) -> anyhow::Result<Vec<Operator>> {
    static BEFORE: Mutex<Vec<Operator>> = Mutex::new(Vec::new());
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if before.is_empty() {
        *before = Operator::all(lab.kubectl())?;
    }
    Ok(before.clone())
}

fn push(lab: &Lab, bundle: &Variant, image: &str) -> anyhow::Result<()> {
    let tar = lab
        .folder(&format!("{}-image", bundle.package_name()))?
        .join("bundle.tar");
    bundle.write_image(&tar)?;
    lab.cluster().load(&tar, &[image.to_owned()])?;
    Ok(())
}

fn publish_catalog(lab: &Lab, name: &str, packages: &[Package], image: &str) -> anyhow::Result<()> {
    let folder = lab.folder(&format!("{name}-catalog"))?;
    lab.opm().write_catalog(packages, &folder.join("catalog"))?;
    let tar = folder.join("catalog.tar");
    lab.opm()
        .catalog_image(&folder.join("catalog"), lab.opm_image(), image, &tar)?;
    lab.cluster().load(&tar, &[image.to_owned()])?;
    Ok(())
}

fn tagged(variant: &Variant) -> String {
    variant.image("v1")
}

/// Returns a group with a short unpack timeout. Otherwise a Job tries for ten minutes to pull an image that no registry has,
/// because the node may have it.
fn impatient_group(case: &Case) -> Value {
    let mut group = operator_group("group", &[case.namespace.name()]);
    group["metadata"]["annotations"] = json!({"operatorframework.io/bundle-unpack-timeout": "10s"});
    group
}

#[test]
fn a_wrong_digest_is_reported() -> anyhow::Result<()> {
    let digest = format!("sha256:{}", "0".repeat(64));
    let image = |variant: &Variant| variant.image("v1").replace(":v1", &format!("@{digest}"));
    let case = Case::new("bad-digest", image, |_| Ok(false))?;
    case.subscribe_in(impatient_group(&case))?;
    case.expect_refusal(
        "BundleUnpackFailed",
        &[&digest, "NotFound", "check the image name in the catalog"],
    )
}

#[test]
fn an_image_without_manifests_is_reported() -> anyhow::Result<()> {
    let case = Case::new("bad-empty", tagged, |bundle| {
        bundle.remove_folder("manifests").map(|()| true)
    })?;
    case.subscribe()?;
    case.expect_refusal(
        "ErrorPreventedUnpacking",
        &[
            "NoManifests",
            "no manifests in folder `/manifests`",
            "build the bundle image again",
        ],
    )
}

#[test]
fn broken_yaml_is_reported_with_its_file() -> anyhow::Result<()> {
    let case = Case::new("bad-yaml", tagged, |bundle| {
        bundle
            .edit(DEFINITION_FILE, |text| text.replace("spec:\n", "spec: [\n"))
            .map(|()| true)
    })?;
    case.subscribe()?;
    let file = DEFINITION_FILE.trim_start_matches("manifests/");
    case.expect_refusal(
        "ErrorPreventedUnpacking",
        &["InvalidManifest", file, "invalid YAML: line ", "correct the file"],
    )
}

#[test]
fn two_cluster_service_versions_are_reported_with_their_files() -> anyhow::Result<()> {
    let case = Case::new("bad-two-csvs", tagged, |bundle| {
        let second = bundle.read(CSV_FILE)?.replace("v1.0.0", "v1.0.1");
        bundle.add("manifests/second.yaml", &second).map(|()| true)
    })?;
    case.subscribe()?;
    case.expect_refusal(
        "ErrorPreventedUnpacking",
        &[
            "InvalidManifest",
            "second.yaml",
            "both contain a ClusterServiceVersion",
        ],
    )
}

#[test]
fn a_definition_of_an_api_gone_since_kubernetes_1_22_is_reported_before_anything_is_applied()
-> anyhow::Result<()> {
    let case = Case::new("bad-v1beta1", tagged, |bundle| {
        let change = |text: &str| text.replace("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1");
        bundle.edit(DEFINITION_FILE, change).map(|()| true)
    })?;
    case.subscribe()?;
    let definition = case.variant.definition();
    case.expect_refusal(
        "ErrorPreventedUnpacking",
        &[
            "Unsupported",
            &definition,
            "apiextensions.k8s.io/v1beta1",
            "a newer version of the operator is needed",
        ],
    )
}

/// The image does not exist and is then pushed under its name in the catalog; no user action is needed.
#[test]
fn a_bundle_image_that_does_not_exist_is_reported_and_used_once_it_does() -> anyhow::Result<()> {
    let case = Case::new("bad-missing", tagged, |_| Ok(false))?;
    case.subscribe_in(impatient_group(&case))?;
    case.expect_refusal("BundleUnpackFailed", &["NotFound", "push the image"])?;
    push(Lab::shared()?, &case.variant, &case.image)?;
    case.expect_install(RETRY + INSTALL)
}

/// The node has a mirror that pods do not know: a Job gets the image that the operator cannot find.
#[test]
fn a_bundle_that_only_a_node_finds_is_unpacked_by_a_job() -> anyhow::Result<()> {
    const HOST: &str = "only-nodes.invalid";
    let lab = Lab::shared()?;
    // containerd reads this file for each pull; the operator has its content from the time of its deployment.
    let config = lab.cluster().registry_config();
    let of_all = std::fs::read_to_string(config.join("_default/hosts.toml"))?;
    let registry = of_all.split('"').nth(1).unwrap_or_default();
    std::fs::create_dir_all(config.join(HOST))?;
    std::fs::write(
        config.join(HOST).join("hosts.toml"),
        format!(
            "server = \"{registry}\"\n\n[host.\"{registry}/v2/hidden\"]\n  capabilities = [\"pull\", \"resolve\"]\n  override_path = true\n"
        ),
    )?;
    let image = |variant: &Variant| format!("{HOST}/{}:v1", variant.package_name());
    let case = Case::new("bad-hidden", image, |_| Ok(false))?;
    let hidden = format!("{HOST}/hidden/{}:v1", case.variant.package_name());
    push(lab, &case.variant, &hidden)?;
    case.subscribe()?;
    case.expect_install(RETRY + INSTALL)?;
    let jobs = case.namespace.list("jobs")?;
    let of_unpack =
        |job: &&Value| !text(job, "/metadata/labels/operatorframework.io~1bundle-unpack-ref").is_empty();
    let succeeded = jobs
        .iter()
        .filter(of_unpack)
        .filter(|job| job["status"]["succeeded"] == 1);
    assert!(succeeded.count() > 0, "{jobs:#?}");
    let plans = case.namespace.list("installplan")?;
    let manifests = plans[0]["status"]["plan"].to_string();
    assert!(
        manifests.contains(&format!("{HOST}/")) && manifests.contains("@sha256:"),
        "{manifests}"
    );
    Ok(())
}

/// While a node retries, the catalog adds a pull secret.
#[test]
fn a_job_that_goes_on_follows_its_catalog() -> anyhow::Result<()> {
    let case = Case::new("bad-follow", tagged, |_| Ok(false))?;
    case.subscribe()?;
    let job = |what: &str, is_right: &dyn Fn(&Value) -> bool| {
        Lab::shared()?.kubectl().wait(what, RETRY, |_| {
            let jobs = case.namespace.list("jobs")?;
            let found = jobs.iter().find(|job| is_right(job)).cloned();
            Ok(found.ok_or_else(|| format!("{jobs:?}")))
        })
    };
    let first = job("a Job of ten minutes", &|job| {
        job["spec"]["activeDeadlineSeconds"] == 600
    })?;
    let mut catalog = catalog_source("catalog", &case.catalog("v1"));
    catalog["spec"]["secrets"] = json!(["late"]);
    case.namespace.apply(&[catalog])?;
    let second = job("a Job with the secret", &|job| {
        job["spec"]["template"]["spec"]["imagePullSecrets"][0]["name"] == "late"
    })?;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_no_restart(Lab::shared()?.kubectl(), &case.operators)
}

/// The image is fixed under its old name; the group defines the retry interval.
#[test]
fn a_bundle_image_put_right_under_the_same_tag_is_used_after_the_groups_retry_interval() -> anyhow::Result<()>
{
    let case = Case::new("bad-then-pushed", tagged, |bundle| {
        bundle.remove_folder("manifests").map(|()| true)
    })?;
    let mut group = operator_group("group", &[case.namespace.name()]);
    group["metadata"]["annotations"] =
        json!({"operatorframework.io/bundle-unpack-min-retry-interval": "10s"});
    case.subscribe_in(group)?;
    case.expect_refusal("ErrorPreventedUnpacking", &["NoManifests"])?;
    push(Lab::shared()?, &case.variant, &case.image)?;
    case.expect_install(Duration::from_secs(10) + INSTALL)
}

/// A new catalog that names a good image replaces the old one.
#[test]
fn a_new_catalog_with_a_good_image_is_taken_at_once() -> anyhow::Result<()> {
    let case = Case::new("bad-then-new", tagged, |bundle| {
        bundle.remove_folder("manifests").map(|()| true)
    })?;
    case.subscribe()?;
    case.expect_refusal("ErrorPreventedUnpacking", &["NoManifests"])?;
    let lab = Lab::shared()?;
    let image = case.variant.image("v2");
    push(lab, &case.variant, &image)?;
    publish_catalog(
        lab,
        "bad-then-new",
        &[case.variant.package(&image)],
        &case.catalog("v2"),
    )?;
    case.namespace
        .apply(&[catalog_source("catalog", &case.catalog("v2"))])?;
    case.expect_install(INSTALL + INSTALL)
}

#[test]
fn an_install_mode_that_the_group_does_not_want_is_reported_and_the_right_group_is_enough()
-> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let home = lab.folder("bad-mode")?;
    let variant = Variant::new("bad-mode", &home.join("good"))?;
    variant.for_all_namespaces_only()?;
    let image = variant.image("v1");
    push(lab, &variant, &image)?;
    let case = Case {
        namespace: lab.namespace("bad-mode")?,
        operators: operators(lab)?,
        variant,
        image,
    };
    publish_catalog(
        lab,
        "bad-mode",
        &[case.variant.package(&case.image)],
        &case.catalog("v1"),
    )?;
    case.subscribe()?;

    let csv = case.namespace.wait_for_phase(&case.variant.csv(), "Failed")?;
    assert_eq!(csv["status"]["reason"], "UnsupportedOperatorGroup");
    assert_eq!(
        csv["status"]["message"],
        "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace"
    );
    let told = (text(&csv, "/status/message").to_owned(), "Warning".to_owned());
    case.wait_for_event("ClusterServiceVersion", "UnsupportedOperatorGroup", &told)?;
    assert!(
        case.namespace.list("deployment")?.is_empty(),
        "the operator was started all the same"
    );
    assert_no_restart(lab.kubectl(), &case.operators)?;

    // Server-side apply of the group without targets removes them.
    case.namespace.apply(&[operator_group("group", &[])])?;
    case.expect_install(INSTALL)
}

#[test]
fn a_catalog_source_that_cannot_be_served_is_reported_and_can_be_corrected() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let before = operators(lab)?;
    let namespace = lab.namespace("bad-catalog-spec")?;
    let source = |name: &str, type_: &str| {
        let mut source = catalog_source(name, "");
        source["spec"] = json!({"sourceType": type_});
        source
    };
    namespace.apply(&[source("unknown", "nope"), source("empty", "grpc")])?;
    let expected = BTreeMap::from([
        ("unknown", "unknown sourcetype: nope"),
        (
            "empty",
            "image and address unset: at least one must be set for sourcetype: grpc",
        ),
    ]);
    for (name, message) in expected {
        let object = namespace.wait_for("catalogsource", name, "SpecInvalidError", |object| {
            text(object, "/status/reason") == "SpecInvalidError"
        })?;
        assert_eq!(object["status"]["message"], message);
        assert!(
            object["status"].get("connectionState").is_none(),
            "there is nothing to connect to"
        );
    }
    assert!(namespace.list("pod")?.is_empty());
    assert_no_restart(lab.kubectl(), &before)?;

    namespace.apply(&[catalog_source("empty", lab.demo_catalog()?)])?;
    let object = namespace.wait_for("catalogsource", "empty", "READY", |object| {
        text(object, "/status/connectionState/lastObservedState") == "READY"
    })?;
    let reason = object["status"].get("reason").context("a reason").ok();
    assert!(reason.is_none_or(|reason| reason == ""), "{object}");
    Ok(())
}
