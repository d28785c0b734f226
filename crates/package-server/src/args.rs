//! Flags as typed, named as on clusters today.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use go_compat::duration::{self, Signed};
use olm_runtime::args::Common;
use olm_runtime::tls::TlsProfile;
use rustls::SupportedProtocolVersion;

use crate::certificates::Source;

/// Base name of the certificate's files in their folder.
const PAIR: &str = "apiserver";

/// Serves PackageManifests: what the catalogs of a cluster offer, as an aggregated API.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "package-server",
    disable_version_flag = true,
    args_override_self = true
)]
pub struct Args {
    /// Namespace whose catalogs are seen in all namespaces.
    #[arg(long = "global-namespace", default_value = "", value_name = "NAMESPACE")]
    pub(crate) global_namespace: String,
    /// How often each catalog is read again; OLMConfig `cluster` may say otherwise.
    #[arg(long, default_value = "12h", value_name = "DURATION", value_parser = parse_interval, allow_hyphen_values = true)]
    pub(crate) interval: Duration,
    /// Port of HTTPS.
    #[arg(long = "secure-port", default_value_t = 443, value_name = "PORT")]
    pub(crate) secure_port: u16,
    /// Address to listen on; all of them unless said otherwise.
    #[arg(long = "bind-address", value_name = "ADDRESS")]
    pub(crate) bind_address: Option<IpAddr>,
    /// Folder of apiserver.crt and apiserver.key. Without them a certificate for localhost is made.
    #[arg(
        long = "cert-dir",
        default_value = "apiserver.local.config/certificates",
        value_name = "FOLDER"
    )]
    pub(crate) cert_dir: PathBuf,
    /// Certificate, instead of the one in the folder.
    #[arg(long = "tls-cert-file", value_name = "FILE")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Key of that certificate.
    #[arg(long = "tls-private-key-file", value_name = "FILE")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Oldest version of TLS that is spoken: VersionTLS12 or VersionTLS13.
    #[arg(long = "tls-min-version", value_name = "VERSION", value_parser = parse_tls_version)]
    pub(crate) tls_min_version: Option<TlsProfile>,
    /// How long requests are taken after the signal to stop, until nobody sends any.
    #[arg(
        long = "shutdown-delay-duration",
        default_value = "5s",
        value_name = "DURATION",
        value_parser = parse_delay
    )]
    pub(crate) shutdown_delay: Duration,
    /// Accepted for compatibility: catalogs of all namespaces are read.
    #[arg(
        long = "watched-namespaces",
        hide = true,
        default_value = "",
        value_name = "LIST"
    )]
    pub(crate) watched_namespaces: String,
    /// Accepted for compatibility, does nothing; the suites of TLS are those that are safe.
    #[arg(
        long = "tls-cipher-suites",
        hide = true,
        default_value = "",
        value_name = "LIST"
    )]
    pub(crate) tls_cipher_suites: String,
    /// Accepted for compatibility, does nothing.
    #[arg(long = "feature-gates", hide = true, default_value = "", value_name = "LIST")]
    pub(crate) feature_gates: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of upstream's server library that have no meaning here, and whether each takes a value. Callers are
/// authenticated by the cluster's settings (`extension-apiserver-authentication`) and authorized by the API
/// server.
pub const OBSOLETE: [(&str, bool); 25] = [
    ("--authentication-kubeconfig", true),
    ("--authentication-skip-lookup", false),
    ("--authentication-token-webhook-cache-ttl", true),
    ("--authentication-tolerate-lookup-failure", false),
    ("--authorization-always-allow-paths", true),
    ("--authorization-kubeconfig", true),
    ("--authorization-webhook-cache-authorized-ttl", true),
    ("--authorization-webhook-cache-unauthorized-ttl", true),
    ("--client-ca-file", true),
    ("--contention-profiling", false),
    ("--debug-socket-path", true),
    ("--disable-http2-serving", false),
    ("--enable-priority-and-fairness", false),
    ("--http2-max-streams-per-connection", true),
    ("--permit-address-sharing", false),
    ("--permit-port-sharing", false),
    ("--profiling", false),
    ("--requestheader-allowed-names", true),
    ("--requestheader-client-ca-file", true),
    ("--requestheader-extra-headers-prefix", true),
    ("--requestheader-group-headers", true),
    ("--requestheader-uid-headers", true),
    ("--requestheader-username-headers", true),
    ("--tls-curve-preferences", true),
    ("--tls-sni-cert-key", true),
];

impl Args {
    /// Returns the fault of flags that are valid individually but not together.
    pub fn usage_error(&self) -> Option<String> {
        (self.tls_cert_file.is_some() != self.tls_private_key_file.is_some())
            .then(|| "--tls-cert-file and --tls-private-key-file must be set together".to_owned())
    }

    /// Returns the given flags that have no effect in this build.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let given = [
            ("--watched-namespaces", !self.watched_namespaces.is_empty()),
            ("--tls-cipher-suites", !self.tls_cipher_suites.is_empty()),
            ("--feature-gates", !self.feature_gates.is_empty()),
        ];
        given
            .into_iter()
            .filter_map(|(flag, given)| given.then_some(flag))
            .collect()
    }

    /// Returns the source of the certificate.
    pub(crate) fn certificate(&self) -> Source {
        match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => Source {
                certificate: certificate.clone(),
                key: key.clone(),
                or_self_signed: false,
            },
            _ => Source {
                certificate: self.cert_dir.join(format!("{PAIR}.crt")),
                key: self.cert_dir.join(format!("{PAIR}.key")),
                or_self_signed: true,
            },
        }
    }

    /// Returns the accepted versions of TLS.
    pub(crate) fn tls_versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        self.tls_min_version.clone().unwrap_or_default().versions()
    }
}

/// Parses a Go duration. Zero and negative ones mean the default.
fn parse_interval(text: &str) -> Result<Duration, String> {
    const DEFAULT: Duration = Duration::from_secs(12 * 60 * 60);
    match duration::parse_signed(text) {
        Ok(Signed::Forward(Duration::ZERO) | Signed::Backward(_)) => Ok(DEFAULT),
        Ok(Signed::Forward(interval)) => Ok(interval),
        Err(_) => Err(format!(
            "invalid duration `{text}`: expected for example `90s`, `5m` or `1h30m`"
        )),
    }
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|_| format!("invalid duration `{text}`: expected for example `5s`"))
}

fn parse_tls_version(text: &str) -> Result<TlsProfile, String> {
    match text {
        // The oldest supported version.
        "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(TlsProfile::default()),
        "VersionTLS13" => Ok(TlsProfile {
            only_tls13: true,
            ..TlsProfile::default()
        }),
        _ => Err(format!(
            "invalid version `{text}`: expected VersionTLS12 or VersionTLS13"
        )),
    }
}

#[cfg(test)]
mod tests {
    use olm_runtime::args::without_obsolete_flags;
    use olm_testing::flags::assert_switch_of_go;
    use rustls::version::TLS13;

    use super::*;

    fn parse(args: &[&str]) -> Args {
        Args::try_parse_from([&["package-server"], args].concat()).unwrap()
    }

    #[test]
    fn flags_are_written_as_on_clusters_today() {
        let args = parse(&["--secure-port", "5443", "--global-namespace", "olm", "--debug"]);
        assert_eq!((args.secure_port, args.global_namespace.as_str()), (5443, "olm"));
        assert!(args.common.debug);
        assert_eq!(args.interval, Duration::from_secs(43_200));
        assert_eq!(parse(&["--interval=10m"]).interval, Duration::from_secs(600));
        assert_eq!(parse(&["--interval=0s"]).interval, Duration::from_secs(43_200));
        assert!(args.without_effect().is_empty());
        assert_eq!(
            parse(&["--watched-namespaces=a"]).without_effect(),
            ["--watched-namespaces"]
        );
    }

    /// Flags of upstream's program itself, and of its server library.
    #[test]
    fn every_flag_of_upstream_is_taken_and_others_are_refused_by_name() {
        let of_upstream = [
            "--interval=12h",
            "--global-namespace=olm",
            "--kubeconfig=/k",
            "--debug",
            "--secure-port=5443",
            "--bind-address=0.0.0.0",
            "--cert-dir=/c",
            "--tls-cert-file=/c",
            "--tls-private-key-file=/k",
            "--tls-min-version=VersionTLS12",
            "--tls-cipher-suites=a",
            "--feature-gates=A=true",
            "--watched-namespaces=a",
        ];
        let args = parse(&of_upstream);
        assert_eq!(args.usage_error(), None);
        let without_effect = ["--watched-namespaces", "--tls-cipher-suites", "--feature-gates"];
        assert_eq!(args.without_effect(), without_effect);
        let all = OBSOLETE.iter().flat_map(|(flag, takes_value)| {
            let value = takes_value.then(|| "value".to_owned());
            [(*flag).to_owned()].into_iter().chain(value)
        });
        let (rest, found) = without_obsolete_flags(all.map(Into::into), &OBSOLETE);
        assert_eq!((rest.len(), found.len()), (0, OBSOLETE.len()));
        let unknown = ["package-server", "--global-namespaces=olm"];
        let error = Args::try_parse_from(unknown).unwrap_err().to_string();
        assert!(
            error.contains("unexpected argument '--global-namespaces'"),
            "{error}"
        );
        assert!(error.contains("'--global-namespace'"), "{error}");
    }

    type Read = fn(&Args) -> bool;

    /// Boolean flags have the syntax of Go's programs.
    #[test]
    fn flags_that_are_true_or_not_are_written_as_go_takes_them() {
        let flags: [(&str, Read); 2] = [
            ("--debug", |args| args.common.debug),
            ("--version", |args| args.common.version),
        ];
        for (flag, read) in flags {
            assert_switch_of_go(flag, |given| {
                let args = Args::try_parse_from(["package-server", given]);
                args.map(|args| read(&args)).map_err(|error| error.to_string())
            });
        }
    }

    #[test]
    fn the_last_value_of_a_repeated_flag_counts() {
        let args = parse(&[
            "--debug",
            "--secure-port=5443",
            "--debug=false",
            "--secure-port",
            "1",
        ]);
        assert!(!args.common.debug);
        assert_eq!(args.secure_port, 1);
    }

    #[test]
    fn the_certificate_is_that_of_the_folder_unless_files_are_named() {
        let source = parse(&["--cert-dir=/c"]).certificate();
        assert_eq!(source.certificate, PathBuf::from("/c/apiserver.crt"));
        assert!(source.or_self_signed);
        let named = parse(&["--tls-cert-file=/a", "--tls-private-key-file=/b"]);
        assert!(!named.certificate().or_self_signed);
        assert!(parse(&["--tls-cert-file=/a"]).usage_error().is_some());
        assert_eq!(named.usage_error(), None);
    }

    #[test]
    fn the_oldest_version_of_tls_can_be_raised() {
        assert_eq!(parse(&[]).tls_versions().len(), 2);
        assert_eq!(parse(&["--tls-min-version=VersionTLS10"]).tls_versions().len(), 2);
        assert_eq!(
            parse(&["--tls-min-version=VersionTLS13"]).tls_versions(),
            [&TLS13]
        );
        assert!(Args::try_parse_from(["package-server", "--tls-min-version=9"]).is_err());
    }
}
