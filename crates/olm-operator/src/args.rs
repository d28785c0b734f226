//! Flags as typed, named as on clusters today.

use std::collections::BTreeSet;

use clap::Parser;
use olm_runtime::args::Operator;

/// Runs operators: takes each ClusterServiceVersion from its requirements to a running Deployment, under the
/// OperatorGroup of its namespace.
#[derive(Debug, Clone, Parser)]
#[command(name = "olm", disable_version_flag = true, args_override_self = true)]
pub struct Args {
    /// Namespace this operator runs in.
    #[arg(long, default_value = "", env = "OPERATOR_NAMESPACE")]
    pub(crate) namespace: String,
    /// Comma separated namespaces to watch; empty, or an empty entry, means all. Only all is supported.
    #[arg(long = "watchedNamespaces", default_value = "", value_name = "LIST")]
    pub(crate) watched_namespaces: String,
    /// Namespaces that keep copied ClusterServiceVersions although copying is switched off.
    #[arg(
        long = "protectedCopiedCSVNamespaces",
        default_value = "",
        value_name = "LIST"
    )]
    pub(crate) protected_copied_csv_namespaces: String,
    /// ClusterOperator that tells of the package server's ClusterServiceVersion, on OpenShift; nothing is told when empty.
    #[arg(
        long = "writePackageServerStatusName",
        default_value = "",
        value_name = "NAME"
    )]
    pub(crate) write_package_server_status_name: String,
    /// Accepted for compatibility, does nothing.
    #[arg(long = "feature-gates", hide = true, default_value = "", value_name = "LIST")]
    pub(crate) feature_gates: String,
    #[command(flatten)]
    pub(crate) operator: Operator,
}

impl Args {
    /// Returns the error for flags that are valid alone but not together.
    pub fn usage_error(&self) -> Option<String> {
        if let Some(error) = self.operator.usage_error() {
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
        let given = !self.feature_gates.is_empty();
        self.operator.without_effect(("--feature-gates", given))
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
        assert!(args.operator.common.debug);
        assert_eq!(args.usage_error(), None);
        assert!(args.without_effect().is_empty());
        assert!(!parse(&["--debug=false"]).operator.common.debug);
    }

    type Read = fn(&Args) -> bool;

    /// Boolean flags accept the same forms as flags of Go programs.
    #[test]
    fn flags_that_are_true_or_not_are_written_as_go_takes_them() {
        let flags: [(&str, Read); 4] = [
            ("--debug", |args| args.operator.common.debug),
            ("--version", |args| args.operator.common.version),
            ("--profiling", |args| args.operator.profiling),
            ("--leader-elect", |args| {
                args.operator.leader_election.candidacy("a", "b").is_some()
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
        assert!(error.contains("unsupported --watchedNamespaces=a,b"), "{error}");
    }

    #[test]
    fn the_last_value_of_a_repeated_flag_counts() {
        assert_eq!(
            parse(&["--namespace", "a", "--debug", "--debug", "--namespace=b"]).namespace,
            "b"
        );
    }

    /// The about text of a flattened group would otherwise replace it.
    #[test]
    fn help_says_what_the_program_is_for_and_mistakes_in_any_group_are_reported() {
        let about = Args::command().get_about().unwrap().to_string();
        assert!(about.starts_with("Runs operators"), "{about}");
        for (flags, told) in [
            (&["--tls-cert=/c"][..], "both --tls-key and --tls-cert"),
            (
                &["--leader-elect", "--leader-elect-renew-deadline=15s"],
                "invalid --leader-elect-renew-deadline=15s",
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
        assert!(args.operator.serving.endpoints().secure.is_some());
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
