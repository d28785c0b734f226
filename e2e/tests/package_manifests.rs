//! PackageManifests as users and clients see them: through the API server, with their own rights, at any time.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use e2e::lab::{Lab, Namespace, PATIENCE, catalog_source};
use serde_json::{Value, json};
use xtask::bench::find_process;
use xtask::demo::PACKAGE;
use xtask::deploy::PACKAGE_SERVER;
use xtask::kubectl::text;

const GROUP_PATH: &str = "/apis/packages.operators.coreos.com/v1";
/// Maximum memory of a replica with the catalogs of these tests, in KiB.
const MOST_KIB: u64 = 20 << 10;
/// Time between two requests to discovery while pods are replaced.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Locked exclusively by the test that replaces replicas: a new one may get requests before it has read every catalog.
static REPLICAS: RwLock<()> = RwLock::new(());

/// Creates a namespace with the demo catalog, once each replica serves its package. Replicas read a catalog independently, and
/// the API server may switch between them at any time.
fn with_catalog(name: &str) -> anyhow::Result<Namespace<'static>> {
    let lab = Lab::shared()?;
    let namespace = lab.namespace(name)?;
    let mut catalog = catalog_source("catalog", lab.demo_catalog()?);
    catalog["spec"]["displayName"] = json!("Demonstration");
    catalog["metadata"]["labels"] = json!({"from": name});
    namespace.apply(&[catalog])?;
    namespace.wait_for("packagemanifest", PACKAGE, "its package", |_| true)?;
    namespace.apply(&[json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "asker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace.name()}],
    })])?;
    let token = lab
        .kubectl()
        .run(&["create", "token", "default", "-n", namespace.name()])?;
    let bearer = format!("Authorization: Bearer {}", token.trim());
    let path = format!(
        "{GROUP_PATH}/namespaces/{}/packagemanifests/{PACKAGE}",
        namespace.name()
    );
    lab.kubectl()
        .wait("its package from each replica", PATIENCE, |_| {
            let pods = pods()?;
            for pod in &pods {
                let code = ask(pod, &path, &[&bearer])?;
                if code != "200" {
                    return Ok(Err(format!("{} says {code}", text(pod, "/metadata/name"))));
                }
            }
            Ok(if pods.len() == 2 {
                Ok(())
            } else {
                Err(format!("{} pods are ready", pods.len()))
            })
        })?;
    Ok(namespace)
}

fn replicas_stay() -> RwLockReadGuard<'static, ()> {
    REPLICAS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the status code of a pod for a direct request, without the API server.
fn ask(pod: &Value, path: &str, headers: &[&str]) -> anyhow::Result<String> {
    let url = format!("https://{}:5443{path}", text(pod, "/status/podIP"));
    let mut curl = Lab::shared()?.cluster().command("curl");
    curl.args(["--silent", "--insecure", "--max-time", "20"]);
    curl.args(["--output", "/dev/null", "--write-out", "%{http_code}"]);
    for header in headers {
        curl.args(["--header", header]);
    }
    let output = curl
        .arg(&url)
        .output()
        .context("cannot run curl; install the package curl")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the pods of the package server that are ready and not terminating.
fn pods() -> anyhow::Result<Vec<Value>> {
    let selector = format!("app={PACKAGE_SERVER}");
    let found = Lab::shared()?
        .kubectl()
        .get(&["pods", "-n", "olm", "-l", &selector])?;
    let mut pods = found.unwrap_or_default()["items"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    pods.retain(|pod| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["containerStatuses"][0]["ready"] == true
    });
    Ok(pods)
}

#[test]
fn pkg_001_packages_are_found_by_kubectl() -> anyhow::Result<()> {
    let _stay = replicas_stay();
    let kubectl = Lab::shared()?.kubectl();
    let namespace = with_catalog("packages-found")?;
    let name = namespace.name();
    let table = kubectl.run(&["get", "packagemanifests", "-n", name])?;
    let words = |line: Option<&str>| -> Vec<String> {
        line.unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    let mut lines = table.lines();
    assert_eq!(words(lines.next()), ["NAME", "CATALOG", "AGE"], "{table}");
    assert_eq!(words(lines.next())[..2], [PACKAGE, "Demonstration"], "{table}");

    let names = |arguments: &[&str]| -> anyhow::Result<String> {
        kubectl.run(&[&["get", "packagemanifests", "-o", "name"], arguments].concat())
    };
    let found = format!("packagemanifest.packages.operators.coreos.com/{PACKAGE}\n");
    assert_eq!(names(&["-A", "-l", &format!("from={name}")])?, found);
    assert_eq!(
        names(&[
            "-n",
            name,
            "-l",
            "catalog=catalog,operatorframework.io/os.linux=supported"
        ])?,
        found
    );
    assert_eq!(names(&["-n", name, "-l", "!catalog"])?, "");
    assert_eq!(
        names(&[
            "-n",
            name,
            "--field-selector",
            &format!("metadata.name={PACKAGE}")
        ])?,
        found
    );
    assert_eq!(
        names(&["-n", name, "--field-selector", "metadata.name=absent"])?,
        ""
    );
    assert_eq!(
        names(&["-A", "-l", &format!("from={name}"), "--chunk-size=1"])?,
        found
    );

    let yaml = kubectl.run(&["get", "packagemanifest", PACKAGE, "-n", name, "-o", "yaml"])?;
    assert!(yaml.contains("kind: PackageManifest"), "{yaml}");
    let missing = kubectl.run(&["get", "packagemanifest", "absent", "-n", name]);
    let missing = format!("{:#}", missing.err().context("an absent package was found")?);
    assert!(
        missing.contains("packagemanifests.packages.operators.coreos.com \"absent\" not found"),
        "{missing}"
    );

    let watched = kubectl.run(&["get", "packagemanifests", "-n", name, "--watch"]);
    let watched = format!("{:#}", watched.err().context("a watch was taken")?);
    assert!(watched.contains("MethodNotAllowed"), "{watched}");

    let resources = kubectl.run(&["api-resources", "--api-group=packages.operators.coreos.com"])?;
    assert!(resources.contains("packagemanifests"), "{resources}");
    let explained = kubectl.run(&["explain", "packagemanifests.status.channels.currentCSV"])?;
    assert!(explained.contains("currentCSV <string>"), "{explained}");
    Ok(())
}

#[test]
fn pkg_002_pkg_003_a_package_says_what_it_is() -> anyhow::Result<()> {
    let _stay = replicas_stay();
    let lab = Lab::shared()?;
    let namespace = with_catalog("packages-told")?;
    let package = namespace.get("packagemanifest", PACKAGE)?.context("no package")?;
    let status = &package["status"];
    assert_eq!(text(status, "/defaultChannel"), "stable");
    assert_eq!(text(status, "/channels/0/currentCSV"), "demo-operator.v1.1.0");
    let versions: Vec<&str> = status["channels"][0]["entries"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| text(entry, "/version"))
        .collect();
    assert_eq!(versions, ["1.1.0", "1.0.0"]);
    assert_eq!(text(status, "/catalogSourceDisplayName"), "Demonstration");
    assert_eq!(text(&package, "/metadata/namespace"), namespace.name());
    let described = &status["channels"][0]["currentCSVDesc"];
    ensure!(!text(described, "/displayName").is_empty(), "{described}");

    let path = format!(
        "{GROUP_PATH}/namespaces/{}/packagemanifests/{PACKAGE}/icon",
        namespace.name()
    );
    ensure!(
        !lab.kubectl().run(&["get", "--raw", &path])?.is_empty(),
        "no picture"
    );

    // Changes of the CatalogSource itself are served at once.
    let patch = r#"{"spec":{"displayName":"Renamed"}}"#;
    let words = [
        "patch",
        "catalogsource",
        "catalog",
        "-n",
        namespace.name(),
        "--type=merge",
        "-p",
        patch,
    ];
    lab.kubectl().run(&words)?;
    namespace.wait_for("packagemanifest", PACKAGE, "its catalog's new name", |package| {
        text(package, "/status/catalogSourceDisplayName") == "Renamed"
    })?;
    lab.kubectl()
        .run(&["delete", "catalogsource", "catalog", "-n", namespace.name()])?;
    lab.kubectl().wait("the end of its packages", PATIENCE, |_| {
        Ok(match namespace.get("packagemanifest", PACKAGE)? {
            None => Ok(()),
            Some(_) => Err("it is still served".to_owned()),
        })
    })
}

#[test]
fn users_without_rights_see_nothing_and_no_user_changes_anything() -> anyhow::Result<()> {
    let _stay = replicas_stay();
    let kubectl = Lab::shared()?.kubectl();
    let namespace = with_catalog("packages-rights")?;
    let name = namespace.name();
    let refused = |arguments: &[&str]| -> anyhow::Result<String> {
        let answer = kubectl.run(arguments);
        Ok(format!(
            "{:#}",
            answer
                .err()
                .with_context(|| format!("{arguments:?} was allowed"))?
        ))
    };
    let forbidden = refused(&["get", "packagemanifests", "-n", name, "--as=packages-nobody"])?;
    assert!(forbidden.contains("is forbidden"), "{forbidden}");
    namespace.apply(&[json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "packages-viewer"}],
    })])?;
    let viewer = "--as=packages-viewer";
    kubectl.wait("the viewer's rights", PATIENCE, |kubectl| {
        let seen = kubectl.run(&["get", "packagemanifest", PACKAGE, "-n", name, viewer]);
        Ok(seen.map(|_| ()).map_err(|error| format!("{error:#}")))
    })?;
    let elsewhere = refused(&["get", "packagemanifests", "-A", viewer])?;
    assert!(elsewhere.contains("is forbidden"), "{elsewhere}");
    let deleted = refused(&["delete", "packagemanifest", PACKAGE, "-n", name])?;
    assert!(
        deleted.contains("not supported") || deleted.contains("NotAllowed"),
        "{deleted}"
    );
    Ok(())
}

/// Any client with access to the pods' addresses can send any header.
#[test]
fn forged_headers_of_the_api_server_are_refused() -> anyhow::Result<()> {
    let _stay = replicas_stay();
    let pods = pods()?;
    ensure!(!pods.is_empty(), "no pod is ready");
    for pod in &pods {
        let ask = |path: &str, header: &str| ask(pod, path, &[header, "X-Remote-Group: system:masters"]);
        let list = format!("{GROUP_PATH}/packagemanifests");
        for path in [GROUP_PATH, list.as_str(), "/metrics", "/openapi/v2"] {
            assert_eq!(ask(path, "X-Remote-User: admin")?, "401", "{path}");
        }
        assert_eq!(ask(&list, "Authorization: Bearer forged")?, "401");
        assert_eq!(ask("/healthz", "X-Remote-User: admin")?, "200");
    }
    Ok(())
}

#[test]
fn discovery_is_answered_while_the_replicas_are_replaced() -> anyhow::Result<()> {
    let _alone = REPLICAS.write().unwrap_or_else(PoisonError::into_inner);
    let kubectl = Lab::shared()?.kubectl();
    let over = AtomicBool::new(false);
    let old: Vec<String> = kubectl.wait("two replicas", PATIENCE, |_| {
        let pods = pods()?;
        let ids: Vec<String> = pods
            .iter()
            .map(|pod| text(pod, "/metadata/uid").to_owned())
            .collect();
        Ok(if ids.len() == 2 {
            Ok(ids)
        } else {
            Err(format!("{ids:?}"))
        })
    })?;
    let looks = thread::scope(|scope| -> anyhow::Result<usize> {
        let looking = scope.spawn(|| -> anyhow::Result<usize> {
            let mut looks = 0;
            while !over.load(Ordering::SeqCst) {
                kubectl
                    .run(&["get", "--raw", GROUP_PATH])
                    .with_context(|| format!("after {looks} looks"))?;
                looks += 1;
                if looks % 10 == 0 {
                    kubectl.run(&["api-resources", "--cached=false"])?;
                }
                thread::sleep(LOOK_EVERY);
            }
            Ok(looks)
        });
        let replaced = kubectl
            .run(&["rollout", "restart", "deployment", PACKAGE_SERVER, "-n", "olm"])
            .and_then(|_| {
                kubectl.wait("other pods", PATIENCE, |_| {
                    let pods = pods()?;
                    let new = pods
                        .iter()
                        .filter(|pod| !old.iter().any(|uid| uid == text(pod, "/metadata/uid")));
                    Ok(match (pods.len(), new.count()) {
                        (2, 2) => Ok(()),
                        (all, new) => Err(format!("{new} of {all} are new")),
                    })
                })
            });
        // Terminating pods got the signal a moment ago, and answer for some more seconds.
        thread::sleep(Duration::from_secs(8));
        over.store(true, Ordering::SeqCst);
        let looks = looking.join().map_err(|_| anyhow!("whoever looked panicked"))?;
        replaced.and(looks)
    })?;
    assert!(looks > 10, "{looks}");
    for pod in pods()? {
        let process = find_process("package-server", text(&pod, "/metadata/uid")).context("no process")?;
        let status = fs::read_to_string(process.join("status"))?;
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let anonymous = anonymous.and_then(|size| size.split_whitespace().next());
        let kib: u64 = anonymous.context("no RssAnon")?.parse()?;
        ensure!(kib < MOST_KIB, "{kib} KiB");
    }
    Ok(())
}
