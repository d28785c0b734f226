//! Configuration and behaviour of an operator's stand-in.
//!
//! Tests with real bundles need the operators' images, which are unavailable without their registries. A stand-in image contains
//! this program at every path that a ClusterServiceVersion runs, and one file with the expected behaviour.
//!
//! # Guarantees
//! - A command line listed in [`Config::one_shot`] exits at once with success: init containers, exec probes, hooks.
//! - Any other one runs until SIGTERM or SIGINT, listens on [`Config::ports`] and answers every HTTP request with 200.
//! - It writes to no file and needs no particular user.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Path of the program's configuration in an image.
pub const CONFIG_PATH: &str = "/stand-in.json";
/// Path of the program in an image; the commands are links to it.
pub const PROGRAM_PATH: &str = "/stand-in";

/// Timeout for a client's request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of a request head, in bytes.
const LONGEST_HEAD: usize = 16 * 1024;
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";

/// Behaviour of one image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// TCP ports that containers of this image declare or are probed on.
    pub ports: BTreeSet<u16>,
    /// Whole command lines, program first, that exit at once with success.
    pub one_shot: BTreeSet<Vec<String>>,
}

impl Config {
    /// Returns true if this command line exits at once.
    pub fn is_one_shot(&self, arguments: &[String]) -> bool {
        self.one_shot.contains(arguments)
    }
}

/// Listens on all `ports` and answers there until the process exits. Returns the number of ports it got.
///
/// A port in use is skipped: the containers of a pod share their ports, and one image may replace the containers of several pods,
/// with the ports of all of them.
///
/// # Errors
/// If listening on a port fails for any other reason.
pub fn listen(ports: &BTreeSet<u16>) -> io::Result<usize> {
    let mut count = 0;
    for &port in ports {
        match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
            Ok(listener) => {
                thread::spawn(move || serve(&listener));
                count += 1;
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                eprintln!("port {port} is taken by another container of the pod");
            }
            Err(error) => return Err(io::Error::new(error.kind(), format!("port {port}: {error}"))),
        }
    }
    Ok(count)
}

fn serve(listener: &TcpListener) {
    // A broken connection is not an error here.
    for connection in listener.incoming().flatten() {
        thread::spawn(move || answer(connection));
    }
}

/// Answers one HTTP request; a client that only connects, such as a TCP probe, gets no answer.
fn answer(mut connection: TcpStream) -> io::Result<()> {
    connection.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let count = connection.read(&mut part)?;
        if count == 0 || head.len() > LONGEST_HEAD {
            return Ok(());
        }
        head.extend_from_slice(&part[..count]);
    }
    connection.write_all(ANSWER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// Returns a port that is free at this moment.
    fn free_port() -> u16 {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port()
    }

    #[test]
    fn only_whole_command_lines_end_at_once() {
        let config: Config =
            serde_json::from_str(r#"{"ports": [], "one_shot": [["ls"], ["/manager", "check"]]}"#).unwrap();
        assert!(config.is_one_shot(&words("ls")));
        assert!(config.is_one_shot(&words("/manager check")));
        assert!(!config.is_one_shot(&words("/manager")));
        assert!(!config.is_one_shot(&words("ls -l")));
    }

    #[test]
    fn an_http_probe_is_answered_whatever_its_path() {
        let port = free_port();
        assert_eq!(listen(&BTreeSet::from([port])).unwrap(), 1);
        for path in ["/healthz", "/a/b?c=d"] {
            let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            assert!(
                text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nok\n"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_taken_port_is_left_to_its_owner_and_the_others_are_served() {
        let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let free = free_port();
        assert_eq!(listen(&BTreeSet::from([port, free])).unwrap(), 1);
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, free)).is_ok());
    }
}
