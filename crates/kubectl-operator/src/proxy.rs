//! Which connections go around the proxy of the environment, as Go's programs decide it, kubectl among them.

use std::net::IpAddr;

use http::Uri;
use ipnet::IpNet;
use kube::config::Kubeconfig;

/// Whether the kubeconfig itself names a proxy for the cluster of its context: that one is always taken.
pub(crate) fn is_named(kubeconfig: &Kubeconfig, context: Option<&str>) -> bool {
    let context = context.or(kubeconfig.current_context.as_deref());
    let of_context = kubeconfig
        .contexts
        .iter()
        .find(|named| Some(named.name.as_str()) == context)
        .and_then(|named| named.context.as_ref());
    let mut clusters = kubeconfig.clusters.iter();
    of_context
        .and_then(|context| clusters.find(|named| named.name == context.cluster))
        .and_then(|named| named.cluster.as_ref())
        .is_some_and(|cluster| cluster.proxy_url.as_deref().is_some_and(|url| !url.is_empty()))
}

/// Returns the value of `NO_PROXY`, or of `no_proxy` where that is unset or empty.
pub(crate) fn exceptions() -> String {
    let of = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    of("NO_PROXY").or_else(|| of("no_proxy")).unwrap_or_default()
}

/// Whether `server` is among the `exceptions`: names with their subdomains (only those after a dot), addresses, networks, each with or
/// without a port, or `*`. This machine always is.
pub(crate) fn goes_around(exceptions: &str, server: &Uri) -> bool {
    let Some(host) = server.host().map(|host| host.trim_matches(['[', ']'])) else {
        return false;
    };
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let port = server.port_u16().unwrap_or(443);
    exceptions.split(',').map(str::trim).any(|word| {
        let (name, is_port) = match word.rsplit_once(':') {
            Some((name, number)) if !name.contains(':') || name.ends_with(']') => {
                (name, number.parse() == Ok(port))
            }
            _ => (word, true),
        };
        let name = name.trim_matches(['[', ']']);
        is_port && covers(name, host, address)
    })
}

fn covers(name: &str, host: &str, address: Option<IpAddr>) -> bool {
    if name == "*" {
        return true;
    }
    if let Ok(network) = name.parse::<IpNet>() {
        return address.is_some_and(|address| network.contains(&address));
    }
    if let Ok(known) = name.parse::<IpAddr>() {
        return address == Some(known);
    }
    let (host, name) = (host.to_ascii_lowercase(), name.to_ascii_lowercase());
    let domain = name.trim_start_matches('*').trim_start_matches('.');
    if domain.is_empty() {
        return false;
    }
    let is_below = host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    is_below || (host == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_those_of_go() {
        for (exceptions, server, expected) in [
            ("", "https://api.example.com:6443", false),
            ("", "https://127.0.0.1:6443", true),
            ("", "https://localhost:6443", true),
            ("*", "https://api.example.com:6443", true),
            ("example.com", "https://api.example.com:6443", true),
            ("example.com", "https://example.com", true),
            ("example.com", "https://notexample.com", false),
            (".example.com", "https://api.example.com", true),
            (".example.com", "https://example.com", false),
            ("*.example.com", "https://API.example.com", true),
            (
                "other, api.example.com:6443",
                "https://api.example.com:6443",
                true,
            ),
            ("api.example.com:443", "https://api.example.com:6443", false),
            ("10.0.0.0/8", "https://10.1.2.3:6443", true),
            ("10.0.0.0/8", "https://11.1.2.3:6443", false),
            ("10.1.2.3", "https://10.1.2.3:6443", true),
            ("fd00::/8", "https://[fd00::1]:6443", true),
            (",", "https://api.example.com", false),
        ] {
            let server = server.parse().unwrap();
            assert_eq!(
                goes_around(exceptions, &server),
                expected,
                "{exceptions:?} {server}"
            );
        }
    }
}
