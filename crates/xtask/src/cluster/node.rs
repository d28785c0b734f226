//! Configuration and command lines of kubelet and kube-proxy.

use serde_json::{Value, json};

use super::address::{DNS_SERVICE, NODE, POD_NETWORK};
use super::config_file;
use super::control_plane::{kubeconfig, kubernetes};
use super::layout::Layout;
use super::processes::Program;

/// Writes the configuration of both programs, and the node's resolv.conf.
///
/// # Errors
/// A file cannot be written.
pub(super) fn configure(layout: &Layout) -> anyhow::Result<()> {
    for (file, content) in [
        ("kubelet.json", kubelet_config(layout)),
        ("kube-proxy.json", proxy_config(layout)),
    ] {
        config_file::write_json(&layout.config().join(file), &content)?;
    }
    // Used by pods with dnsPolicy Default, because the machine's own servers are unreachable.
    config_file::write(
        &layout.config().join("resolv.conf"),
        &format!("nameserver {DNS_SERVICE}\n"),
    )
}

/// Returns kubelet; it requires a running containerd.
pub(super) fn kubelet(layout: &Layout) -> Program {
    kubernetes(
        "kubelet",
        [
            format!("--config={}", layout.config().join("kubelet.json").display()),
            format!("--kubeconfig={}", kubeconfig(layout, "kubelet").display()),
            format!("--root-dir={}", layout.kubelet().display()),
            format!("--hostname-override={}", layout.name()),
            format!("--node-ip={NODE}"),
        ],
    )
}

/// Returns kube-proxy in iptables mode.
pub(super) fn proxy(layout: &Layout) -> Program {
    kubernetes(
        "kube-proxy",
        [
            format!("--config={}", layout.config().join("kube-proxy.json").display()),
            format!("--hostname-override={}", layout.name()),
        ],
    )
}

fn kubelet_config(layout: &Layout) -> Value {
    let pki = layout.pki();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{}", layout.containerd_socket().display()),
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": pki.join("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": pki.join("kubelet-server.crt"),
        "tlsPrivateKeyFile": pki.join("kubelet-server.key"),
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": layout.config().join("resolv.conf"),
        // This is the only driver without systemd as init. Pods have a cgroup of their cluster, because otherwise two kubelets
        // would remove each other's pods.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", layout.key()),
        "failCgroupV1": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        // The machine is shared, so its disk usage must not evict pods or images.
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "podLogsDir": layout.state().join("pod-logs"),
        "volumePluginDir": layout.state().join("volume-plugins"),
        "maxPods": 1000,
        "serializeImagePulls": false,
        "registryPullQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        // A program that a test kills must restart at once, any number of times. With a back-off of five minutes, tests would
        // measure the back-off.
        "featureGates": { "KubeletCrashLoopBackOffMax": true },
        "crashLoopBackOff": { "maxContainerRestartPeriod": "1s" },
    })
}

fn proxy_config(layout: &Layout) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": POD_NETWORK,
        "clientConnection": { "kubeconfig": kubeconfig(layout, "proxy") },
        // These settings affect the whole machine and must not be changed.
        "conntrack": { "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
        "iptables": { "minSyncPeriod": "100ms" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_kubelets_share_no_folder_cgroup_or_socket() {
        let of = |name: &str| kubelet_config(&Layout::new(name).unwrap());
        let (one, two) = (of("one"), of("two"));
        for field in [
            "containerRuntimeEndpoint",
            "cgroupRoot",
            "podLogsDir",
            "volumePluginDir",
            "resolvConf",
        ] {
            assert!(one[field].is_string(), "{field}");
            assert_ne!(one[field], two[field], "{field}");
        }
    }

    #[test]
    fn the_restart_limit_comes_with_the_feature_gate_it_needs() {
        let config = kubelet_config(&Layout::new("one").unwrap());
        assert_eq!(config["crashLoopBackOff"]["maxContainerRestartPeriod"], "1s");
        assert_eq!(config["featureGates"]["KubeletCrashLoopBackOffMax"], true);
    }
}
