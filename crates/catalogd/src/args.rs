//! Flags as typed, named as on clusters today.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use kube::Client;
use olm_oci::Limits;
use olm_runtime::NamespacedName;
use olm_runtime::args::{Common, ExtensionServing, LeaderElection, parse_address};

use crate::registry::Registry;

/// Port of metrics if none is named.
pub(crate) const METRICS: u16 = 7443;

/// Pulls the catalogs that ClusterCatalogs name, and serves their contents over HTTP.
#[derive(Debug, Clone, Parser)]
#[command(name = "catalogd", disable_version_flag = true, args_override_self = true)]
pub struct Args {
    /// Flags of every program.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Address to serve catalogs on; without a host, all addresses.
    #[arg(long, default_value = ":8443", value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) catalogs_server_addr: SocketAddr,
    /// Host, and port if it is not that of the protocol, at which clients reach this server: part of the URLs in statuses.
    #[arg(
        long,
        default_value = "catalogd-service.olmv1-system.svc",
        value_name = "HOST"
    )]
    external_address: String,
    /// Folder for contents. What is in it is used again after a restart.
    #[arg(long, default_value = "/var/cache/catalogd", value_name = "FOLDER")]
    pub(crate) cache_dir: PathBuf,
    #[command(flatten)]
    pub(crate) serving: ExtensionServing,
    #[command(flatten)]
    pub(crate) registries: Registries,
    #[command(flatten)]
    pub(crate) leader_election: LeaderElection,
}

/// Trust and credentials for registries. Both programs of OLM v1 have these flags.
#[derive(Debug, Clone, clap::Args)]
pub struct Registries {
    /// Folder with CA certificates of registries, as PEM.
    #[arg(long, default_value = "", value_name = "FOLDER")]
    pull_cas_dir: String,
    /// Pull secret for all images, as NAMESPACE/NAME.
    #[arg(long, default_value = "", value_name = "SECRET", value_parser = parse_secret)]
    global_pull_secret: OptionalSecret,
}

/// Flags of upstream's program that have no meaning here, and whether each takes a value. Remains are removed at the start and when a
/// catalog is deleted, and there is no webhook: the controller sets the label.
pub const OBSOLETE: [(&str, bool); 5] = [
    ("--feature-gates", true),
    ("--gc-interval", true),
    ("--pprof-bind-address", true),
    ("--system-namespace", true),
    ("--webhook-server-port", true),
];

/// A Secret that may be empty.
type OptionalSecret = Option<NamespacedName>;

impl Args {
    /// Returns the error of flags that are each valid but do not fit together.
    pub fn usage_error(&self) -> Option<String> {
        let error = self.serving.usage_error();
        error.or_else(|| self.leader_election.usage_error())
    }

    /// Returns the URL of all catalogs. Clients reach this server over TLS also where something else ends it.
    pub(crate) fn base_url(&self) -> String {
        format!("https://{}/catalogs", self.external_address)
    }
}

impl Registries {
    /// Returns the registry as these flags say. Pull secrets are read with `client`. Large layers are kept in the folder `spool` while
    /// they are pulled.
    pub fn registry(&self, client: &Client, spool: PathBuf, limits: Limits) -> Registry {
        let folder = (!self.pull_cas_dir.is_empty()).then(|| PathBuf::from(&self.pull_cas_dir));
        let secret = self.global_pull_secret.clone();
        Registry::new(client.clone(), secret, folder, spool, limits)
    }
}

fn parse_secret(text: &str) -> Result<OptionalSecret, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.split_once('/') {
        Some((namespace, name)) if !name.contains('/') => Ok(Some(NamespacedName::new(namespace, name))),
        _ => Err("value of global-pull-secret should be of the format <namespace>/<name>".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use olm_testing::flags::assert_switch_of_go;

    use super::*;

    fn parse(flags: &[&str]) -> Result<Args, String> {
        let words = ["catalogd"].iter().chain(flags);
        Args::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_upstream() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.usage_error(), None);
        assert_eq!(args.catalogs_server_addr, "0.0.0.0:8443".parse().unwrap());
        assert_eq!(
            args.base_url(),
            "https://catalogd-service.olmv1-system.svc/catalogs"
        );
        assert_eq!(
            (
                args.serving.tls(),
                args.registries.pull_cas_dir.as_str(),
                args.registries.global_pull_secret.clone()
            ),
            (None, "", None)
        );
        let endpoints = args.serving.endpoints(METRICS);
        assert_eq!((endpoints.health.port(), endpoints.secure), (8081, None));
    }

    #[test]
    fn with_a_certificate_metrics_have_their_port() {
        let tls = ["--tls-cert=/c", "--tls-key=/k"];
        let of = |flags: &[&str]| {
            parse(&[&tls[..], flags].concat())
                .unwrap()
                .serving
                .endpoints(METRICS)
                .secure
                .unwrap()
        };
        assert_eq!(of(&[]).address.port(), 7443);
        assert_eq!(
            of(&["--metrics-bind-address=:1"]).address,
            "0.0.0.0:1".parse().unwrap()
        );
        assert_eq!(of(&["--metrics-bind-address=0"]).files.key, PathBuf::from("/k"));
    }

    #[test]
    fn flags_that_do_not_fit_together_are_refused() {
        for (flags, error) in [
            (
                &["--tls-cert=/c"][..],
                "tls-cert and tls-key flags must be used together",
            ),
            (
                &["--tls-key=/k"],
                "tls-cert and tls-key flags must be used together",
            ),
            (
                &["--metrics-bind-address=:1"],
                "metrics-bind-address requires tls-cert and tls-key flags",
            ),
        ] {
            assert_eq!(parse(flags).unwrap().usage_error().as_deref(), Some(error));
        }
        for flag in [
            "--global-pull-secret=a",
            "--global-pull-secret=a/b/c",
            "--catalogs-server-addr=x",
        ] {
            assert!(parse(&[flag]).is_err(), "{flag}");
        }
        let secret = parse(&["--global-pull-secret=a/b"])
            .unwrap()
            .registries
            .global_pull_secret;
        assert_eq!(secret, Some(NamespacedName::new("a", "b")));
    }

    #[test]
    fn switches_are_those_of_go() {
        assert_switch_of_go("--debug", |given| parse(&[given]).map(|args| args.common.debug));
    }
}
