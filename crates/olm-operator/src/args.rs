//! Flags as typed, named as on clusters today.

use std::{collections::BTreeSet, time::Duration};

use clap::{ArgAction, Parser};
use go_compat::duration::{self, Signed};
use olm_runtime::args::{LeaderElection, Release, Serving};

/// Runs operators: takes each ClusterServiceVersion from its requirements to a running Deployment, under the
/// OperatorGroup of its namespace.
#[derive(Debug, Clone, Parser)]
#[command(name = "olm", disable_version_flag = true, args_override_self = true)]
pub struct Args {
    /// Kubeconfig; without it KUBECONFIG, then the ServiceAccount of the pod.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<String>,
    /// Namespace this operator runs in.
    #[arg(long, default_value = "", env = "OPERATOR_NAMESPACE")]
    pub(crate) namespace: String,
    /// Comma separated namespaces to watch; empty, or an empty entry, means all. Only all is supported.
    #[arg(long = "watchedNamespaces", default_value = "", value_name = "LIST")]
    pub(crate) watched_namespaces: String,
    /// Accepted for compatibility: everything wakes by watches, nothing is polled.
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = parse_interval, allow_hyphen_values = true)]
    pub(crate) interval: Duration,
    /// Log what each round does.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub debug: bool,
    /// Print the version and exit.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub version: bool,
    /// Namespaces that keep copied ClusterServiceVersions although copying is switched off.
    #[arg(
        long = "protectedCopiedCSVNamespaces",
        default_value = "",
        value_name = "LIST"
    )]
    pub(crate) protected_copied_csv_namespaces: String,
    /// ClusterOperator in which OLM reports on itself, on OpenShift; nothing is reported when empty.
    #[arg(long = "writeStatusName", default_value = "", value_name = "NAME")]
    pub(crate) write_status_name: String,
    /// ClusterOperator that tells of the package server's ClusterServiceVersion, on OpenShift; nothing is told when empty.
    #[arg(
        long = "writePackageServerStatusName",
        default_value = "",
        value_name = "NAME"
    )]
    pub(crate) write_package_server_status_name: String,
    /// Accepted for compatibility, does nothing.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) profiling: bool,
    /// Accepted for compatibility, does nothing.
    #[arg(long = "feature-gates", hide = true, default_value = "", value_name = "LIST")]
    pub(crate) feature_gates: String,
    #[command(flatten)]
    pub(crate) release: Release,
    #[command(flatten)]
    pub(crate) serving: Serving,
    #[command(flatten)]
    pub(crate) leader_election: LeaderElection,
}

impl Args {
    /// What is wrong with flags that are fine one by one.
    pub fn usage_error(&self) -> Option<String> {
        let error = self.serving.usage_error();
        if let Some(error) = error.or_else(|| self.leader_election.usage_error()) {
            return Some(error);
        }
        let all = self
            .watched_namespaces
            .split(',')
            .any(|namespace| namespace.trim().is_empty());
        (!all).then(|| {
            format!(
                "--watchedNamespaces={} is not supported: this operator watches all namespaces; leave the flag empty",
                self.watched_namespaces
            )
        })
    }

    /// Namespaces that keep copies where these are switched off.
    pub(crate) fn protected_namespaces(&self) -> BTreeSet<String> {
        let names = self.protected_copied_csv_namespaces.split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// Flags that were given and have no effect in this build.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let given = [
            ("--profiling", self.profiling),
            ("--feature-gates", !self.feature_gates.is_empty()),
        ];
        let given = given
            .into_iter()
            .filter_map(|(flag, given)| given.then_some(flag));
        given.chain(self.serving.without_effect()).collect()
    }
}

/// A Go duration; a negative one means 15 minutes, as upstream reads it.
fn parse_interval(text: &str) -> Result<Duration, String> {
    match duration::parse_signed(text) {
        Ok(Signed::Forward(interval)) => Ok(interval),
        Ok(Signed::Backward(_)) => Ok(Duration::from_secs(15 * 60)),
        Err(_) => Err(format!(
            "`{text}` is not a duration; write for example `90s`, `5m` or `1h30m`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(args: &[&str]) -> Args {
        Args::try_parse_from([&["olm"], args].concat()).unwrap()
    }

    #[test]
    fn flags_are_written_as_on_clusters_today() {
        let args = parse(&[
            "--namespace",
            "olm",
            "--writeStatusName",
            "",
            "--writePackageServerStatusName=",
            "--debug",
            "--interval=10m",
        ]);
        assert_eq!(args.namespace, "olm");
        assert!(args.debug);
        assert_eq!(args.interval, Duration::from_secs(600));
        assert_eq!(args.usage_error(), None);
        assert!(args.without_effect().is_empty());
        assert!(!parse(&["--debug=false"]).debug);
        assert_eq!(parse(&["--interval=-1s"]).interval, Duration::from_secs(900));
    }

    #[test]
    fn a_list_of_namespaces_is_refused_and_an_empty_entry_means_all() {
        assert_eq!(parse(&["--watchedNamespaces=a,"]).usage_error(), None);
        let error = parse(&["--watchedNamespaces=a,b"]).usage_error().unwrap();
        assert!(
            error.contains("--watchedNamespaces=a,b is not supported"),
            "{error}"
        );
    }

    #[test]
    fn of_a_flag_given_twice_the_last_counts() {
        assert_eq!(
            parse(&["--namespace", "a", "--debug", "--debug", "--namespace=b"]).namespace,
            "b"
        );
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        let error = parse(&["--tls-cert=/c"]).usage_error().unwrap();
        assert_eq!(
            error,
            "both --tls-key and --tls-crt must be provided for TLS to be enabled"
        );
    }

    #[test]
    fn an_election_has_client_gos_flags_and_its_mistakes_are_told() {
        let args = parse(&["--leader-elect", "--leader-elect-lease-duration=20s"]);
        assert_eq!(args.usage_error(), None);
        assert!(args.leader_election.candidacy("a", "b").is_some());
        assert!(parse(&[]).leader_election.candidacy("a", "b").is_none());
        let error = parse(&["--leader-elect", "--leader-elect-renew-deadline=15s"]).usage_error();
        assert!(error.unwrap().starts_with("--leader-elect-renew-deadline=15s"));
        let about = Args::command().get_about().unwrap().to_string();
        assert!(about.starts_with("Runs operators"), "{about}");
    }

    #[test]
    fn protected_namespaces_are_a_list_in_which_blanks_do_not_count() {
        let args = parse(&["--protectedCopiedCSVNamespaces=b, a,,"]);
        assert_eq!(Vec::from_iter(args.protected_namespaces()), ["a", "b"]);
        assert!(parse(&[]).protected_namespaces().is_empty());
    }

    /// Each with a value, as upstream's program takes it. Those of its logging library are taken out before.
    #[test]
    fn every_flag_of_upstream_is_taken_and_others_are_refused_by_name() {
        let of_upstream = [
            "--interval=5m",
            "--watchedNamespaces=",
            "--namespace=olm",
            "--writeStatusName=a",
            "--writePackageServerStatusName=b",
            "--protectedCopiedCSVNamespaces=c",
            "--tls-cert=/c",
            "--tls-key=/k",
            "--client-ca=/a",
            "--debug",
            "--version",
            "--profiling",
            "--feature-gates=OperatorLifecycleManagerV1=true",
        ];
        let args = parse(&of_upstream);
        assert_eq!(args.usage_error(), None);
        assert_eq!(args.without_effect(), ["--profiling", "--feature-gates"]);
        assert!(args.serving.endpoints().secure.is_some());
        for (unknown, nearest) in [
            ("--watched-namespaces", "--watchedNamespaces"),
            ("--tls-certs=/c", "--tls-cert"),
        ] {
            let error = Args::try_parse_from(["olm", unknown]).unwrap_err().to_string();
            let flag = unknown.split('=').next().unwrap();
            assert!(
                error.contains(&format!("unexpected argument '{flag}'")),
                "{error}"
            );
            assert!(error.contains(nearest), "{error}");
        }
    }

    #[test]
    fn flags_without_effect_are_named() {
        assert_eq!(
            parse(&["--writeStatusName=olm", "--client-ca=x"]).without_effect(),
            ["--client-ca"]
        );
    }
}
