//! Checks whether the pods of a bundle can run on the test's node, with stand-ins for their images.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::bundle::{Bundle, containers, list, words};

/// Volumes that need only the node and the API server. A volume without source is an empty folder.
const PLAIN_VOLUMES: [&str; 3] = ["emptyDir", "downwardAPI", "projected"];
/// Maximum CPU request of a container, in milli-CPUs: all operators of the test share the node.
const MAX_MILLI_CPUS: u64 = 300;

/// Folders in which OLM mounts certificates for operators that the API server calls, replacing the author's mounts there.
const CERTIFICATES: [&str; 2] = [
    "/apiserver.local.config/certificates",
    "/tmp/k8s-webhook-server/serving-certs",
];

/// Returns the reasons why the pods of the bundle fit no node.
pub fn misplaced(bundle: &Bundle, node: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, spec) in bundle.deployments() {
        let pod = &spec["template"]["spec"];
        let mut tell = |text: String| found.push(format!("Deployment {name} {text}"));
        for (key, value) in pod["nodeSelector"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            if node.get(key).is_none_or(|found| found != value) {
                tell(format!("wants a node with {key}={value}"));
            }
        }
        if !affinity_allows(&pod["affinity"], node) {
            tell("has an affinity for other nodes".to_owned());
        }
    }
    found
}

/// Returns the reasons that prevent stand-ins for the bundle's pods from running on a node that they fit.
pub fn obstacles(bundle: &Bundle) -> Vec<String> {
    let accounts = accounts(bundle);
    let mut found = Vec::new();
    for (name, spec) in bundle.deployments() {
        let pod = &spec["template"]["spec"];
        let mut tell = |text: String| found.push(format!("Deployment {name} {text}"));
        if pod["hostNetwork"] == true {
            tell("wants the node's network".to_owned());
        }
        if let Some(account) = pod["serviceAccountName"]
            .as_str()
            .filter(|name| !accounts.contains(*name))
        {
            tell(format!("runs as ServiceAccount {account}, which nobody makes"));
        }
        for volume in list(&pod["volumes"]) {
            let mut fields = volume.as_object().into_iter().flatten();
            let source = fields.find(|(_, source)| source.is_object());
            if let Some((kind, source)) = source
                && !PLAIN_VOLUMES.contains(&kind.as_str())
                && source["optional"] != true
                && !is_brought(bundle, source)
                && is_mounted(bundle, name, spec, &volume["name"])
            {
                tell(format!("has a volume of type {kind}"));
            }
        }
        for (_, container) in containers(spec) {
            container_obstacles(container).into_iter().for_each(&mut tell);
        }
    }
    found
}

/// Returns the ServiceAccounts that exist once the bundle is installed.
fn accounts(bundle: &Bundle) -> BTreeSet<&str> {
    let permissions = ["permissions", "clusterPermissions"]
        .into_iter()
        .flat_map(|field| bundle.permissions(field));
    let own = bundle
        .objects
        .iter()
        .filter(|object| object["kind"] == "ServiceAccount");
    permissions
        .filter_map(|permission| permission["serviceAccountName"].as_str())
        .chain(own.filter_map(|object| object["metadata"]["name"].as_str()))
        .chain(["default", ""])
        .collect()
}

/// Returns true if the bundle contains the Secret or ConfigMap of a volume.
fn is_brought(bundle: &Bundle, source: &Value) -> bool {
    let brings = |kind: &str, name: &Value| {
        let mut objects = bundle.objects.iter();
        name.is_string()
            && objects.any(|object| object["kind"] == kind && object["metadata"]["name"] == *name)
    };
    brings("Secret", &source["secretName"]) || brings("ConfigMap", &source["name"])
}

/// Returns true if a container mounts the volume and OLM does not replace the mount. kubelet requires only such volumes.
fn is_mounted(bundle: &Bundle, deployment: &str, spec: &Value, volume: &Value) -> bool {
    let definitions = &bundle.csv["spec"];
    let callers = [
        &definitions["webhookdefinitions"],
        &definitions["apiservicedefinitions"]["owned"],
    ];
    let is_called = callers
        .into_iter()
        .flat_map(list)
        .any(|caller| caller["deploymentName"] == deployment);
    containers(spec).any(|(is_first, container)| {
        list(&container["volumeMounts"]).iter().any(|mount| {
            let path = mount["mountPath"].as_str().unwrap_or_default();
            mount["name"] == *volume && (is_first || !is_called || !CERTIFICATES.contains(&path))
        })
    })
}

fn container_obstacles(container: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[probe];
        if probe["httpGet"]["scheme"] == "HTTPS" || probe.get("grpc").is_some() {
            found.push("has a probe that is neither plain HTTP nor TCP nor a command".to_owned());
        }
        if probe["httpGet"].get("host").is_some() || probe["tcpSocket"].get("host").is_some() {
            found.push("has a probe of another host".to_owned());
        }
    }
    for variable in list(&container["env"]) {
        for source in ["secretKeyRef", "configMapKeyRef"] {
            let source = &variable["valueFrom"][source];
            if source.is_object() && source["optional"] != true {
                found.push(format!("takes {} from an object nobody makes", variable["name"]));
            }
        }
    }
    found.extend(
        list(&container["envFrom"])
            .iter()
            .map(|_| "takes its environment from an object".to_owned()),
    );
    let asked = &container["resources"]["requests"]["cpu"];
    if milli_cpus(asked).is_none_or(|asked| asked > MAX_MILLI_CPUS) {
        found.push(format!("asks for {asked} CPUs"));
    }
    found
}

/// Returns a CPU quantity in thousandths; `None` if it has an unusual format.
fn milli_cpus(value: &Value) -> Option<u64> {
    match value {
        Value::Null => Some(0),
        Value::Number(number) => number.as_u64().map(|cpus| cpus * 1000),
        Value::String(text) => match text.strip_suffix('m') {
            Some(milli) => milli.parse().ok(),
            None => text.parse::<u64>().ok().map(|cpus| cpus * 1000),
        },
        _ => None,
    }
}

/// Returns true if the required part of a node affinity admits the node.
fn affinity_allows(affinity: &Value, node: &BTreeMap<String, String>) -> bool {
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = list(&required["nodeSelectorTerms"]);
    let holds = |expression: &Value| {
        let value = expression["key"].as_str().and_then(|key| node.get(key));
        let among = || value.is_some_and(|value| words(&expression["values"]).contains(value));
        match expression["operator"].as_str() {
            Some("In") => among(),
            Some("NotIn") => !among(),
            Some("Exists") => value.is_some(),
            Some("DoesNotExist") => value.is_none(),
            _ => false,
        }
    };
    let term_holds = |term: &Value| {
        list(&term["matchFields"]).is_empty() && list(&term["matchExpressions"]).iter().all(holds)
    };
    required.is_null() || terms.iter().any(term_holds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(pod: &Value, expected: &[&str]) {
        let bundle = Bundle::new(vec![json!({
            "kind": "ClusterServiceVersion", "metadata": {"name": "a"},
            "spec": {"install": {"spec": {
                "clusterPermissions": [{"serviceAccountName": "manager", "rules": []}],
                "deployments": [{"name": "d", "spec": {"template": {"spec": pod}}}]}}}
        })])
        .unwrap();
        let node = BTreeMap::from([("kubernetes.io/arch".to_owned(), "amd64".to_owned())]);
        assert_eq!([misplaced(&bundle, &node), obstacles(&bundle)].concat(), expected);
    }

    fn with_arch(operator: &str, values: &[&str]) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": operator, "values": values}]}]}}}})
    }

    #[test]
    fn nodes_are_matched_by_their_labels() {
        check(&json!({"nodeSelector": {"kubernetes.io/arch": "amd64"}}), &[]);
        check(
            &json!({"nodeSelector": {"x": ""}}),
            &["Deployment d wants a node with x="],
        );
        check(&with_arch("In", &["s390x", "amd64"]), &[]);
        check(
            &with_arch("NotIn", &["amd64"]),
            &["Deployment d has an affinity for other nodes"],
        );
    }

    #[test]
    fn volumes_must_be_there_by_themselves() {
        let mounts: Vec<Value> = ["a", "b", "c", "d", "e"]
            .iter()
            .map(|name| json!({"name": name, "mountPath": format!("/{name}")}))
            .collect();
        let volumes = json!({
            "volumes": [{"name": "a"}, {"name": "b", "emptyDir": {}}, {"name": "c", "secret": {"optional": true}},
                {"name": "d", "secret": {"secretName": "x"}}, {"name": "e", "secret": null, "secretName": "x"},
                {"name": "nobody's", "secret": {"secretName": "x"}}],
            "containers": [{"volumeMounts": mounts}]
        });
        check(&volumes, &["Deployment d has a volume of type secret"]);
    }

    #[test]
    fn certificates_are_olms_affair_and_what_the_bundle_brings_is_there() {
        let pod = json!({
            "volumes": [{"name": "cert", "secret": {"secretName": "x"}}, {"name": "own", "configMap": {"name": "brought"}}],
            "containers": [{"volumeMounts": [{"name": "cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"},
                {"name": "own", "mountPath": "/own"}]}]
        });
        let bundle = |called: &str| {
            let csv = json!({"kind": "ClusterServiceVersion", "metadata": {"name": "a"}, "spec": {
                "webhookdefinitions": [{"deploymentName": called}],
                "install": {"spec": {"deployments": [{"name": "d", "spec": {"template": {"spec": pod}}}]}}}});
            let object = json!({"kind": "ConfigMap", "metadata": {"name": "brought"}});
            Bundle::new(vec![csv, object]).unwrap()
        };
        assert_eq!(obstacles(&bundle("d")), Vec::<String>::new());
        assert_eq!(
            obstacles(&bundle("other")),
            ["Deployment d has a volume of type secret"]
        );
    }

    #[test]
    fn accounts_must_be_made_by_somebody() {
        check(&json!({"serviceAccountName": "manager"}), &[]);
        check(
            &json!({"serviceAccountName": "other"}),
            &["Deployment d runs as ServiceAccount other, which nobody makes"],
        );
    }

    #[test]
    fn containers_must_be_such_as_a_stand_in_can_be() {
        let container = json!({"containers": [{
            "resources": {"requests": {"cpu": "1"}}, "livenessProbe": {"httpGet": {"scheme": "HTTPS", "port": 1}},
            "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "x"}}}]
        }]});
        check(
            &container,
            &[
                "Deployment d has a probe that is neither plain HTTP nor TCP nor a command",
                "Deployment d takes \"TOKEN\" from an object nobody makes",
                "Deployment d asks for \"1\" CPUs",
            ],
        );
        check(
            &json!({"containers": [{"resources": {"requests": {"cpu": "200m"}}}]}),
            &[],
        );
    }
}
