//! Flags as typed, named as on clusters today.

use std::collections::BTreeSet;

use clap::{ArgAction, Parser};
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
    #[arg(long, hide = true, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) interval: Option<String>,
    /// Log what each round does.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_compat::boolean::parse, action = ArgAction::Set)]
    pub debug: bool,
    /// Print the version and exit.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_compat::boolean::parse, action = ArgAction::Set)]
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
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_compat::boolean::parse, action = ArgAction::Set)]
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
    /// Returns the error for flags that are valid alone but not together.
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
                "unsupported --watchedNamespaces={}: this operator watches all namespaces; remove the flag",
                self.watched_namespaces
            )
        })
    }

    /// Namespaces that keep copies although copying is disabled.
    pub(crate) fn protected_namespaces(&self) -> BTreeSet<String> {
        let names = self.protected_copied_csv_namespaces.split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the given flags that have no effect.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let given = [
            ("--interval", self.interval.is_some()),
            ("--profiling", self.profiling),
            ("--feature-gates", !self.feature_gates.is_empty()),
        ];
        let given = given
            .into_iter()
            .filter_map(|(flag, given)| given.then_some(flag));
        given.chain(self.serving.without_effect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use olm_testing::flags::assert_switch_of_go;

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
        ]);
        assert_eq!(args.namespace, "olm");
        assert!(args.debug);
        assert_eq!(args.usage_error(), None);
        assert!(args.without_effect().is_empty());
        assert!(!parse(&["--debug=false"]).debug);
    }

    type Read = fn(&Args) -> bool;

    /// Boolean flags accept the same forms as flags of Go programs.
    #[test]
    fn flags_that_are_true_or_not_are_written_as_go_takes_them() {
        let flags: [(&str, Read); 4] = [
            ("--debug", |args| args.debug),
            ("--version", |args| args.version),
            ("--profiling", |args| args.profiling),
            ("--leader-elect", |args| {
                args.leader_election.candidacy("a", "b").is_some()
            }),
        ];
        for (flag, read) in flags {
            assert_switch_of_go(flag, |given| {
                let args = Args::try_parse_from(["olm", given]);
                args.map(|args| read(&args)).map_err(|error| error.to_string())
            });
        }
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

    /// The about text of a flattened group would otherwise replace it.
    #[test]
    fn help_says_what_the_program_is_for_and_mistakes_in_any_group_are_told() {
        let about = Args::command().get_about().unwrap().to_string();
        assert!(about.starts_with("Runs operators"), "{about}");
        for (flags, told) in [
            (&["--tls-cert=/c"][..], "both --tls-key and --tls-cert"),
            (
                &["--leader-elect", "--leader-elect-renew-deadline=15s"],
                "--leader-elect-renew-deadline=15s",
            ),
        ] {
            let error = parse(flags).usage_error().unwrap();
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn protected_namespaces_are_a_list_in_which_blanks_do_not_count() {
        let args = parse(&["--protectedCopiedCSVNamespaces=b, a,,"]);
        assert_eq!(Vec::from_iter(args.protected_namespaces()), ["a", "b"]);
        assert!(parse(&[]).protected_namespaces().is_empty());
    }

    /// Each flag has a value, as upstream's program accepts it. Flags of upstream's logging library are
    /// removed earlier.
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
        assert_eq!(
            args.without_effect(),
            ["--interval", "--profiling", "--feature-gates"]
        );
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
        let told = parse(&["--writeStatusName=olm", "--client-ca=x", "--interval=-1s"]).without_effect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0] == "--interval" && told[1].starts_with("--client-ca ("),
            "{told:?}"
        );
    }
}
