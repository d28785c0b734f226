//! Selection of the proxy for a connection, as in Go programs such as kubectl.

use std::net::IpAddr;

use http::Uri;
use http::uri::InvalidUri;
use ipnet::IpNet;
use kube::config::Kubeconfig;

/// Returns the proxy for `server`. The kubeconfig's proxy takes precedence and ignores exceptions. Otherwise it is that of the
/// environment, unless `server` is an exception.
///
/// # Errors
/// The address of the proxy is invalid.
pub(crate) fn of(named: Option<String>, server: &Uri) -> Result<Option<Uri>, InvalidUri> {
    let of_environment = || {
        let variable = match server.scheme_str() {
            Some("http") => "HTTP_PROXY",
            _ => "HTTPS_PROXY",
        };
        let no_proxy = variable_of_either_case("NO_PROXY").unwrap_or_default();
        variable_of_either_case(variable).filter(|_| !bypasses_proxy(&no_proxy, server))
    };
    named.or_else(of_environment).map(|url| url.parse()).transpose()
}

/// Returns the proxy that the kubeconfig names for the cluster of its context.
pub(crate) fn named(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context.or(kubeconfig.current_context.as_deref());
    let of_context = kubeconfig
        .contexts
        .iter()
        .find(|named| Some(named.name.as_str()) == context)?
        .context
        .as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| named.name == of_context.cluster)?;
    let url = cluster.cluster.as_ref()?.proxy_url.clone();
    url.filter(|url| !url.is_empty())
}

/// Returns the proxy variables that the Kubernetes client cannot parse although Go accepts them, with values that it can.
pub(crate) fn variables_to_mend() -> Vec<(&'static str, String)> {
    let exceptions = ["NO_PROXY", "no_proxy"].map(|name| (name, readable as fn(&str) -> String));
    let proxies = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
    let proxies = proxies.map(|name| (name, with_scheme as fn(&str) -> String));
    let mended = exceptions.into_iter().chain(proxies).filter_map(|(name, mend)| {
        let now = std::env::var(name).ok()?;
        let mended = mend(&now);
        (now != mended).then_some((name, mended))
    });
    mended.collect()
}

/// Leaves out the words that match nothing, and all others beside `*`.
fn readable(no_proxy: &str) -> String {
    let words: Vec<&str> = no_proxy.split(',').map(str::trim).collect();
    if words.contains(&"*") {
        return "*".to_owned();
    }
    let is_readable = |word: &&str| {
        word.parse::<IpNet>().is_ok()
            || word.parse::<IpAddr>().is_ok()
            || word.parse::<Uri>().is_ok_and(|uri| uri.host().is_some())
    };
    let words: Vec<&str> = words.into_iter().filter(is_readable).collect();
    words.join(",")
}

/// Proxies without a scheme use HTTP.
fn with_scheme(address: &str) -> String {
    if address.is_empty() || address.contains("://") {
        return address.to_owned();
    }
    format!("http://{address}")
}

/// Returns a variable, or the one of the lower-case name if it is unset or empty.
fn variable_of_either_case(name: &str) -> Option<String> {
    let of = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    of(name).or_else(|| of(&name.to_ascii_lowercase()))
}

/// Returns whether `server` is an exception in `no_proxy`. Exceptions are names with their subdomains (only these after a dot),
/// addresses, networks, each with or without a port, or `*`. Loopback addresses always are.
fn bypasses_proxy(no_proxy: &str, server: &Uri) -> bool {
    let Some(host) = server.host().map(|host| host.trim_matches(['[', ']'])) else {
        return false;
    };
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let port = server.port_u16().unwrap_or(443);
    no_proxy.split(',').map(str::trim).any(|word| {
        let (name, is_port) = match word.rsplit_once(':') {
            Some((name, number)) if !name.contains(':') || name.ends_with(']') => {
                (name, number.parse() == Ok(port))
            }
            _ => (word, true),
        };
        let name = name.trim_matches(['[', ']']);
        is_port && matches(name, host, address)
    })
}

fn matches(name: &str, host: &str, address: Option<IpAddr>) -> bool {
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
                bypasses_proxy(exceptions, &server),
                expected,
                "{exceptions:?} {server}"
            );
        }
    }
    #[test]
    fn a_proxy_of_the_kubeconfig_is_taken_whatever_no_proxy_says() {
        let kubeconfig: Kubeconfig = serde_json::from_value(serde_json::json!({
            "current-context": "c",
            "contexts": [
                {"name": "c", "context": {"cluster": "near", "user": "u"}},
                {"name": "d", "context": {"cluster": "far", "user": "u"}}
            ],
            "clusters": [
                {"name": "near", "cluster": {"server": "https://127.0.0.1:6443", "proxy-url": "http://10.1.2.3:3128"}},
                {"name": "far", "cluster": {"server": "https://127.0.0.1:6443", "proxy-url": ""}}
            ]
        }))
        .unwrap();
        assert_eq!(named(&kubeconfig, None).as_deref(), Some("http://10.1.2.3:3128"));
        assert_eq!(named(&kubeconfig, Some("d")), None);
        let server = "https://127.0.0.1:6443".parse().unwrap();
        let proxy = of(named(&kubeconfig, None), &server).unwrap();
        assert_eq!(proxy, Some("http://10.1.2.3:3128".parse().unwrap()));
        assert!(of(Some("http://[".to_owned()), &server).is_err());
    }

    #[test]
    fn words_that_go_accepts_are_readable_for_the_client() {
        for (given, expected) in [
            ("localhost,", "localhost"),
            ("a,,b", "a,b"),
            ("a, b", "a,b"),
            ("a,*", "*"),
            (",", ""),
            ("a,b", "a,b"),
            ("localhost 127.0.0.1,a", "a"),
            ("<local>,192.168.0.0/255.255.0.0,10.0.0.0/8", "10.0.0.0/8"),
            (".a,*.b,c:8443,[::1],fd00::/8", ".a,*.b,c:8443,[::1],fd00::/8"),
        ] {
            assert_eq!(readable(given), expected, "{given:?}");
            assert_eq!(readable(expected), expected, "once is enough");
        }
        for (given, expected) in [
            ("proxy.corp:3128", "http://proxy.corp:3128"),
            ("proxy.corp:3128/", "http://proxy.corp:3128/"),
            ("socks5://proxy.corp", "socks5://proxy.corp"),
            ("", ""),
        ] {
            assert_eq!(with_scheme(given), expected);
        }
    }
}
