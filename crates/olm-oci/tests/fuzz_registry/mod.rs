//! A registry that answers with arbitrary bytes, and a client that must survive it.
//!
//! An input is a script: answers for the places that a client visits, divided by [`DIVIDER`]. The places are
//! the manifest before and after authentication, the token service, configuration, layer, and the host of
//! redirects. The first byte of an answer decides how it ends. The rest is sent unchanged, with names in
//! braces replaced by values of the test (`{origin}`, `{digest}`, …).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use olm_oci::{
    Credentials, ImageArchive, ImageSpec, LayerSpec, Limits, Puller, Reference, RegistryConfig, Spool, View,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fuzzing::Random;

const DIVIDER: u8 = 0x1e;
/// Places that are answered, in the order of a script.
const PLACES: usize = 6;
/// Secrets that must not leak: the password as it is sent, the identity token, the service's token, a
/// configured header.
const SECRETS: [&str; 4] = ["dXNlcjpzZWNyZXQ=", "who-i-am", "the-ticket", "hush-hush"];
/// Bytes that all servers together may send on one pull: those that are read, and those in the system's
/// buffers.
const MAX_BYTES: u64 = 64 << 20;
/// Requests of one pull: five places, twice for each credential, with redirects.
const MAX_REQUESTS: usize = 200;

/// Small limits, so that they are met.
const LIMITS: Limits = Limits {
    document: 1 << 16,
    layers: 4,
    layer: 3 << 20,
    transfer: 4 << 20,
    unpacked: 8 << 20,
    entries: 200,
    file: 1 << 16,
    content: 1 << 18,
    connect: Duration::from_millis(500),
    idle: Duration::from_millis(150),
    answer: Duration::from_millis(500),
    grace: Duration::from_millis(500),
    floor: 4 << 20,
    time: Duration::from_secs(3),
};

/// Values that a script can name.
pub struct Known {
    image: ImageArchive,
    config: (String, Vec<u8>),
    layer: (String, Vec<u8>),
}

impl Known {
    /// Returns an image whose layer is too large for memory.
    pub fn new() -> Self {
        let mut random = Random::new(11);
        let noise: Vec<u8> = (0..(1 << 20) + (1 << 18)).map(|_| random.next() as u8).collect();
        let mut layer = LayerSpec::new();
        layer
            .file("manifests/a.yaml", "kind: A\n", 0o644, 0)
            .expect("file");
        layer.file("noise", noise, 0o644, 0).expect("file");
        let image = ImageSpec {
            layers: vec![layer],
            ..ImageSpec::default()
        };
        let image = image.build().expect("image");
        let blob = |is_layer: bool| {
            let mut blobs = image.blobs().iter();
            let found = blobs.find(|(_, blob)| (blob.len() > 1 << 20) == is_layer);
            let (digest, blob) = found.expect("blob");
            (digest.to_string(), blob.to_vec())
        };
        let (config, layer) = (blob(false), blob(true));
        Self { image, config, layer }
    }

    fn replace(&self, text: &[u8], origin: SocketAddr, tokens: SocketAddr, other: SocketAddr) -> Vec<u8> {
        let pieces: [(&[u8], Vec<u8>); 9] = [
            (b"{origin}", format!("http://{origin}").into()),
            (b"{tokens}", format!("http://{tokens}").into()),
            (b"{other}", format!("http://{other}").into()),
            (b"{digest}", self.image.digest().to_string().into()),
            (b"{manifest}", self.image.manifest().to_vec()),
            (b"{config}", self.config.1.clone()),
            (b"{layer}", self.layer.1.clone()),
            (
                b"{config-path}",
                format!("/v2/a/b/blobs/{}", self.config.0).into(),
            ),
            (b"{layer-path}", format!("/v2/a/b/blobs/{}", self.layer.0).into()),
        ];
        let mut out = Vec::new();
        let mut rest = text;
        while let Some(&first) = rest.first() {
            let known = pieces.iter().find(|(name, _)| rest.starts_with(name));
            match known {
                // A script of a thousand layers would test the memory of the test.
                Some((name, value)) if out.len() < 8 << 20 => {
                    out.extend_from_slice(value);
                    rest = &rest[name.len()..];
                }
                _ => {
                    out.push(first);
                    rest = &rest[1..];
                }
            }
        }
        out
    }

    /// Returns scripts that work, and some that fail in known ways.
    pub fn seeds() -> Vec<Vec<u8>> {
        let join = |answers: [&str; PLACES]| answers.join("\x1e").into_bytes();
        let mut seeds: Vec<Vec<u8>> = vec![join(GOOD)];
        for (place, answer) in [(2, FAULTS[0]), (4, FAULTS[1]), (3, FAULTS[2])] {
            let mut answers = GOOD;
            answers[place] = answer;
            seeds.push(join(answers));
        }
        seeds
    }
}

const GOOD: [&str; PLACES] = [
    "CHTTP/1.1 401 X\r\nwww-authenticate: Bearer realm=\"{tokens}/token\",service=\"s\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    "CHTTP/1.1 200 X\r\nconnection: close\r\n\r\n{\"token\":\"the-ticket\"}",
    "CHTTP/1.1 200 X\r\nconnection: close\r\ndocker-content-digest: {digest}\r\n\r\n{manifest}",
    "CHTTP/1.1 200 X\r\nconnection: close\r\n\r\n{config}",
    "CHTTP/1.1 307 X\r\nlocation: {other}{layer-path}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    "CHTTP/1.1 200 X\r\nconnection: close\r\n\r\n{layer}",
];

/// Answers that are inserted anywhere.
const FAULTS: [&str; 16] = [
    "CHTTP/1.1 307 X\r\nlocation: {origin}/v2/a/b/manifests/v1\r\ncontent-length: 0\r\n\r\n",
    "CHTTP/1.1 200 X\r\ncontent-length: 99999999999999999999\r\n\r\n{layer}",
    "CHTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nfffffffffffffff\r\n",
    "EHTTP/1.1 200 X\r\n\r\n0",
    "EHTTP/1.1 200 X\r\nx-more: 1\r\n",
    "EHTTP/1.1 100 X\r\n\r\n",
    "DHTTP/1.1 200 X\r\n\r\n{\"token\":\"",
    "HHTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\n12345",
    "H",
    "CHTTP/1.1 500 X\r\n\r\n{\"errors\":[{\"code\":\"UNKNOWN\",\"message\":\"no\"}]}",
    "CHTTP/1.1 401 X\r\nwww-authenticate: Basic realm=\"x\"\r\ncontent-length: 0\r\n\r\n",
    "CHTTP/1.1 302 X\r\nlocation: {other}/x\r\ncontent-length: 0\r\n\r\n",
    "CHTTP/1.1 302 X\r\nlocation: https://user:pw@127.0.0.1:1/\r\n\r\n",
    "CHTTP/1.1 200 X\r\ncontent-encoding: gzip\r\n\r\n\u{1f}\u{7f}",
    "EHTTP/1.1 404 X\r\n\r\n{\"errors\":[",
    "C\u{0}\u{1}\u{2}",
];

/// Returns a script with good answers in most places and faults in some.
pub fn script(_: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
    let mut answers: Vec<String> = GOOD.iter().map(|answer| (*answer).to_owned()).collect();
    for answer in &mut answers {
        match random.below(12) {
            0 => (*random.of(&FAULTS)).clone_into(answer),
            1 => (*random.of(&GOOD)).clone_into(answer),
            2 => answer.replace_range(..1, ["C", "E", "D", "H"][random.below(4)]),
            3 => answer.truncate(random.below(answer.len())),
            _ => {}
        }
    }
    Some(answers.join("\x1e").into_bytes())
}

/// Record of the servers' work.
#[derive(Default)]
struct Log {
    sent: AtomicU64,
    requests: AtomicUsize,
    /// Requests to the host of redirects, and to the registry.
    other: Mutex<Vec<u8>>,
    registry: Mutex<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Registry,
    Tokens,
    Other,
}

struct Servers {
    answers: Vec<Vec<u8>>,
    config_path: String,
    layer_path: String,
    log: Log,
}

impl Servers {
    fn answer_to(&self, role: Role, head: &[u8]) -> &[u8] {
        let head = String::from_utf8_lossy(head);
        let has = |text: &str| head.contains(text);
        let place = match role {
            Role::Tokens => 1,
            Role::Other => 5,
            Role::Registry if has(&self.config_path) => 3,
            Role::Registry if has(&self.layer_path) => 4,
            Role::Registry if has("authorization: ") => 2,
            Role::Registry => 0,
        };
        self.answers.get(place).map_or(&[], Vec::as_slice)
    }

    async fn serve(&self, mut stream: TcpStream, role: Role) {
        let mut head = Vec::new();
        let mut buffer = [0_u8; 4096];
        while !head.windows(4).any(|window| window == b"\r\n\r\n") && head.len() < 1 << 16 {
            match stream.read(&mut buffer).await {
                Ok(read) if read > 0 => head.extend_from_slice(&buffer[..read]),
                _ => return,
            }
        }
        // The body of a form may arrive after its head.
        if head.starts_with(b"POST") {
            let more = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut buffer)).await;
            head.extend_from_slice(&buffer[..more.map_or(0, |read| read.unwrap_or(0))]);
        }
        self.log.requests.fetch_add(1, Ordering::Relaxed);
        match role {
            Role::Other => self.log.other.lock().expect("lock").extend_from_slice(&head),
            Role::Registry => self.log.registry.lock().expect("lock").extend_from_slice(&head),
            Role::Tokens => {}
        }
        let Some((end, answer)) = self.answer_to(role, &head).split_first() else {
            return;
        };
        if !self.send(&mut stream, answer).await {
            return;
        }
        match end {
            b'E' => {
                let tail = &answer[answer.len().saturating_sub(64)..];
                let endless = tail.repeat((1 << 16) / tail.len().max(1));
                while !endless.is_empty() && self.send(&mut stream, &endless).await {}
            }
            b'D' => {
                while self.send(&mut stream, b"0").await {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            b'H' => drop(stream.read(&mut buffer).await),
            _ => drop(stream.shutdown().await),
        }
    }

    async fn send(&self, stream: &mut TcpStream, bytes: &[u8]) -> bool {
        let is_sent = stream.write_all(bytes).await.is_ok();
        self.log.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        is_sent
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    let address = listener.local_addr().expect("address");
    (listener, address)
}

/// Returns credentials of one kind or another; the input's length decides.
fn credentials(input: &[u8], origin: SocketAddr) -> Credentials {
    let kind = match input.len() % 3 {
        0 => r#""username":"user","password":"secret""#,
        1 => r#""auth":"MDA6","identitytoken":"who-i-am""#,
        _ => return Credentials::anonymous(),
    };
    let text = format!(r#"{{"auths":{{"{origin}":{{{kind}}}}}}}"#);
    Credentials::from_docker_config(text.as_bytes(), "test").expect("credentials")
}

/// Returns whether the registry itself names the host of redirects as its token service, which then gets
/// credentials.
fn makes_other_a_token_service(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input).to_ascii_lowercase();
    text.match_indices("realm").any(|(at, _)| {
        let rest = text.get(at..).unwrap_or_default();
        rest.chars().take(300).collect::<String>().contains("{other}")
    })
}

/// Pulls from a registry that answers by an input's script; returns whether there was an image.
pub async fn pull(known: &Known, input: &[u8]) -> bool {
    let (registry, origin) = listen().await;
    let (tokens, tokens_at) = listen().await;
    let (other, other_at) = listen().await;
    let answers = input.split(|byte| *byte == DIVIDER).take(PLACES);
    let servers = Arc::new(Servers {
        answers: answers
            .map(|answer| known.replace(answer, origin, tokens_at, other_at))
            .collect(),
        config_path: known.config.0.clone(),
        layer_path: known.layer.0.clone(),
        log: Log::default(),
    });
    let mut tasks = tokio::task::JoinSet::new();
    for (listener, role) in [
        (registry, Role::Registry),
        (tokens, Role::Tokens),
        (other, Role::Other),
    ] {
        let servers = Arc::clone(&servers);
        tasks.spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let servers = Arc::clone(&servers);
                connections.spawn(async move { servers.serve(stream, role).await });
            }
        });
    }

    let dir = tempfile::tempdir().expect("folder");
    let hosts = dir.path().join("hosts").join(origin.to_string());
    std::fs::create_dir_all(&hosts).expect("folder");
    let text = format!("server = \"http://{origin}\"\n[header]\nx-key = \"hush-hush\"\n");
    std::fs::write(hosts.join("hosts.toml"), text).expect("file");
    let spool = dir.path().join("spool");
    let puller = Puller::new(RegistryConfig::from_dir(dir.path().join("hosts")))
        .with_limits(LIMITS)
        .with_spool(Spool::new(&spool, 4 << 20));
    let reference: Reference = format!("{origin}/a/b:v1").parse().expect("reference");
    let credentials = credentials(input, origin);
    let view: View = |_| vec!["manifests".to_owned()];
    let began = tokio::time::Instant::now();
    let content = puller.content(&reference, &credentials, view).await;
    let took = began.elapsed();
    drop(tasks);

    // The limit, and the delay of a busy machine.
    assert!(
        took < LIMITS.time + Duration::from_secs(10),
        "the pull took {took:?}"
    );
    let log = &servers.log;
    let (sent, requests) = (
        log.sent.load(Ordering::Relaxed),
        log.requests.load(Ordering::Relaxed),
    );
    // Interim answers (1xx) are read and dropped one by one, within the time of an answer. They are bounded
    // in time and memory, but not in bytes.
    let announces = input.windows(10).any(|text| text == b"HTTP/1.1 1");
    assert!(announces || sent < MAX_BYTES, "{sent} bytes were taken");
    assert!(requests < MAX_REQUESTS, "{requests} requests were made");
    let left = std::fs::read_dir(&spool).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files are left in the spool");
    let told = |bytes: &Mutex<Vec<u8>>| String::from_utf8_lossy(&bytes.lock().expect("lock")).into_owned();
    if !makes_other_a_token_service(input) {
        let other = told(&log.other);
        for secret in SECRETS {
            assert!(!other.contains(secret), "another host was told {secret}: {other}");
        }
    }
    assert!(
        !told(&log.registry).contains("who-i-am"),
        "the registry was shown an identity token"
    );
    if let Err(error) = &content {
        let error = error.to_string();
        for secret in SECRETS {
            // Text that a registry itself sends may appear in an error.
            assert!(
                input.windows(secret.len()).any(|text| text == secret.as_bytes()) || !error.contains(secret),
                "{error}"
            );
        }
    }
    content.is_ok_and(|content| content.files.len() == 1)
}
