//! Command-line flags that the programs share.

mod extension;
mod tls_profile;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use go_compat::{boolean, duration};

pub use self::extension::{ExtensionServing, parse_address};
use crate::admin::{Endpoints, SecureEndpoint};
use crate::key::{NamespacedName, is_path_segment};
use crate::leader::{Candidacy, LeaseTimes};
use crate::tls::{TlsFiles, TlsProfile};

/// Flags of every program that runs in a cluster.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// Kubeconfig; without it KUBECONFIG, then the ServiceAccount of the pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<String>,
    /// Log more.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", value_parser = boolean::parse, action = ArgAction::Set)]
    pub debug: bool,
    /// Print the version and exit.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", value_parser = boolean::parse, action = ArgAction::Set)]
    pub version: bool,
}

/// Flags of both operators.
#[derive(Debug, Clone, Args)]
pub struct Operator {
    /// ClusterOperator in which it reports on itself, on OpenShift; nothing is reported when empty.
    #[arg(long = "writeStatusName", default_value = "", value_name = "NAME")]
    pub write_status_name: String,
    /// Accepted for compatibility: everything is watched, nothing is polled at an interval.
    #[arg(long, hide = true, value_name = "DURATION", allow_hyphen_values = true)]
    interval: Option<String>,
    /// Accepted for compatibility, does nothing.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", value_parser = boolean::parse, action = ArgAction::Set)]
    pub profiling: bool,
    /// Flags of every program.
    #[command(flatten)]
    pub common: Common,
    /// Flags of health and metrics.
    #[command(flatten)]
    pub serving: Serving,
    /// The release of OpenShift.
    #[command(flatten)]
    pub release: Release,
    /// Flags of the election.
    #[command(flatten)]
    pub leader_election: LeaderElection,
}

impl Operator {
    /// Returns the error of flags that are each valid but do not fit together.
    pub fn usage_error(&self) -> Option<String> {
        let error = self.serving.usage_error();
        error.or_else(|| self.leader_election.usage_error())
    }

    /// Returns the given flags that have no effect, as texts for the log. `other` is such a flag of the program alone, and true if
    /// it is given.
    pub fn without_effect(&self, other: (&'static str, bool)) -> Vec<&'static str> {
        let flags = [
            ("--interval", self.interval.is_some()),
            ("--profiling", self.profiling),
            other,
        ];
        let given = flags
            .into_iter()
            .filter_map(|(flag, is_given)| is_given.then_some(flag));
        given.chain(self.serving.without_effect()).collect()
    }
}

/// Flags of where health and metrics are served, and how.
#[derive(Debug, Clone, Args)]
pub struct Serving {
    /// Where /healthz and /readyz are served over plain HTTP, and /metrics where there is no --tls-cert; 0.0.0.0 is all addresses, of IPv6 too.
    #[arg(long, default_value = "0.0.0.0:8080", value_name = "ADDRESS")]
    health_addr: SocketAddr,
    /// Where /healthz, /readyz and, to whoever may, /metrics are served over TLS; with --tls-cert.
    #[arg(long, default_value = "0.0.0.0:8443", value_name = "ADDRESS")]
    metrics_addr: SocketAddr,
    /// Certificate to serve metrics with, as PEM. Read again when it changes, as are the two below.
    #[arg(long, default_value = "", value_name = "FILE")]
    tls_cert: String,
    /// Key of that certificate.
    #[arg(long, default_value = "", value_name = "FILE")]
    tls_key: String,
    /// Who signs the certificates by which clients of --metrics-addr may say who they are, as PEM.
    #[arg(long, default_value = "", value_name = "FILE")]
    client_ca: String,
}

impl Serving {
    /// Returns the error of flags that are each valid but do not fit together.
    pub fn usage_error(&self) -> Option<String> {
        (self.tls_cert.is_empty() != self.tls_key.is_empty())
            .then(|| "both --tls-key and --tls-cert must be provided for TLS to be enabled".to_owned())
    }

    /// Returns the flag that is given and has no effect, as text for the log.
    fn without_effect(&self) -> Option<&'static str> {
        let given = !self.client_ca.is_empty() && self.tls_cert.is_empty();
        given.then_some(
            "--client-ca (requires --tls-cert and --tls-key: client certificates only exist over TLS)",
        )
    }

    /// Returns the addresses to serve health and metrics on.
    pub fn endpoints(&self) -> Endpoints {
        let secure = SecureEndpoint {
            address: self.metrics_addr,
            files: TlsFiles {
                certificate: PathBuf::from(&self.tls_cert),
                key: PathBuf::from(&self.tls_key),
                client_ca: (!self.client_ca.is_empty()).then(|| PathBuf::from(&self.client_ca)),
                profile: TlsProfile::default(),
            },
        };
        Endpoints {
            health: self.health_addr,
            secure: (!self.tls_cert.is_empty()).then_some(secure),
        }
    }
}

/// Flags of the election among several processes of one operator, with client-go's names and times.
#[derive(Debug, Clone, Args)]
pub struct LeaderElection {
    /// Of several processes let the one that has a Lease write, and the others stand by.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", value_parser = boolean::parse, action = ArgAction::Set)]
    leader_elect: bool,
    /// How long the Lease lasts after each renewal: a killed leader is followed after that. Whole seconds.
    #[arg(long, default_value = "15s", value_name = "DURATION", value_parser = duration::parse)]
    leader_elect_lease_duration: Duration,
    /// After so long without a renewal the leader ends; at most four fifths of the lease duration.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = duration::parse)]
    leader_elect_renew_deadline: Duration,
    /// Time between two renewals, and between two looks of a standby; at most half of the renew deadline.
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = duration::parse)]
    leader_elect_retry_period: Duration,
    /// Name of the Lease; the operator's when empty.
    #[arg(long, default_value = "", value_name = "NAME")]
    leader_elect_resource_name: String,
    /// Namespace of the Lease; that of the pod when empty.
    #[arg(long, default_value = "")]
    leader_elect_resource_namespace: String,
}

/// The release of OpenShift that an operator is part of.
#[derive(Debug, Clone, Default, Args)]
pub struct Release {
    /// Version of the release of OpenShift that this is part of.
    #[arg(
        long = "release-version",
        env = "RELEASE_VERSION",
        default_value = "",
        hide = true,
        value_name = "VERSION"
    )]
    pub release_version: String,
}

impl LeaderElection {
    /// Returns the error of flags that are each valid but do not fit together. Always `None` without leader election.
    pub fn usage_error(&self) -> Option<String> {
        if !self.leader_elect {
            return None;
        }
        for (flag, name) in [
            ("--leader-elect-resource-name", &self.leader_elect_resource_name),
            (
                "--leader-elect-resource-namespace",
                &self.leader_elect_resource_namespace,
            ),
        ] {
            if !name.is_empty() && !is_path_segment(name) {
                return Some(format!("{flag}={name:?} is not a valid object name"));
            }
        }
        self.times().err()
    }

    /// Returns the Lease to compete for: `name` in `namespace` unless the flags name another. `None` without leader election.
    pub fn candidacy(&self, name: &str, namespace: &str) -> Option<Candidacy> {
        let or = |given: &str, default: &str| if given.is_empty() { default } else { given }.to_owned();
        let lease = NamespacedName {
            namespace: or(&self.leader_elect_resource_namespace, namespace),
            name: or(&self.leader_elect_resource_name, name),
        };
        // `usage_error` has already ended the process if the times do not fit together.
        let times = self.times().ok().filter(|_| self.leader_elect)?;
        Some(Candidacy::new(lease, times))
    }

    fn times(&self) -> Result<LeaseTimes, String> {
        LeaseTimes::new(
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        )
    }
}

/// Git commit of this build, if the build sets it.
pub(crate) const COMMIT: Option<&str> = option_env!("OLM_GIT_COMMIT");

/// Returns the lines that upstream's binaries print for `--version`. A build that knows no commit does not name one.
pub fn version_text(version: &str, commit: Option<&str>) -> String {
    let commit = commit.map(|commit| format!("git commit: {commit}\n"));
    format!("OLM version: {version}\n{}", commit.unwrap_or_default())
}

/// Flags of the logging library of upstream's programs, which existing Deployments pass. The boolean is true if the flag takes its value
/// as a separate argument. Logging here is configured with `--debug` and `OLM_LOG`.
const OF_UPSTREAMS_LOG: [(&str, bool); 14] = [
    ("--add_dir_header", false),
    ("--alsologtostderr", false),
    ("--legacy_stderr_threshold_behavior", false),
    ("--log_backtrace_at", true),
    ("--log_dir", true),
    ("--log_file", true),
    ("--log_file_max_size", true),
    ("--logtostderr", false),
    ("--one_output", false),
    ("--skip_headers", false),
    ("--skip_log_headers", false),
    ("--stderrthreshold", true),
    ("--v", true),
    ("--vmodule", true),
];
/// Short form of `--v`; its value may follow directly.
const VERBOSITY: &str = "-v";

/// True for `-v`, alone or followed by a level.
fn is_verbosity(name: &str) -> bool {
    let level = name.strip_prefix(VERBOSITY);
    level.is_some_and(|level| level.bytes().all(|letter| letter.is_ascii_digit()))
}

/// Removes the flags of upstream's logging library. Returns the other arguments and the removed flags.
pub fn without_log_flags(all: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<&'static str>) {
    without_flags(all, &OF_UPSTREAMS_LOG, true)
}

/// Removes `obsolete` flags, each with whether its value may be a separate argument. Returns the other arguments and the removed flags.
pub fn without_obsolete_flags(
    all: impl IntoIterator<Item = OsString>,
    obsolete: &[(&'static str, bool)],
) -> (Vec<OsString>, Vec<&'static str>) {
    without_flags(all, obsolete, false)
}

fn without_flags(
    all: impl IntoIterator<Item = OsString>,
    flags: &[(&'static str, bool)],
    with_verbosity: bool,
) -> (Vec<OsString>, Vec<&'static str>) {
    let (mut kept, mut found) = (Vec::new(), Vec::new());
    let mut all = all.into_iter();
    while let Some(argument) = all.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == "--" {
            kept.push(argument);
            kept.extend(all);
            break;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let known = flags.iter().find(|(flag, _)| *flag == name);
        if let Some((flag, takes_value)) = known {
            found.push(*flag);
            if *takes_value && value.is_none() {
                all.next();
            }
        } else if with_verbosity && is_verbosity(name) {
            found.push(VERBOSITY);
            if text == VERBOSITY {
                all.next();
            }
        } else {
            kept.push(argument);
        }
    }
    (kept, found)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        leader_election: LeaderElection,
        #[command(flatten)]
        serving: Serving,
    }

    fn serving(flags: &[&str]) -> Serving {
        let arguments = std::iter::once(&"olm").chain(flags);
        Program::try_parse_from(arguments).unwrap().serving
    }

    #[test]
    fn metrics_are_served_over_tls_where_there_is_a_certificate() {
        let plain = serving(&[]).endpoints();
        assert_eq!((plain.health.port(), plain.secure), (8080, None));
        let given = serving(&["--tls-cert=/c", "--tls-key", "/k", "--client-ca=/a"]);
        assert_eq!(given.usage_error(), None);
        let secure = given.endpoints().secure.unwrap();
        assert_eq!(secure.address.port(), 8443);
        let files = TlsFiles {
            certificate: "/c".into(),
            key: "/k".into(),
            client_ca: Some("/a".into()),
            profile: TlsProfile::default(),
        };
        assert_eq!(secure.files, files);
        let other = serving(&["--tls-cert=/c", "--tls-key=/k", "--metrics-addr=127.0.0.1:1"]);
        let secure = other.endpoints().secure.unwrap();
        assert_eq!((secure.address.port(), secure.files.client_ca), (1, None));
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        for flag in ["--tls-cert=/c", "--tls-key=/k"] {
            let error = serving(&[flag]).usage_error();
            let both = "both --tls-key and --tls-cert must be provided for TLS to be enabled";
            assert_eq!(error.as_deref(), Some(both));
        }
        assert_eq!(serving(&[]).usage_error(), None);
    }

    #[test]
    fn a_client_ca_without_a_certificate_has_no_effect() {
        let told = serving(&["--client-ca=/a"]).without_effect().unwrap();
        assert!(told.starts_with("--client-ca (requires --tls-cert"), "{told}");
        let given = serving(&["--client-ca=/a", "--tls-cert=/c", "--tls-key=/k"]);
        assert_eq!(given.without_effect(), None);
    }

    fn parsed(flags: &[&str]) -> LeaderElection {
        let arguments = std::iter::once(&"olm").chain(flags);
        Program::try_parse_from(arguments).unwrap().leader_election
    }

    #[test]
    fn nobody_is_elected_unless_that_is_asked_for() {
        assert!(parsed(&[]).candidacy("operator", "olm").is_none());
        for value in ["false", "False", "F", "0"] {
            let flag = format!("--leader-elect={value}");
            assert!(parsed(&[&flag]).candidacy("operator", "olm").is_none(), "{value}");
        }
        for value in ["true", "True", "T", "1"] {
            let flag = format!("--leader-elect={value}");
            assert!(parsed(&[&flag]).candidacy("operator", "olm").is_some(), "{value}");
        }
        assert_eq!(parsed(&["--leader-elect-retry-period=9s"]).usage_error(), None);
        let candidacy = parsed(&["--leader-elect"]).candidacy("operator", "olm").unwrap();
        assert_eq!(candidacy.lease, NamespacedName::new("olm", "operator"));
        assert_eq!(candidacy.times, LeaseTimes::default());
    }

    #[test]
    fn the_lease_and_its_times_are_as_the_flags_say() {
        let given = parsed(&[
            "--leader-elect=true",
            "--leader-elect-lease-duration=30s",
            "--leader-elect-renew-deadline=20s",
            "--leader-elect-retry-period=500ms",
            "--leader-elect-resource-name=a",
            "--leader-elect-resource-namespace=b",
        ]);
        assert_eq!(given.usage_error(), None);
        let candidacy = given.candidacy("operator", "olm").unwrap();
        assert_eq!(candidacy.lease, NamespacedName::new("b", "a"));
        let seconds = Duration::from_secs;
        let times = LeaseTimes::new(seconds(30), seconds(20), Duration::from_millis(500));
        assert_eq!(Ok(candidacy.times), times);
    }

    #[test]
    fn flags_of_an_election_that_cannot_be_are_refused() {
        for (flag, text) in [
            (
                "--leader-elect-retry-period=9s",
                "invalid --leader-elect-retry-period=9s: two attempts must fit",
            ),
            (
                "--leader-elect-resource-name=a/b",
                "--leader-elect-resource-name=\"a/b\" is not a valid object name",
            ),
            (
                "--leader-elect-resource-namespace=..",
                "--leader-elect-resource-namespace=\"..\" is not a valid object name",
            ),
        ] {
            let error = parsed(&["--leader-elect", flag]).usage_error().unwrap();
            assert!(error.starts_with(text), "{error}");
        }
    }

    #[track_caller]
    fn check(given: &str, kept: &str, found: &[&str]) {
        let (rest, flags) = without_log_flags(given.split(' ').map(OsString::from));
        let rest: Vec<&str> = rest.iter().filter_map(|argument| argument.to_str()).collect();
        assert_eq!(rest.join(" "), kept, "{given}");
        assert_eq!(flags, found, "{given}");
    }

    #[test]
    fn flags_of_upstreams_log_are_taken_out_with_their_values() {
        check("olm --namespace olm --debug", "olm --namespace olm --debug", &[]);
        check(
            "olm --logtostderr --namespace olm --vmodule=a=2 --stderrthreshold INFO --debug",
            "olm --namespace olm --debug",
            &["--logtostderr", "--vmodule", "--stderrthreshold"],
        );
        check(
            "olm --logtostderr=true --version",
            "olm --version",
            &["--logtostderr"],
        );
        for given in ["olm -v 4 --debug", "olm -v=4 --debug", "olm -v4 --debug"] {
            check(given, "olm --debug", &["-v"]);
        }
        let obsolete = [("--gone", false), ("--old", true)];
        let given = "olm --old 1 -v=4 --gone --debug --old=2";
        let (rest, found) = without_obsolete_flags(given.split(' ').map(OsString::from), &obsolete);
        assert_eq!(rest, ["olm", "-v=4", "--debug"]);
        assert_eq!(found, ["--old", "--gone", "--old"]);
        check("olm --v=2 --v 3", "olm", &["--v", "--v"]);
        check("olm -- --v=2", "olm -- --v=2", &[]);
        check("olm -verbose -vv=2", "olm -verbose -vv=2", &[]);
    }
}
