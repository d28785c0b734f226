//! Shared parts of the tests over real HTTP: a scripted server, a real registry, and images to serve.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use olm_oci::{ImageArchive, ImageSpec, LayerSpec, Reference, RunConfig, View};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The view used here: everything below `manifests`.
pub const MANIFESTS: View = |_| vec!["/manifests/".to_owned()];

/// Returns an image with two layers, the second hiding a file of the first.
pub fn image() -> ImageArchive {
    let mut low = LayerSpec::new();
    low.file("manifests/csv.yaml", "kind: ClusterServiceVersion\n", 0o644, 0)
        .expect("file");
    low.file("manifests/old.yaml", "kind: Old\n", 0o644, 0)
        .expect("file");
    low.file("bin/tool", vec![7u8; 100_000], 0o755, 0).expect("file");
    let mut high = LayerSpec::new();
    high.file("manifests/.wh.old.yaml", "", 0o644, 0).expect("file");
    high.file("manifests/crd.yaml", "kind: CustomResourceDefinition\n", 0o644, 0)
        .expect("file");
    let labels = [("package".to_owned(), "demo".to_owned())].into();
    let config = RunConfig {
        labels,
        ..RunConfig::default()
    };
    ImageSpec {
        base: None,
        layers: vec![low, high],
        config,
    }
    .build()
    .expect("image")
}

/// Returns an image with one layer of a bit more than `bytes` when compressed, with a manifest in it.
pub fn large_image(bytes: usize) -> ImageArchive {
    let mut state = 7_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(bytes)
    .collect();
    let mut layer = LayerSpec::new();
    layer
        .file("manifests/csv.yaml", "kind: ClusterServiceVersion\n", 0o644, 0)
        .expect("file");
    layer.file("bin/noise", noise, 0o755, 0).expect("file");
    ImageSpec {
        layers: vec![layer],
        ..ImageSpec::default()
    }
    .build()
    .expect("image")
}

/// One answer of the scripted server.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Sends only so many bytes of the body, then closes the connection.
    pub cut: Option<usize>,
    /// Continuation of the body, without a length that announces its end.
    pub tail: Option<Tail>,
    /// Time before the first byte, and a tenth of it again before the body.
    pub late: Duration,
}

/// Continuation of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Tail {
    /// Zeros as fast as they are taken, endlessly.
    Endless,
    /// A zero after each pause, endlessly.
    Drip(Duration),
}

impl Answer {
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
            cut: None,
            tail: None,
            late: Duration::ZERO,
        }
    }

    pub fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::ok("")
        }
    }

    pub fn tail(self, tail: Tail) -> Self {
        Self {
            tail: Some(tail),
            ..self
        }
    }

    pub fn late(self, late: Duration) -> Self {
        Self { late, ..self }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A request as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub path: String,
    pub query: String,
    pub authorization: String,
    /// The header `x-key`.
    pub key: String,
    /// Method and body of a request that is not a GET.
    pub posted: String,
}

type Script = dyn Fn(&Seen) -> Answer + Send + Sync;

/// A server that answers as scripted and records its requests.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = listener.local_addr().expect("address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&script), Arc::clone(&log)));
            }
        });
        Self { address, seen, task }
    }

    /// Returns the script of a registry with one image under `repository`, by tag `v1` and by digest.
    pub fn registry_script(
        repository: &str,
        image: &ImageArchive,
    ) -> impl Fn(&Seen) -> Answer + Send + Sync + use<> {
        let mut objects = BTreeMap::new();
        for selector in ["v1", image.digest().as_str()] {
            let answer = Answer::ok(image.manifest().clone())
                .header("content-type", image.media_type())
                .header("docker-content-digest", image.digest().as_str());
            objects.insert(format!("/v2/{repository}/manifests/{selector}"), answer);
        }
        for (digest, blob) in image.blobs() {
            objects.insert(
                format!("/v2/{repository}/blobs/{digest}"),
                Answer::ok(blob.clone()),
            );
        }
        move |seen| {
            objects
                .get(&seen.path)
                .cloned()
                .unwrap_or_else(|| Answer::status(404))
        }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("lock").clone()
    }

    /// Returns a name whose registry is this server.
    pub fn reference(&self, rest: &str) -> Reference {
        format!("{}/{rest}", self.address).parse().expect("reference")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream, script: Arc<Script>, log: Arc<Mutex<Vec<Seen>>>) {
    let mut head = Vec::new();
    let mut buffer = [0u8; 4096];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => head.extend_from_slice(&buffer[..read]),
            _ => return,
        }
        // A TLS client is disconnected, as by any server of plain http.
        if head.first() == Some(&0x16) {
            return;
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let (head, mut body) = text
        .split_once("\r\n\r\n")
        .map(|(head, body)| (head.to_owned(), body.to_owned()))
        .expect("headers end");
    let field = |wanted: &str| {
        head.lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map_or(String::new(), |(_, value)| value.to_owned())
    };
    while body.len() < field("content-length").parse().unwrap_or(0) {
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => body.push_str(&String::from_utf8_lossy(&buffer[..read])),
            _ => return,
        }
    }
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let posted = match head.split(' ').next() {
        Some("GET") | None => String::new(),
        Some(method) => format!("{method} {body}"),
    };
    let seen = Seen {
        path: path.into(),
        query: query.into(),
        authorization: field("authorization"),
        key: field("x-key"),
        posted,
    };
    let answer = script(&seen);
    log.lock().expect("lock").push(seen);
    let mut text = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", answer.status);
    if answer.tail.is_none() {
        text.push_str(&format!("content-length: {}\r\n", answer.body.len()));
    }
    for (name, value) in &answer.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let body = &answer.body[..answer.cut.unwrap_or(answer.body.len())];
    tokio::time::sleep(answer.late).await;
    let _ = stream.write_all(text.as_bytes()).await;
    tokio::time::sleep(answer.late / 10).await;
    let _ = stream.write_all(body).await;
    while let Some(tail) = answer.tail {
        let (length, pause) = match tail {
            Tail::Endless => (1 << 16, Duration::ZERO),
            Tail::Drip(pause) => (1, pause),
        };
        tokio::time::sleep(pause).await;
        if stream.write_all(&vec![b'0'; length]).await.is_err() {
            break;
        }
    }
    let _ = stream.shutdown().await;
}

/// A registry program of the machine, with an empty store of its own on a free port.
pub struct Registry {
    pub address: String,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Registry {
    /// Starts a registry. `None`, with the reason printed, when the machine has none; with `CI` set that is a
    /// failure.
    pub fn start(htpasswd: Option<&str>) -> Option<Self> {
        Self::start_with(htpasswd, None)
    }

    /// Starts it with TLS, with a certificate and its key as PEM.
    pub fn start_tls(certificate: &str, key: &str) -> Option<Self> {
        Self::start_with(None, Some((certificate, key)))
    }

    fn start_with(htpasswd: Option<&str>, tls: Option<(&str, &str)>) -> Option<Self> {
        let program = std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path)
                .map(|dir| dir.join("docker-registry"))
                .find(|file| file.is_file())
        });
        let Some(program) = program else {
            let text = "no `docker-registry` in PATH (Debian package docker-registry): cannot test against a real registry";
            assert!(std::env::var_os("CI").is_none(), "{text}");
            println!("skipped: {text}");
            return None;
        };
        Some(Self::start_program(&program, htpasswd, tls))
    }

    fn start_program(program: &Path, htpasswd: Option<&str>, tls: Option<(&str, &str)>) -> Self {
        let dir = tempfile::tempdir().expect("folder");
        let address = unused_address();
        let mut http = format!("addr: '{address}'");
        if let Some((certificate, key)) = tls {
            let files = [("tls.crt", certificate), ("tls.key", key)].map(|(name, text)| {
                let file = dir.path().join(name);
                std::fs::write(&file, text).expect("file");
                file.display().to_string()
            });
            http.push_str(&format!(
                ", tls: {{certificate: {}, key: {}}}",
                files[0], files[1]
            ));
        }
        let mut config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{{http}}}\n",
            dir.path().join("store").display()
        );
        if let Some(htpasswd) = htpasswd {
            let file = dir.path().join("htpasswd");
            std::fs::write(&file, htpasswd).expect("file");
            config.push_str(&format!(
                "auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
                file.display()
            ));
        }
        let file = dir.path().join("config.yml");
        std::fs::write(&file, config).expect("file");
        let mut child = Command::new(program)
            .arg("serve")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("registry starts");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_served(&address) {
            assert!(Instant::now() < deadline, "the registry does not listen");
            assert!(child.try_wait().expect("state").is_none(), "the registry ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self {
            address,
            child,
            _dir: dir,
        }
    }
}

/// Returns an address of this machine that no other registry of this process got. The kernel may give a port
/// out twice while a program that will listen on it starts. A test would then use a registry that another
/// test ends.
fn unused_address() -> String {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("port")
            .port();
        if GIVEN.lock().expect("ports").insert(port) {
            return format!("127.0.0.1:{port}");
        }
    }
}

/// Returns whether there is a listener. A client that connects to a free port may get that very port as its
/// own, and is then connected to itself.
fn is_served(address: &str) -> bool {
    let Ok(stream) = std::net::TcpStream::connect(address) else {
        return false;
    };
    stream.local_addr().ok() != stream.peer_addr().ok()
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
