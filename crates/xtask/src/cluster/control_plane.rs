//! Configuration and command lines of etcd, kube-apiserver, kube-controller-manager and kube-scheduler.

use std::fs;

use serde_json::json;

use super::address::{API_SERVER, NODE, SERVICE_NETWORK};
use super::layout::{Layout, kubectl_binary, kubernetes_binary};
use super::processes::Program;
use super::{certs, config_file};

/// Writes the kubeconfigs and the audit policy.
///
/// # Errors
/// A file cannot be written.
pub(super) fn configure(layout: &Layout) -> anyhow::Result<()> {
    for identity in ["admin", "controller-manager", "scheduler", "proxy", "kubelet"] {
        let content = certs::kubeconfig(&layout.pki(), layout.name(), identity, API_SERVER);
        let path = if identity == "admin" {
            layout.kubeconfig()
        } else {
            kubeconfig(layout, identity)
        };
        config_file::write_with_mode(&path, &format!("{content:#}"), 0o600)?;
    }
    fs::create_dir_all(layout.audit_log().with_file_name(""))?;
    // With RequestReceived, every request would be logged twice.
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "Metadata" }],
    });
    config_file::write_json(&layout.config().join("audit-policy.json"), &policy)
}

/// Returns the path of the kubeconfig of one of the cluster's programs.
pub(super) fn kubeconfig(layout: &Layout, identity: &str) -> std::path::PathBuf {
    layout.config().join(format!("{identity}.kubeconfig"))
}

/// Returns etcd, listening only on the loopback address of the namespace.
pub(super) fn etcd(layout: &Layout) -> Program {
    kubernetes(
        "etcd",
        [
            format!("--data-dir={}", layout.state().join("etcd").display()),
            format!("--name={}", layout.name()),
            "--listen-client-urls=http://127.0.0.1:2379".into(),
            "--advertise-client-urls=http://127.0.0.1:2379".into(),
            "--listen-peer-urls=http://127.0.0.1:2380".into(),
            "--initial-advertise-peer-urls=http://127.0.0.1:2380".into(),
            format!("--initial-cluster={}=http://127.0.0.1:2380", layout.name()),
            // A test cluster need not survive a power failure.
            "--unsafe-no-fsync".into(),
            "--quota-backend-bytes=8589934592".into(),
            "--auto-compaction-mode=periodic".into(),
            "--auto-compaction-retention=10m".into(),
            "--log-level=warn".into(),
        ],
    )
}

/// Returns kube-apiserver with its default admission plugins, RBAC and an audit log.
pub(super) fn api_server(layout: &Layout) -> Program {
    let pki = layout.pki();
    let file = |name: &str| pki.join(name).display().to_string();
    kubernetes(
        "kube-apiserver",
        [
            "--etcd-servers=http://127.0.0.1:2379".into(),
            format!("--advertise-address={NODE}"),
            "--secure-port=6443".into(),
            format!("--service-cluster-ip-range={SERVICE_NETWORK}"),
            "--authorization-mode=Node,RBAC".into(),
            "--allow-privileged=true".into(),
            // One test changes applied objects by such a policy, which is beta and disabled by default.
            "--feature-gates=MutatingAdmissionPolicy=true".into(),
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true".into(),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            format!("--kubelet-certificate-authority={}", file("ca.crt")),
            format!(
                "--kubelet-client-certificate={}",
                file("apiserver-kubelet-client.crt")
            ),
            format!("--kubelet-client-key={}", file("apiserver-kubelet-client.key")),
            // Host names would require a DNS server, which does not exist here.
            "--kubelet-preferred-address-types=InternalIP".into(),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
            format!("--service-account-key-file={}", file("service-accounts.pub")),
            format!(
                "--service-account-signing-key-file={}",
                file("service-accounts.key")
            ),
            format!("--requestheader-client-ca-file={}", file("front-proxy-ca.crt")),
            "--requestheader-allowed-names=front-proxy-client".into(),
            "--requestheader-username-headers=X-Remote-User".into(),
            "--requestheader-group-headers=X-Remote-Group".into(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
            format!("--proxy-client-cert-file={}", file("front-proxy-client.crt")),
            format!("--proxy-client-key-file={}", file("front-proxy-client.key")),
            format!(
                "--audit-policy-file={}",
                layout.config().join("audit-policy.json").display()
            ),
            format!("--audit-log-path={}", layout.audit_log().display()),
            // In megabytes. There must be no rotation, because readers would lose their position.
            "--audit-log-maxsize=1000000".into(),
        ],
    )
}

/// Returns kube-controller-manager, with each controller under its own ServiceAccount as in kubeadm clusters.
pub(super) fn controller_manager(layout: &Layout) -> Program {
    let pki = layout.pki();
    let file = |name: &str| pki.join(name).display().to_string();
    kubernetes(
        "kube-controller-manager",
        [
            format!(
                "--kubeconfig={}",
                kubeconfig(layout, "controller-manager").display()
            ),
            "--leader-elect=false".into(),
            "--use-service-account-credentials=true".into(),
            format!("--root-ca-file={}", file("ca.crt")),
            format!(
                "--service-account-private-key-file={}",
                file("service-accounts.key")
            ),
            format!("--cluster-signing-cert-file={}", file("ca.crt")),
            format!("--cluster-signing-key-file={}", file("ca.key")),
            // The defaults (20, 30) would limit every measurement at scale.
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
        ],
    )
}

pub(super) fn scheduler(layout: &Layout) -> Program {
    kubernetes(
        "kube-scheduler",
        [
            format!("--kubeconfig={}", kubeconfig(layout, "scheduler").display()),
            "--leader-elect=false".into(),
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
        ],
    )
}

/// Name of the `kubectl proxy` of a cluster.
pub(super) const PROXY: &str = "kubectl-proxy";

/// Returns the program that answers plain HTTP on the cluster's socket in the administrator's name.
pub(super) fn proxy(layout: &Layout) -> Program {
    Program::new(
        PROXY,
        [
            kubectl_binary().display().to_string(),
            "proxy".to_owned(),
            format!("--kubeconfig={}", layout.kubeconfig().display()),
            format!("--unix-socket={}", layout.api_socket().display()),
        ],
    )
}

/// Returns one of the programs in the Kubernetes binary.
pub(super) fn kubernetes(name: &'static str, arguments: impl IntoIterator<Item = String>) -> Program {
    let mut command = vec![kubernetes_binary().display().to_string(), name.to_owned()];
    command.extend(arguments);
    Program { name, command }
}
