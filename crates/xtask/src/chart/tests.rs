use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::*;
use crate::images;

mod catalogd;
mod monitoring;
mod operator_controller;
mod package_server;
mod refused;
mod rights;
mod upgrade;
mod upstream;
mod values;

/// Maximum bytes of an object's annotations; `kubectl apply` stores the object in one.
const ANNOTATIONS: usize = 256 << 10;

/// Returns Helm, built once for all tests. `None`, with a note, without Go; only a developer's machine may lack it.
fn helm() -> Option<&'static Path> {
    static HELM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = HELM.get_or_init(|| {
        let go = Command::new("go").arg("version").stdout(Stdio::null()).status();
        if go.is_err() && std::env::var_os("CI").is_none() {
            eprintln!("NOT RUN: helm is built with Go, which is not on this machine");
            return None;
        }
        Some(cluster::helm(&Progress::start()).unwrap())
    });
    built.as_deref()
}

/// Returns the objects that helm renders for a file of values and further arguments, or its error.
fn try_render(values: &str, arguments: &[&str]) -> Option<anyhow::Result<Vec<Value>>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    fs::write(&file, values).unwrap();
    let arguments = [&["-f", file.to_str().unwrap()][..], arguments].concat();
    let rendered = render(helm()?, &arguments);
    Some(rendered.map(|text| {
        let documents = serde_saphyr::from_multiple::<Value>(&text).unwrap();
        documents
            .into_iter()
            .filter(|document| !document.is_null())
            .collect()
    }))
}

fn rendered(values: &str) -> Option<Vec<Value>> {
    try_render(values, &[]).map(|rendered| rendered.unwrap_or_else(|error| panic!("{values}: {error:#}")))
}

/// Returns `Kind/name`, which is unique in the chart.
fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

#[track_caller]
fn find<'a>(objects: &'a [Value], wanted: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| name(object) == wanted)
        .unwrap_or_else(|| panic!("no {wanted}"))
}

fn names(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(name).collect()
}

const CATALOG: &str = "Deployment/catalog-operator";
const OLM: &str = "Deployment/olm-operator";
const PACKAGES: &str = "ClusterServiceVersion/packageserver";
/// Only with `v1.enabled`.
const CATALOGD: &str = "Deployment/catalogd-controller-manager";
/// Only with `v1.enabled`.
const OPERATOR_CONTROLLER: &str = "Deployment/operator-controller-controller-manager";

/// Path of the spec of the CSV's Deployment.
const IN_CSV: &str = "/spec/install/spec/deployments/0/spec";

/// Returns the pod template of a program.
#[track_caller]
fn pod<'a>(objects: &'a [Value], program: &str) -> &'a Value {
    let object = find(objects, program);
    let deployment = match program {
        PACKAGES => format!("{IN_CSV}/template"),
        _ => "/spec/template".to_owned(),
    };
    object.pointer(&deployment).unwrap()
}

/// OpenShift uses another name.
#[test]
fn mt_010_the_namespace_for_global_operators_has_the_configured_name() {
    for (values, namespace) in [
        ("{}", "operators"),
        ("operator_namespace: openshift-operators", "openshift-operators"),
    ] {
        let Some(objects) = rendered(values) else { return };
        find(&objects, &format!("Namespace/{namespace}"));
        let groups = objects.iter().filter(|object| {
            object["kind"] == "OperatorGroup" && object["metadata"]["namespace"] == namespace
        });
        let specs: Vec<&Value> = groups.map(|group| &group["spec"]).collect();
        assert_eq!(specs, [&Value::Null], "one, for all namespaces");
    }
}

#[test]
fn arch_002_sub_010_mt_010_what_is_made_of_the_chart_is_what_is_there() {
    let Some(helm) = helm() else { return };
    let root = workspace::root();
    let wanted = all_wanted(&root, helm).unwrap();
    assert_eq!(stale(&root, &wanted).unwrap(), [""; 0], "run `cargo xtask gen`");
    assert!(wanted.len() > 14, "{:?}", wanted.keys());
}

#[test]
fn a_file_that_differs_is_missing_or_is_rendered_no_more_is_stale() {
    let root = tempfile::tempdir().unwrap();
    let definitions = BTreeMap::from([("a.yaml".to_owned(), "kind: A\n".to_owned())]);
    let rendered =
        format!("{SOURCE}10-x.yaml\nkind: X\n{SOURCE}20-y.yaml\nkind: Y\n{SOURCE}10-x.yaml\n\nkind: Z\n");
    let wanted = wanted(&rendered, &definitions).unwrap();
    for folder in [OBJECTS, CHART_DEFINITIONS, CHART_V1_DEFINITIONS] {
        fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    let paths: Vec<&str> = wanted.keys().map(String::as_str).collect();
    let all = [
        "charts/olm/crds/a.yaml",
        "manifests/install.yaml",
        "manifests/olm/10-x.yaml",
        "manifests/olm/20-y.yaml",
    ];
    assert_eq!(paths, all);
    assert_eq!(stale(root.path(), &wanted).unwrap(), all);
    for (path, text) in &wanted {
        fs::write(root.path().join(path), text).unwrap();
    }
    assert_eq!(stale(root.path(), &wanted).unwrap(), [""; 0]);
    fs::write(root.path().join("manifests/olm/20-y.yaml"), "kind: Other\n").unwrap();
    fs::write(root.path().join("manifests/olm/30-old.yaml"), "kind: Old\n").unwrap();
    assert_eq!(
        stale(root.path(), &wanted).unwrap(),
        ["manifests/olm/20-y.yaml", "manifests/olm/30-old.yaml"]
    );
    assert!(
        wanted[all[2]].ends_with("\nkind: X\n---\nkind: Z\n"),
        "{}",
        wanted[all[2]]
    );
    let order = ["kind: A", "kind: X", "kind: Z", "kind: Y"].map(|kind| wanted[ALL].find(kind).unwrap());
    assert!(order.is_sorted(), "{}", wanted[ALL]);
    assert!(by_template("kind: X\n").is_err());
}

#[test]
fn the_version_of_the_chart_is_that_of_the_programs() {
    let text = fs::read_to_string(folder().join("Chart.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(chart["version"], images::VERSION);
    assert_eq!(chart["appVersion"], images::VERSION);
}

/// A row of `promises.yaml`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    values: String,
    object: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    wanted: Value,
}

#[test]
fn each_value_does_what_it_says() {
    let rows: Vec<Promise> = serde_saphyr::from_str(include_str!("promises.yaml")).unwrap();
    assert!(rows.len() > 60);
    let mut before: Option<(String, Vec<Value>)> = None;
    for row in rows {
        let objects = match before.take() {
            Some((values, objects)) if values == row.values => objects,
            _ => match rendered(&row.values) {
                Some(objects) => objects,
                None => return,
            },
        };
        let (deployment, template) = match row.object.as_str() {
            PACKAGES => (IN_CSV, format!("{IN_CSV}/template")),
            _ => ("/spec", "/spec/template".to_owned()),
        };
        let path = row.path.replace("DEPLOYMENT", deployment);
        let path = path.replace("CONTAINER", &format!("{template}/spec/containers/0"));
        let found = objects.iter().find(|it| name(it) == row.object);
        let found = found
            .and_then(|object| object.pointer(&path))
            .unwrap_or(&Value::Null);
        assert_eq!(*found, row.wanted, "{row:?}");
        before = Some((row.values, objects));
    }
}

/// Settings are made per program, and reach only its pods.
#[test]
fn settings_of_pods_reach_the_pods_of_their_program_alone() {
    let programs = [
        ("olm", OLM),
        ("catalog", CATALOG),
        ("package", PACKAGES),
        ("catalogd", CATALOGD),
        ("operatorController", OPERATOR_CONTROLLER),
    ];
    let settings = "nodeSelector: {pool: infra}\n  tolerations: [{key: infra, operator: Exists}]\n  \
                    affinity: {nodeAffinity: {}}\n  topologySpreadConstraints: [{maxSkew: 1}]\n  priorityClassName: high\n  \
                    resources: {limits: {memory: 1Gi}}\n  commandArgs: [--one, --two]\n  \
                    env: [{name: HTTPS_PROXY, value: infra}]\n  volumes: [{name: infra, emptyDir: {}}]\n  \
                    volumeMounts: [{name: infra, mountPath: /infra}]\n  podAnnotations: {team: infra}";
    for (key, program) in programs {
        let Some(objects) = rendered(&format!("v1: {{enabled: true}}\n{key}:\n  {settings}\n")) else {
            return;
        };
        let spec = &pod(&objects, program)["spec"];
        assert_eq!(spec["nodeSelector"]["pool"], "infra", "{key}");
        assert_eq!(spec["tolerations"][0]["key"], "infra", "{key}");
        assert_eq!(spec["affinity"]["nodeAffinity"], json!({}), "{key}");
        assert_eq!(
            spec["topologySpreadConstraints"],
            json!([{"maxSkew": 1}]),
            "{key}"
        );
        assert_eq!(spec["priorityClassName"], "high", "{key}");
        assert_eq!(
            spec["containers"][0]["resources"]["limits"]["memory"], "1Gi",
            "{key}"
        );
        let of_container = |list: &str| {
            let list = spec["containers"][0][list].as_array();
            list.and_then(|list| list.last()).cloned().unwrap_or_default()
        };
        assert_eq!(of_container("env")["name"], "HTTPS_PROXY", "{key}");
        assert_eq!(of_container("volumeMounts")["mountPath"], "/infra", "{key}");
        let volumes = spec["volumes"].as_array().unwrap();
        assert_eq!(
            volumes.iter().filter(|it| it["name"] == "infra").count(),
            1,
            "{key}"
        );
        assert_eq!(
            pod(&objects, program)["metadata"]["annotations"]["team"],
            "infra",
            "{key}"
        );
        let line = &spec["containers"][0][if program == PACKAGES { "command" } else { "args" }];
        let line = line.as_array().unwrap();
        assert_eq!(line[line.len() - 2..], [json!("--one"), json!("--two")], "{key}");
        for (_, other) in programs.iter().filter(|(_, other)| *other != program) {
            assert!(
                !pod(&objects, other).to_string().contains("infra"),
                "{key}: {other}"
            );
        }
    }
    let Some(objects) = rendered(
        "v1: {enabled: true}\ndebug: true\nlog: info\nimage: {pullSecrets: [{name: reg}]}\nolm: {commandArgs: --more}\n",
    ) else {
        return;
    };
    for (_, program) in programs {
        let spec = &pod(&objects, program)["spec"];
        let container = spec["containers"][0].to_string();
        assert!(container.contains("\"--debug\""), "{program}");
        assert!(
            container.contains(r#"{"name":"OLM_LOG","value":"info"}"#),
            "{program}"
        );
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "reg"}]), "{program}");
        assert_eq!(container.contains("--more"), program == OLM);
    }
}

/// Values change neither names nor permissions of objects, except for the names of ClusterOperators, because readers expect them
/// on every cluster.
#[test]
fn rights_and_names_do_not_depend_on_values() {
    let Some(usual) = rendered("{}") else { return };
    let Some(other) = rendered(
        "namespace: elsewhere\noperator_namespace: ops\ncatalog_namespace: catalogs\ndebug: true\nimage: {registry: r.example.com}\n\
         catalog: {replicaCount: 0}\nolm: {replicaCount: 0}\npackage: {replicaCount: 5, service: {internalPort: 7443}}\n",
    ) else {
        return;
    };
    let renamed = |name: String| match name.as_str() {
        "Namespace/olm" => "Namespace/elsewhere".to_owned(),
        "Namespace/operators" => "Namespace/ops".to_owned(),
        _ => name,
    };
    assert_eq!(
        names(&usual).into_iter().map(renamed).collect::<BTreeSet<_>>(),
        names(&other)
    );
    let mut roles = 0;
    for object in usual.iter().filter(|object| object["kind"] == "ClusterRole") {
        roles += 1;
        assert_eq!(
            object["rules"],
            find(&other, &name(object))["rules"],
            "{}",
            name(object)
        );
    }
    assert_eq!(roles, 5);
    for object in &other {
        let namespace = &object["metadata"]["namespace"];
        assert!(
            namespace.is_null()
                || ["elsewhere", "ops", "catalogs"]
                    .iter()
                    .any(|known| namespace == known),
            "{}",
            name(object)
        );
        for subject in object["subjects"].as_array().into_iter().flatten() {
            assert_eq!(subject["namespace"], "elsewhere", "{}", name(object));
        }
        assert!(!object.to_string().contains("olm.local"), "{}", name(object));
    }
    assert_eq!(
        find(&other, "OperatorGroup/olm-operators")["spec"]["targetNamespaces"],
        json!(["elsewhere"])
    );
}

/// The namespace enforces the profile and rejects other pods.
#[test]
fn pods_keep_to_the_restricted_profile() {
    let Some(objects) = rendered("v1: {enabled: true}") else {
        return;
    };
    for program in [OLM, CATALOG, PACKAGES, CATALOGD, OPERATOR_CONTROLLER] {
        let spec = &pod(&objects, program)["spec"];
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{program}");
        assert_eq!(
            spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault",
            "{program}"
        );
        let container = &spec["containers"][0];
        assert_eq!(
            container["securityContext"],
            json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}}),
            "{program}"
        );
        assert!(
            container["resources"]["requests"]["memory"].is_string(),
            "{program}"
        );
    }
    assert_eq!(
        find(&objects, "Namespace/olm")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
        "restricted"
    );
}

/// The namespace of the release exists before the release, and helm cannot adopt it.
#[test]
fn the_namespace_of_the_release_itself_is_left_out() {
    for (release, left) in [("olm", "Namespace/operators"), ("operators", "Namespace/olm")] {
        let Some(objects) = try_render("{}", &["--namespace", release]) else {
            return;
        };
        let names = names(&objects.unwrap());
        assert!(
            names.contains(left) && !names.contains(&format!("Namespace/{release}")),
            "{names:?}"
        );
    }
}

/// Selectors match existing pods by label and ports by name.
#[test]
fn met_001_policies_and_services_select_the_programs_by_the_labels_and_ports_they_have() {
    let Some(objects) = rendered("monitoring: {enabled: true}") else {
        return;
    };
    for program in [OLM, CATALOG, PACKAGES] {
        let template = pod(&objects, program);
        let app = template["metadata"]["labels"]["app"].as_str().unwrap();
        let policy = &find(&objects, &format!("NetworkPolicy/{app}"))["spec"];
        assert_eq!(policy["podSelector"]["matchLabels"], json!({"app": app}));
        assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
        let let_in = &policy["ingress"][0]["ports"][0]["port"];
        let port = &template["spec"]["containers"][0]["ports"][0];
        assert!(
            *let_in == port["name"] || *let_in == port["containerPort"],
            "{app}: {let_in}"
        );
        if program != PACKAGES {
            let service = find(&objects, &format!("Service/{app}-metrics"));
            assert_eq!(service["spec"]["ports"][0]["targetPort"], port["name"]);
            assert_eq!(service["spec"]["ports"][0]["port"], port["containerPort"]);
            let monitor = &find(&objects, &format!("ServiceMonitor/{app}"))["spec"];
            assert_eq!(monitor["selector"]["matchLabels"], service["metadata"]["labels"]);
            assert_eq!(
                monitor["endpoints"][0]["port"],
                service["spec"]["ports"][0]["name"]
            );
        }
    }
    assert_eq!(
        find(&objects, "NetworkPolicy/default-deny-all-traffic")["spec"],
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
    );
}

/// Operators of users depend on groups, settings and namespaces. package-server is deleted before the operator that removes its
/// APIService.
#[test]
fn an_uninstall_leaves_what_users_depend_on() {
    let Some(helm) = helm() else { return };
    let Some(objects) = rendered("{}") else { return };
    for object in &objects {
        let kind = object["kind"].as_str().unwrap();
        let stays = object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        let is_users = ["Namespace", "OperatorGroup", "OLMConfig"].contains(&kind);
        assert_eq!(stays, is_users, "{}", name(object));
        assert_ne!(kind, "CustomResourceDefinition");
        assert!(object["metadata"]["annotations"]["helm.sh/hook"].is_null());
    }
    let mut command = Command::new(helm);
    command.args(["template", RELEASE]).arg(folder());
    command.args([
        "--kube-version",
        KUBERNETES,
        "--show-only",
        "templates/90-uninstall.yaml",
    ]);
    let hook = process::run(&mut command).unwrap();
    let hook: Value = serde_saphyr::from_str(&hook).unwrap();
    assert_eq!(name(&hook), PACKAGES);
    assert_eq!(
        hook["metadata"]["namespace"],
        find(&objects, PACKAGES)["metadata"]["namespace"]
    );
    assert_eq!(
        hook["metadata"]["annotations"],
        json!({"helm.sh/hook": "pre-delete", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"})
    );
    // A rendering with hooks also contains the hook's empty package-server, which replaces the real one if applied.
    // `uninstallHook=false` omits it.
    for (value, times) in [("true", 2), ("false", 1)] {
        let mut command = Command::new(helm);
        command.args(["template", RELEASE]).arg(folder());
        command.args(["--kube-version", KUBERNETES, "--set"]);
        command.arg(format!("uninstallHook={value}"));
        let text = process::run(&mut command).unwrap();
        let objects = serde_saphyr::from_multiple::<Value>(&text).unwrap();
        let objects = objects.iter().filter(|object| !object.is_null());
        let found = objects.filter(|object| name(object) == PACKAGES).count();
        assert_eq!(found, times, "uninstallHook={value}");
    }
}

#[test]
fn every_object_fits_the_annotation_of_kubectl_apply() {
    let text = fs::read_to_string(workspace::root().join(ALL)).unwrap();
    let objects = serde_saphyr::from_multiple::<Value>(&text).unwrap();
    let mut definitions = 0;
    for object in objects.iter().filter(|object| !object.is_null()) {
        definitions += usize::from(object["kind"] == "CustomResourceDefinition");
        let size = object.to_string().len();
        assert!(size < ANNOTATIONS / 2, "{}: {size} bytes", name(object));
    }
    assert_eq!(definitions, 8);
}

/// Collects the dotted names of all values, without the fields of maps that users fill.
fn leaves(value: &Value, start: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields)
            if !fields.is_empty()
                && ![
                    "nodeSelector",
                    "affinity",
                    "resources",
                    "_psa",
                    "metrics",
                    "dns",
                    "securityContext",
                    "dashboardLabels",
                    "podAnnotations",
                    "namespaceLabels",
                ]
                .iter()
                .any(|end| start.ends_with(end)) =>
        {
            for (key, value) in fields {
                let dot = if start.is_empty() { "" } else { "." };
                leaves(value, &format!("{start}{dot}{key}"), found);
            }
        }
        _ => {
            found.insert(start.to_owned());
        }
    }
}

/// The reference has one row for each value, and no other rows. `olm.x`, `catalog.x`, `package.x`, `catalogd.x` and
/// `operatorController.x` may share the row `PROGRAM.x`.
#[test]
fn each_value_is_in_the_reference() {
    let text = fs::read_to_string(folder().join("values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let mut wanted = BTreeSet::new();
    leaves(&values, "", &mut wanted);
    let page = fs::read_to_string(workspace::root().join("docs/reference/chart-values.md")).unwrap();
    let mut told = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.split('|').nth(1).unwrap();
        for name in cell.split('`').skip(1).step_by(2) {
            match name.strip_prefix("PROGRAM.") {
                Some(rest) => {
                    let programs = ["olm", "catalog", "package", "catalogd", "operatorController"];
                    told.extend(programs.map(|program| format!("{program}.{rest}")));
                }
                None => {
                    told.insert(name.to_owned());
                }
            }
        }
    }
    assert_eq!(told, wanted);
}
