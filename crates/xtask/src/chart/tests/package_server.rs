//! Tests of `package-server` as a plain Deployment, which must equal the one that OLM creates from its ClusterServiceVersion.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

const PLAIN: &str = "Deployment/packageserver";
const API: &str = "APIService/v1.packages.operators.coreos.com";
const CERTIFICATE: &str = "Secret/packageserver-serving-cert";
/// Path from which the program reads its serving certificate, and at which OLM mounts it.
const MOUNTED_AT: &str = "/apiserver.local.config/certificates";

fn plain(more: &str) -> Option<Vec<Value>> {
    rendered(&format!("package: {{installedAs: Deployment{more}}}"))
}

#[test]
fn a_plain_package_server_has_the_pods_that_olm_would_give_it() {
    let (Some(by_olm), Some(plain)) = (rendered("{}"), plain("")) else {
        return;
    };
    let csv = find(&by_olm, PACKAGES).pointer(IN_CSV).unwrap();
    let mut spec = find(&plain, PLAIN)["spec"].clone();
    let pod = spec["template"]["spec"].as_object_mut().unwrap();
    let volumes = pod.remove("volumes").unwrap();
    let container = pod["containers"][0].as_object_mut().unwrap();
    let mounts = container.remove("volumeMounts").unwrap();
    assert_eq!(spec, *csv);
    assert_eq!(mounts[0]["mountPath"], MOUNTED_AT);
    assert_eq!(
        volumes[0]["secret"],
        json!({"secretName": "packageserver-serving-cert",
            "items": [{"key": "tls.crt", "path": "apiserver.crt"}, {"key": "tls.key", "path": "apiserver.key"}]})
    );
    let without = |objects: &[Value], kinds: &[&str]| -> BTreeSet<String> {
        let names = names(objects).into_iter();
        names
            .filter(|name| !kinds.iter().any(|kind| name.starts_with(kind)))
            .collect()
    };
    let more = [
        PLAIN,
        "Service/",
        "RoleBinding/olm:packageserver",
        "Secret/",
        "APIService/",
    ];
    assert_eq!(without(&plain, &more), without(&by_olm, &[PACKAGES]));
}

#[test]
fn a_plain_package_server_is_reached_and_trusted_by_the_api_server() {
    let Some(objects) = plain(", service: {internalPort: 6443}") else {
        return;
    };
    let api = &find(&objects, API)["spec"];
    let service = find(&objects, "Service/packageserver-service");
    assert_eq!(
        api["service"],
        json!({"name": "packageserver-service", "namespace": "olm", "port": 6443})
    );
    assert_eq!(api["insecureSkipTLSVerify"], Value::Null);
    assert_eq!(service["spec"]["ports"][0]["port"], 6443);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
    assert_eq!(
        service["spec"]["selector"],
        find(&objects, PLAIN)["spec"]["template"]["metadata"]["labels"]
    );
    let secret = find(&objects, CERTIFICATE);
    assert_eq!(api["caBundle"], secret["data"]["ca.crt"]);
    let decoded = |key: &str| {
        let text = secret["data"][key].as_str().unwrap();
        String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
    };
    for (key, wanted) in [
        ("ca.crt", "CERTIFICATE"),
        ("tls.crt", "CERTIFICATE"),
        ("tls.key", "PRIVATE KEY"),
    ] {
        assert!(decoded(key).contains(wanted), "{key}");
    }
    assert_ne!(decoded("ca.crt"), decoded("tls.crt"));
    let reader = find(&objects, "RoleBinding/olm:packageserver");
    assert_eq!(reader["metadata"]["namespace"], "kube-system");
    assert_eq!(
        reader["roleRef"]["name"],
        "extension-apiserver-authentication-reader"
    );
}

#[test]
fn a_certificate_of_the_users_own_is_served_with() {
    let bundle = "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n";
    let Some(objects) = plain(&format!(
        ", certificate: {{secretName: mine, caBundle: \"{bundle}\"}}"
    )) else {
        return;
    };
    assert!(!names(&objects).contains(CERTIFICATE));
    assert_eq!(
        find(&objects, API)["spec"]["caBundle"],
        STANDARD.encode(bundle.replace("\\n", "\n"))
    );
    let pod = &find(&objects, PLAIN)["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "mine");
}

#[test]
fn what_would_leave_the_api_server_without_trust_is_refused() {
    let together = "package.certificate: secretName and caBundle go together";
    for (values, wanted) in [
        ("{installedAs: Pod}", "at '/package/installedAs'"),
        (
            "{installedAs: Deployment, certificate: {secretName: mine}}",
            together,
        ),
        (
            "{installedAs: Deployment, certificate: {caBundle: '-----BEGIN CERTIFICATE-----'}}",
            together,
        ),
        (
            "{installedAs: Deployment, certificate: {secretName: a, caBundle: AAAA}}",
            "at '/package/certificate/caBundle'",
        ),
        (
            "{certificate: {secretName: mine, caBundle: '-----BEGIN CERTIFICATE-----'}}",
            "say package.installedAs: Deployment as well",
        ),
    ] {
        let Some(answer) = try_render(&format!("package: {values}"), &[]) else {
            return;
        };
        let error = format!("{:#}", answer.expect_err(values));
        assert!(error.contains(wanted), "{values}: {error}");
    }
}

/// The value may be the output of `openssl s_client -showcerts`. Text around the certificates, and a private key among them, must
/// not be published.
#[test]
fn only_the_certificates_of_a_bundle_are_used() {
    let one = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n");
    let key = "-----BEGIN PRIVATE KEY-----\nBBBB\n-----END PRIVATE KEY-----\n";
    let printed = format!(
        "CONNECTED(00000003)\n---\n 0 s:CN = a\n{}{key} 1 s:CN = b\n{}---\nServer certificate\n",
        one("AAAA"),
        one("CCCC")
    );
    let values = json!({
        "package": {"installedAs": "Deployment", "certificate": {"secretName": "mine", "caBundle": printed}},
        "monitoring": {"enabled": true},
        "tracing": {"endpoint": "https://collector", "caBundle": printed},
    });
    let Some(objects) = rendered(&values.to_string()) else {
        return;
    };
    let wanted = one("AAAA") + &one("CCCC");
    assert_eq!(find(&objects, API)["spec"]["caBundle"], STANDARD.encode(&wanted));
    for name in ["ConfigMap/packageserver-ca", "ConfigMap/collector-ca"] {
        assert_eq!(find(&objects, name)["data"]["ca.crt"], wanted, "{name}");
    }
}

/// Helm deletes it, and its APIService first. No finalizer has to be removed.
#[test]
fn a_plain_package_server_needs_no_hook_to_go() {
    let Some(helm) = helm() else { return };
    let mut command = Command::new(helm);
    command.args(["template", RELEASE]).arg(folder());
    command.args([
        "--kube-version",
        KUBERNETES,
        "--set",
        "package.installedAs=Deployment",
    ]);
    let all = process::run(&mut command).unwrap();
    assert!(!all.contains("helm.sh/hook"));
    assert!(all.contains("kind: APIService"));
}
