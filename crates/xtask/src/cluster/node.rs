//! kubelet and kube-proxy: their configuration and command lines.

use serde_json::{Value, json};

use super::address::{Addresses, DNS_SERVICE, POD_NETWORK};
use super::config_file;
use super::control_plane::{kubeconfig, kubernetes};
use super::layout::Layout;
use super::processes::Program;

/// Writes both programs' configuration and the node's resolv.conf.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn configure(layout: &Layout) -> anyhow::Result<()> {
    for (file, content) in [
        ("kubelet.json", kubelet_config(layout)),
        ("kube-proxy.json", proxy_config(layout)),
    ] {
        let path = layout.config().join(file);
        config_file::write(&path, &serde_json::to_string_pretty(&content)?)?;
    }
    // For pods with dnsPolicy Default: the machine's own servers cannot be reached from here.
    config_file::write(
        &layout.config().join("resolv.conf"),
        &format!("nameserver {DNS_SERVICE}\n"),
    )
}

/// kubelet; containerd must be answering before it starts.
pub(super) fn kubelet(layout: &Layout, addresses: Addresses) -> Program {
    kubernetes(
        "kubelet",
        [
            format!("--config={}", layout.config().join("kubelet.json").display()),
            format!("--kubeconfig={}", kubeconfig(layout, "kubelet").display()),
            format!("--root-dir={}", layout.kubelet().display()),
            format!("--hostname-override={}", layout.name()),
            format!("--node-ip={}", addresses.node()),
        ],
    )
}

/// kube-proxy in iptables mode.
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
        // Machines without systemd as init have only this driver; pods live under a cgroup of the cluster's own, or the
        // kubelets of two clusters would clear away each other's pods.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", layout.key()),
        "failCgroupV1": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        // The machine is shared: how full its disk is must decide neither about pods nor about images.
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
        // A program that a test kills is to start again at once, however often; five minutes of back-off would be tested
        // instead of the program.
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
        // These settings are the machine's, not the namespace's: leave them alone.
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
