//! `grpc_health_probe`: checks the health of a gRPC server, with the flags and exit codes of the probes in use.
//!
//! Flags have Go's syntax: one dash or two, the value after `=` or as next argument.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use olm_fbc::did_you_mean::did_you_mean;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const INVALID_ARGUMENTS: u8 = 1;
const CONNECTION_FAILED: u8 = 2;
const REQUEST_FAILED: u8 = 3;
const UNHEALTHY: u8 = 4;

/// TLS flags of other probes, which this one does not support.
const ENCRYPTION: [&str; 8] = [
    "tls",
    "tls-no-verify",
    "tls-ca-cert",
    "tls-client-cert",
    "tls-client-key",
    "tls-server-name",
    "spiffe",
    "alts",
];
/// Supported flags; `v` takes no value.
const FLAGS: [&str; 6] = [
    "addr",
    "service",
    "connect-timeout",
    "rpc-timeout",
    "user-agent",
    "v",
];

const USAGE: &str =
    "usage: grpc_health_probe -addr=HOST:PORT [-service=NAME] [-connect-timeout=1s] [-rpc-timeout=1s]";

#[derive(Debug, PartialEq, Eq)]
struct Probe {
    address: String,
    service: String,
    connect_timeout: Duration,
    request_timeout: Duration,
}

/// Runs the probe. Exit codes: 0 serving, 1 wrong arguments, 2 cannot connect, 3 the request failed, 4 not serving.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let asks_for_help = |argument: &String| matches!(argument.trim_start_matches('-'), "help" | "h");
    if arguments
        .iter()
        .any(|argument| argument.starts_with('-') && asks_for_help(argument))
    {
        let _ = writeln!(std::io::stdout(), "{USAGE}");
        return ExitCode::SUCCESS;
    }
    let probe = match parse(arguments) {
        Ok(probe) => probe,
        Err(text) => return fail(INVALID_ARGUMENTS, &format!("{text}\n{USAGE}")),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(CONNECTION_FAILED, &format!("cannot start: {error}")),
    };
    match runtime.block_on(check(&probe)) {
        Ok(()) => {
            let _ = writeln!(std::io::stdout(), "status: SERVING");
            ExitCode::SUCCESS
        }
        Err((code, text)) => fail(code, &text),
    }
}

fn fail(code: u8, text: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(code)
}

async fn check(probe: &Probe) -> Result<(), (u8, String)> {
    let channel = tokio::time::timeout(probe.connect_timeout, connect(probe))
        .await
        .unwrap_or_else(|_| {
            let (address, waited) = (&probe.address, probe.connect_timeout);
            let text = format!("timeout: failed to connect service {address:?} within {waited:?}");
            Err((CONNECTION_FAILED, text))
        })?;
    let request = HealthCheckRequest {
        service: probe.service.clone(),
    };
    let response = HealthClient::new(channel)
        .check(request)
        .await
        .map_err(|status| {
            let text = match status.code() {
                tonic::Code::Unimplemented => {
                    "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
                        .to_owned()
                }
                tonic::Code::DeadlineExceeded | tonic::Code::Cancelled => {
                    format!(
                        "timeout: health rpc did not complete within {:?}",
                        probe.request_timeout
                    )
                }
                _ => format!("error: health rpc failed: {}", status.message()),
            };
            (REQUEST_FAILED, text)
        })?;
    match response.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        other => Err((
            UNHEALTHY,
            format!("service unhealthy (responded with {:?})", other.as_str_name()),
        )),
    }
}

/// Connects to the server, at the first address that responds.
async fn connect(probe: &Probe) -> Result<Channel, (u8, String)> {
    let address = &probe.address;
    // Go uses this machine for an empty host. The name `localhost` is not used, because an image need not have /etc/hosts.
    let hosts: &[&str] = if address.starts_with(':') {
        &["127.0.0.1", "[::1]"]
    } else {
        &[""]
    };
    let mut refusal = String::new();
    for host in hosts {
        let endpoint = Endpoint::from_shared(format!("http://{host}{address}"))
            .map_err(|error| {
                (
                    INVALID_ARGUMENTS,
                    format!("error: invalid -addr {address:?}: {error}"),
                )
            })?
            .timeout(probe.request_timeout);
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(error) => {
                refusal =
                    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            }
        }
    }
    Err((
        CONNECTION_FAILED,
        format!("error: failed to connect service at {address:?}: {refusal}"),
    ))
}

fn parse(arguments: &[String]) -> Result<Probe, String> {
    let mut probe = Probe {
        address: String::new(),
        service: String::new(),
        connect_timeout: Duration::from_secs(1),
        request_timeout: Duration::from_secs(1),
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let flag = argument
            .strip_prefix("--")
            .or_else(|| argument.strip_prefix('-'))
            .ok_or_else(|| format!("error: unexpected argument {argument:?}"))?;
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        if ENCRYPTION.contains(&name) {
            return Err(format!(
                "error: flag -{name} is not supported: this probe speaks plaintext only"
            ));
        }
        if !FLAGS.contains(&name) {
            let meant = did_you_mean(name, FLAGS)
                .map_or_else(String::new, |meant| format!(": did you mean -{meant}?"));
            return Err(format!("error: unknown flag -{name}{meant}"));
        }
        // Verbosity is the only boolean flag; it has no effect.
        if name == "v" {
            continue;
        }
        let value = value
            .or_else(|| rest.next().cloned())
            .ok_or_else(|| format!("error: flag -{name} needs a value"))?;
        match name {
            "addr" => probe.address = value,
            "service" => probe.service = value,
            "connect-timeout" => probe.connect_timeout = parse_duration(name, &value)?,
            "rpc-timeout" => probe.request_timeout = parse_duration(name, &value)?,
            // The user agent is ignored.
            _ => {}
        }
    }
    if probe.address.is_empty() {
        return Err("error: -addr not specified".to_owned());
    }
    Ok(probe)
}

/// Parses a Go duration that is not zero.
fn parse_duration(flag: &str, text: &str) -> Result<Duration, String> {
    go_compat::duration::parse(text)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("error: invalid duration {text:?} for -{flag}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Probe, String> {
        parse(
            &arguments
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn flags_are_taken_as_go_takes_them() {
        let expected = Probe {
            address: ":50051".into(),
            service: "Registry".into(),
            connect_timeout: Duration::from_millis(1500),
            request_timeout: Duration::from_secs(90),
        };
        for arguments in [
            &[
                "-addr=:50051",
                "-service=Registry",
                "-connect-timeout=1500ms",
                "-rpc-timeout=1m30s",
            ][..],
            &[
                "--addr",
                ":50051",
                "-v",
                "--service",
                "Registry",
                "-connect-timeout",
                "1.5s",
                "-rpc-timeout",
                "90s",
            ],
        ] {
            assert_eq!(parsed(arguments).as_ref(), Ok(&expected));
        }
    }

    #[test]
    fn wrong_flags_are_reported() {
        for (arguments, expected) in [
            (&[][..], "-addr not specified"),
            (&["addr"], "unexpected argument \"addr\""),
            (&["-addr"], "flag -addr needs a value"),
            (
                &["-addr=:1", "-tls=true"],
                "flag -tls is not supported: this probe speaks plaintext only",
            ),
            (&["-addr=:1", "-tls"], "flag -tls is not supported"),
            (&["-adr", ":1"], "error: unknown flag -adr: did you mean -addr?"),
            (&["-adr"], "error: unknown flag -adr: did you mean -addr?"),
            (
                &["--rpc-timout=1s"],
                "unknown flag -rpc-timout: did you mean -rpc-timeout?",
            ),
            (&["-addr=:1", "-gzip"], "error: unknown flag -gzip"),
            (&["-addr=:1", "-rpc-timeout=5"], "invalid duration \"5\""),
            (&["-addr=:1", "-rpc-timeout=0s"], "invalid duration \"0s\""),
            (&["-addr=:1", "-rpc-timeout=5y"], "invalid duration \"5y\""),
        ] {
            let error = parsed(arguments).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
