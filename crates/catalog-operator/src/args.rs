//! Flags as typed: upstream's, with the same names and defaults, and those of the in-process unpack.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueEnum};
use olm_runtime::args::Operator;

/// How bundle images are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnpackMode {
    /// In this process; a pull that only a node could make is left to a Job.
    Auto,
    /// In this process only.
    InProcess,
    /// By a Job in the catalog's namespace.
    Job,
}

/// Serves CatalogSources, resolves Subscriptions and carries out InstallPlans.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "catalog-operator",
    disable_version_flag = true,
    args_override_self = true
)]
pub struct Args {
    /// Namespace of the catalogs that every namespace sees.
    #[arg(long, default_value = "olm")]
    pub namespace: String,

    /// Same as --namespace, and wins over it when set and not empty.
    #[arg(
        long = "global-catalog-namespace",
        env = "GLOBAL_CATALOG_NAMESPACE",
        hide = true
    )]
    pub global_catalog_namespace: Option<String>,

    /// Accepted for compatibility: catalogs in ConfigMaps are served by --opmImage, whose pods need no rights.
    #[arg(long = "configmapServerImage", hide = true, value_name = "IMAGE")]
    pub configmap_server_image: Option<String>,

    /// Image with /bin/opm of this version; writes what unpack Jobs unpacked, serves catalogs whose content is copied out of their image, and those in ConfigMaps.
    #[arg(long = "opmImage", default_value = "quay.io/operator-framework/opm:latest")]
    pub opm_image: String,

    /// Image with /bin/cp, /bin/copy-content and, for unpack Jobs, /bin/cpb.
    #[arg(long = "util-image", default_value = "quay.io/operator-framework/olm:latest")]
    pub util_image: String,

    /// Longest time a bundle's unpack may take; 0 means no limit.
    #[arg(long, default_value = "10m", value_parser = go_compat::duration::parse)]
    pub bundle_unpack_timeout: Duration,

    /// How long errors that do not pass by themselves are tried again before an InstallPlan fails, from the first of them on.
    #[arg(long, default_value = "1m", value_parser = go_compat::duration::parse)]
    pub install_plan_retry_timeout: Duration,

    /// Run registry pods and unpack Jobs as user 1001.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", value_parser = go_compat::boolean::parse, action = ArgAction::Set)]
    pub set_workload_user_id: bool,

    /// How bundle images are read.
    #[arg(long, value_enum, default_value_t = UnpackMode::Auto)]
    pub unpack: UnpackMode,

    /// Folder of unpacked bundles; without it a temporary one, which the process removes at its end.
    #[arg(long, value_name = "DIR")]
    pub unpack_cache: Option<PathBuf>,

    /// Folder that holds layers of bundle images while they are pulled; without it that of --unpack-cache, or TMPDIR.
    #[arg(long, value_name = "DIR")]
    pub unpack_spool: Option<PathBuf>,

    /// Folder of registry configuration in containerd's form, one folder with a hosts.toml a registry.
    #[arg(long, value_name = "DIR")]
    pub registry_config: Option<PathBuf>,

    /// PEM file of authorities that may have signed certificates of registries, besides those of the image and of --registry-config.
    #[arg(long, value_name = "FILE")]
    pub registry_ca: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) operator: Operator,
}

impl Args {
    /// Namespace of the global catalogs, whichever way it was given.
    pub fn global_namespace(&self) -> &str {
        match self.global_catalog_namespace.as_deref() {
            Some(namespace) if !namespace.is_empty() => namespace,
            _ => &self.namespace,
        }
    }

    /// User of restricted pods: 1001 if asked for.
    pub fn workload_user_id(&self) -> Option<i64> {
        self.set_workload_user_id.then_some(1001)
    }

    /// Returns the given flags that have no effect.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let given = self.configmap_server_image.is_some();
        self.operator.without_effect(("--configmapServerImage", given))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use olm_testing::flags::assert_switch_of_go;

    use super::*;

    fn parse(arguments: &[&str]) -> Args {
        Args::try_parse_from(std::iter::once("catalog-operator").chain(arguments.iter().copied())).unwrap()
    }

    #[test]
    fn the_flags_of_upstreams_deployment_are_accepted() {
        let args = parse(&[
            "--namespace",
            "olm",
            "--configmapServerImage=quay.io/x:1",
            "--util-image",
            "quay.io/y:1",
            "--opmImage=quay.io/z:1",
            "--set-workload-user-id=true",
            "--debug",
            "--interval",
            "15m",
            "--writeStatusName",
            "operator-lifecycle-manager-catalog",
            "--tls-cert",
            "/a",
            "--tls-key",
            "/b",
            "--client-ca",
            "/c",
            "--bundle-unpack-timeout=2m30s",
            "--profiling=false",
        ]);
        assert_eq!(args.workload_user_id(), Some(1001));
        assert_eq!(args.bundle_unpack_timeout, Duration::from_secs(150));
        assert_eq!(args.operator.usage_error(), None);
        assert!(args.operator.common.debug);
        assert_eq!(args.unpack, UnpackMode::Auto);
    }

    /// Each with a value, as upstream's program takes it. Those of its logging library are taken out before.
    #[test]
    fn every_flag_of_upstream_is_taken_and_others_are_refused_by_name() {
        let of_upstream = [
            "--kubeconfig=",
            "--namespace=olm",
            "--interval=15m",
            "--configmapServerImage=a/b:1",
            "--opmImage=a/b:1",
            "--util-image=a/b:1",
            "--bundle-unpack-timeout=10m",
            "--install-plan-retry-timeout=1m",
            "--set-workload-user-id=true",
            "--writeStatusName=a",
            "--tls-cert=/c",
            "--tls-key=/k",
            "--client-ca=/a",
            "--debug",
            "--version",
            "--profiling",
        ];
        let args = parse(&of_upstream);
        assert_eq!(args.operator.usage_error(), None);
        let without_effect = ["--interval", "--profiling", "--configmapServerImage"];
        assert_eq!(args.without_effect(), without_effect);
        assert!(args.operator.serving.endpoints().secure.is_some());
        let unknown = ["catalog-operator", "--opm-image=a/b:1"];
        let error = Args::try_parse_from(unknown).unwrap_err().to_string();
        assert!(error.contains("unexpected argument '--opm-image'"), "{error}");
        assert!(error.contains("--opmImage"), "{error}");
    }

    type Read = fn(&Args) -> bool;

    /// As every flag of Go's programs is.
    #[test]
    fn flags_that_are_true_or_not_are_written_as_go_takes_them() {
        let flags: [(&str, Read); 5] = [
            ("--debug", |args| args.operator.common.debug),
            ("--version", |args| args.operator.common.version),
            ("--profiling", |args| args.operator.profiling),
            ("--set-workload-user-id", |args| args.set_workload_user_id),
            ("--leader-elect", |args| {
                args.operator.leader_election.candidacy("a", "b").is_some()
            }),
        ];
        for (flag, read) in flags {
            assert_switch_of_go(flag, |given| {
                let args = Args::try_parse_from(["catalog-operator", given]);
                args.map(|args| read(&args)).map_err(|error| error.to_string())
            });
        }
    }

    #[test]
    fn hlt_003_the_environment_overrides_the_namespace_only_when_not_empty() {
        assert_eq!(parse(&["--namespace", "a"]).global_namespace(), "a");
        let mut args = parse(&["--namespace", "a"]);
        args.global_catalog_namespace = Some(String::new());
        assert_eq!(args.global_namespace(), "a");
        args.global_catalog_namespace = Some("b".to_owned());
        assert_eq!(args.global_namespace(), "b");
    }

    /// What is flattened in would replace it.
    #[test]
    fn help_says_what_the_program_is_for_and_mistakes_in_any_group_are_reported() {
        let about = Args::command().get_about().unwrap().to_string();
        assert!(about.starts_with("Serves CatalogSources"), "{about}");
        for (flags, told) in [
            (&["--tls-cert=/c"][..], "both --tls-key and --tls-cert"),
            (
                &["--leader-elect", "--leader-elect-renew-deadline=15s"],
                "invalid --leader-elect-renew-deadline=15s",
            ),
        ] {
            let error = parse(flags).operator.usage_error().unwrap();
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn the_last_value_of_a_repeated_flag_counts() {
        let args = parse(&["--namespace", "a", "--debug", "--debug", "--namespace=b"]);
        assert_eq!(args.namespace, "b");
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        assert!(
            parse(&["--tls-cert", "/a"])
                .operator
                .usage_error()
                .is_some_and(|text| text.contains("--tls-key"))
        );
    }
}
