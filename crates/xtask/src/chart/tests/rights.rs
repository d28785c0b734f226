//! Tests of permissions that values grant.

use super::*;

const EDIT: &str = "ClusterRole/aggregate-olm-edit";

/// Built-in roles aggregate roles with such a label. Users without a built-in role get it from an administrator.
#[test]
fn sub_010_those_create_subscriptions_whom_the_values_name() {
    let to = |role: &str| format!("rbac.authorization.k8s.io/aggregate-to-{role}");
    for (values, labels) in [
        ("{}", json!({to("admin"): "true", to("edit"): "true"})),
        ("subscribers: [admin]", json!({to("admin"): "true"})),
        ("subscribers: [edit]", json!({to("edit"): "true"})),
        ("subscribers: []", Value::Null),
    ] {
        let Some(objects) = rendered(values) else { return };
        let role = find(&objects, EDIT);
        assert_eq!(role["metadata"]["labels"], labels, "{values}");
        assert_eq!(
            role["rules"][0],
            json!({
                "apiGroups": ["operators.coreos.com"],
                "resources": ["subscriptions"],
                "verbs": ["create", "update", "patch", "delete"],
            }),
            "{values}"
        );
        // No other role permits creating Subscriptions, and the chart binds nobody to this one.
        for object in &objects {
            let is_labelled = object["metadata"]["labels"]
                .to_string()
                .contains("/aggregate-to-");
            if is_labelled && name(object) != EDIT {
                assert!(!object["rules"].to_string().contains("create"), "{object}");
            }
            assert_ne!(object["roleRef"]["name"], "aggregate-olm-edit", "{object}");
        }
    }
}

/// Without the report, OpenShift would permit an update that breaks an operator.
#[test]
fn ocp_005_the_operators_may_write_the_configured_reports() {
    for (values, of_olm, of_catalog) in [
        (
            "releaseVersion: '4.20'",
            [
                "operator-lifecycle-manager",
                "operator-lifecycle-manager-packageserver",
            ],
            "operator-lifecycle-manager-catalog",
        ),
        (
            "{releaseVersion: '4.20', writeStatusName: o, writePackageServerStatusName: p, writeStatusNameCatalog: c}",
            ["o", "p"],
            "c",
        ),
    ] {
        let Some(objects) = rendered(values) else { return };
        let is_said = values.contains("writeStatusName");
        for (program, names, flags) in [
            (
                OLM,
                &of_olm[..],
                &["--writeStatusName=o", "--writePackageServerStatusName=p"][..],
            ),
            (
                CATALOG,
                std::slice::from_ref(&of_catalog),
                &["--writeStatusName=c"],
            ),
        ] {
            let app = program.trim_start_matches("Deployment/");
            let rules = find(&objects, &format!("ClusterRole/olm:{app}"))["rules"]
                .as_array()
                .unwrap();
            let of_reports: Vec<&Value> = rules
                .iter()
                .filter(|rule| rule["resources"].to_string().contains("clusteroperators"))
                .collect();
            let group = json!(["config.openshift.io"]);
            let (whole, status) = (json!(["clusteroperators"]), json!(["clusteroperators/status"]));
            assert_eq!(
                of_reports,
                [
                    &json!({"apiGroups": group, "resources": whole, "resourceNames": names, "verbs": ["get", "list", "watch"]}),
                    &json!({"apiGroups": group, "resources": whole, "verbs": ["create"]}),
                    &json!({"apiGroups": group, "resources": status, "resourceNames": names, "verbs": ["patch"]}),
                ],
                "{values} {app}"
            );
            let container = &pod(&objects, program)["spec"]["containers"][0];
            let release = json!({"name": "RELEASE_VERSION", "value": "4.20"});
            let env = container["env"].as_array().unwrap();
            assert!(env.contains(&release), "{values} {app}: {env:?}");
            let arguments = container["args"].as_array().unwrap();
            for flag in flags {
                assert_eq!(
                    arguments.contains(&json!(flag)),
                    is_said,
                    "{values} {app}: {flag}"
                );
            }
        }
    }
}
