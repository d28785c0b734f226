//! Flags as typed, named as on clusters today.

use std::path::PathBuf;

use catalogd::args::Registries;
use clap::{ArgAction, Parser};
use go_compat::boolean;
use go_compat::semver::Version;
use olm_runtime::args::{Common, ExtensionServing, LeaderElection, Release};

/// Port of metrics if none is named.
pub(crate) const METRICS: u16 = 8443;

/// Installs the bundles that ClusterExtensions name, and keeps their objects.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "operator-controller",
    disable_version_flag = true,
    args_override_self = true
)]
pub struct Args {
    /// Flags of every program.
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) serving: ExtensionServing,
    #[command(flatten)]
    pub(crate) registries: Registries,
    /// Folder with CA certificates of the servers of catalogs, as PEM.
    #[arg(long, default_value = "", value_name = "FOLDER")]
    catalogd_cas_dir: String,
    /// Folder for large layers of images while they are pulled.
    #[arg(long, default_value = "/var/cache/operator-controller", value_name = "FOLDER")]
    pub(crate) cache_path: PathBuf,
    /// Namespace of the Secrets with the objects of revisions; that of the pod when empty.
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    system_namespace: String,
    /// Ignore `spec.serviceAccount` of ClusterExtensions, as upstream does.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", value_parser = boolean::parse, action = ArgAction::Set)]
    pub(crate) ignore_service_account: bool,
    #[command(flatten)]
    release: Release,
    #[command(flatten)]
    pub(crate) leader_election: LeaderElection,
}

/// Flags of upstream's program that have no meaning here, and whether each takes a value. All features are on.
pub const OBSOLETE: [(&str, bool); 2] = [("--feature-gates", true), ("--pprof-bind-address", true)];

impl Args {
    /// Returns the error of flags that are each valid but do not fit together.
    pub fn usage_error(&self) -> Option<String> {
        let error = self.serving.usage_error();
        error.or_else(|| self.leader_election.usage_error())
    }

    /// Returns the folder with authorities of the servers of catalogs.
    pub(crate) fn catalogd_cas_dir(&self) -> Option<PathBuf> {
        (!self.catalogd_cas_dir.is_empty()).then(|| PathBuf::from(&self.catalogd_cas_dir))
    }

    /// Returns the namespace of the Secrets of revisions; `own` is that of the pod.
    pub(crate) fn system_namespace<'a>(&'a self, own: &'a str) -> &'a str {
        if self.system_namespace.is_empty() {
            own
        } else {
            &self.system_namespace
        }
    }

    /// Returns the version of OpenShift that this is part of.
    pub(crate) fn openshift(&self) -> Option<Version> {
        Version::parse(&self.release.release_version).ok()
    }
}

#[cfg(test)]
mod tests {
    use olm_testing::flags::assert_switch_of_go;

    use super::*;

    fn parse(flags: &[&str]) -> Result<Args, String> {
        let words = ["operator-controller"].iter().chain(flags);
        Args::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_upstream() {
        let args = parse(&[]).unwrap();
        assert_eq!((args.usage_error(), args.catalogd_cas_dir()), (None, None));
        assert_eq!(args.cache_path, PathBuf::from("/var/cache/operator-controller"));
        assert_eq!(args.system_namespace("own"), "own");
        let tls = parse(&["--tls-cert=/c", "--tls-key=/k", "--system-namespace=olm"]).unwrap();
        assert_eq!(
            tls.serving.endpoints(METRICS).secure.unwrap().address.port(),
            8443
        );
        assert_eq!(tls.system_namespace("own"), "olm");
    }

    #[test]
    fn switches_are_those_of_go() {
        assert_switch_of_go("--debug", |given| parse(&[given]).map(|args| args.common.debug));
        assert_switch_of_go("--ignore-service-account", |given| {
            parse(&[given]).map(|args| args.ignore_service_account)
        });
    }
}
