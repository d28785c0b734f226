//! Calls the served port with another project's client: grpcurl, which finds the contract by reflection.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{catalog, program, text};

const MODULE: &str = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3";

/// Returns grpcurl from PATH, or built once with Go below the target folder. `None` if there is neither; the reason is printed.
/// With `CI` set that is a failure.
fn grpcurl() -> Option<PathBuf> {
    let found = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path)
            .map(|dir| dir.join("grpcurl"))
            .find(|file| file.is_file())
    });
    if found.is_some() {
        return found;
    }
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bin");
    let built = tools.join("grpcurl");
    if built.is_file() {
        return Some(built);
    }
    let install = Command::new("go")
        .args(["install", MODULE])
        .env("GOBIN", &tools)
        .output();
    let reason = match install {
        Ok(output) if output.status.success() => return Some(built),
        Ok(output) => format!(
            "go install {MODULE} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => format!("no grpcurl and no go in PATH: {error}"),
    };
    assert!(std::env::var_os("CI").is_none(), "{reason}");
    println!("skipped: {reason}");
    None
}

struct Server {
    child: Child,
    address: String,
    grpcurl: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(catalog: &Path, grpcurl: PathBuf) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("port")
            .port();
        let child = program()
            .args(["serve", text(catalog), "--port", &port.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .expect("opm runs");
        let server = Self {
            child,
            address: format!("127.0.0.1:{port}"),
            grpcurl,
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect(&server.address).is_err() {
            assert!(Instant::now() < deadline, "opm does not serve");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Returns the answers of a method, or the client's error message.
    fn call(&self, method: &str, request: &Value, headers: &[&str]) -> Result<Vec<Value>, String> {
        let mut command = Command::new(&self.grpcurl);
        for header in headers {
            command.args(["-H", header]);
        }
        let output = command
            .args(["-plaintext", "-d", &request.to_string(), &self.address, method])
            .output()
            .expect("grpcurl runs");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let answers: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(&output.stdout)
            .into_iter()
            .collect();
        Ok(answers.expect("JSON"))
    }
}

#[test]
fn grpcurl_finds_and_calls_every_method() {
    let Some(grpcurl) = grpcurl() else { return };
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    std::fs::write(
        catalog.join("notes.json"),
        r#"{"schema": "custom.note", "package": "demo", "text": "n"}"#,
    )
    .expect("file");
    let server = Server::start(&catalog, grpcurl);
    let listed = Command::new(&server.grpcurl)
        .args(["-plaintext", &server.address, "list"])
        .output()
        .expect("grpcurl runs");
    let services = String::from_utf8_lossy(&listed.stdout).into_owned();
    for service in [
        "api.Registry",
        "api.ExperimentalRegistry",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ] {
        assert!(
            services.lines().any(|line| line == service),
            "{service} is missing in {services}"
        );
    }
    let call = |method: &str, request: Value| server.call(&format!("api.Registry/{method}"), &request, &[]);
    let names = |answers: Vec<Value>, key: &str| -> Vec<String> {
        answers
            .iter()
            .map(|answer| answer[key].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(
        names(call("ListPackages", json!({})).expect("answers"), "name"),
        ["demo"]
    );
    let package = call("GetPackage", json!({"name": "demo"})).expect("answer");
    assert_eq!(
        package[0],
        json!({"name": "demo", "channels": [{"name": "stable", "csvName": "demo.v1.1.0"}], "defaultChannelName": "stable"})
    );
    let bundles = call("ListBundles", json!({})).expect("answers");
    assert_eq!(names(bundles, "csvName"), ["demo.v1.0.0", "demo.v1.1.0"]);
    let wanted = json!({"pkgName": "demo", "channelName": "stable", "csvName": "demo.v1.0.0"});
    let bundle = &call("GetBundle", wanted).expect("answer")[0];
    assert_eq!(
        (
            bundle["version"].as_str(),
            bundle["object"].as_array().map(Vec::len)
        ),
        (Some("1.0.0"), Some(2))
    );
    let head = call(
        "GetBundleForChannel",
        json!({"pkgName": "demo", "channelName": "stable"}),
    )
    .expect("answer");
    assert_eq!(head[0]["csvName"], "demo.v1.1.0");
    let next = json!({"csvName": "demo.v1.0.0", "pkgName": "demo", "channelName": "stable"});
    assert_eq!(
        call("GetBundleThatReplaces", next).expect("answer")[0]["csvName"],
        "demo.v1.1.0"
    );
    let replacing = call("GetChannelEntriesThatReplace", json!({"csvName": "demo.v1.0.0"})).expect("answers");
    assert_eq!(names(replacing, "bundleName"), ["demo.v1.1.0"]);
    let api = json!({"group": "demo.example.com", "version": "v1", "kind": "Thing"});
    let providing = call("GetChannelEntriesThatProvide", api.clone()).expect("answers");
    assert_eq!(names(providing, "bundleName"), ["demo.v1.0.0", "demo.v1.1.0"]);
    let latest = call("GetLatestChannelEntriesThatProvide", api.clone()).expect("answers");
    assert_eq!(names(latest, "bundleName"), ["demo.v1.1.0"]);
    assert_eq!(
        call("GetDefaultBundleThatProvides", api).expect("answer")[0]["csvName"],
        "demo.v1.1.0"
    );

    let custom = |headers: &[&str]| {
        let request = json!({"schema": "custom.note", "packageName": "demo"});
        server.call(
            "api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas",
            &request,
            headers,
        )
    };
    assert_eq!(
        custom(&["x-acknowledge-experimental: true"]).expect("answers")[0]["text"],
        "n"
    );
    assert_eq!(custom(&[]).expect("empty"), Vec::<Value>::new());
    let error = call("GetPackage", json!({"name": "x"})).expect_err("absent");
    assert!(
        error.contains("Code: Unknown") && error.contains("Message: package \"x\" not found"),
        "{error}"
    );
    let health = server
        .call(
            "grpc.health.v1.Health/Check",
            &json!({"service": "Registry"}),
            &[],
        )
        .expect("answer");
    assert_eq!(health[0]["status"], "SERVING");
}
