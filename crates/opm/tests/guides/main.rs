//! D14: the guides work from top to bottom, in an empty folder outside of the repository, with only `opm` and the tools of every
//! Linux. The output is the one they show.
//!
//! The module `guide.rs` describes how a guide marks steps that need a cluster or a registry. Guides that need a cluster
//! throughout are run on one by `e2e/tests/guides.rs`.

#![allow(clippy::panic, reason = "tests")]

mod guide;

use std::ffi::OsString;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use guide::{Mode, Step, is_as_shown, steps};

/// Port that guides serve on; tests use a free one instead.
const PORT: &str = "50051";
/// Timeout for a server to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Guides that are run here.
const CARRIED_OUT: [&str; 2] = ["catalogs.md", "plan-and-explain.md"];

/// Folder in which a guide is run.
struct Place {
    dir: tempfile::TempDir,
    /// Folder for tools, so that the other one contains only the guide's own files.
    tools: tempfile::TempDir,
    port: String,
    servers: Vec<Child>,
}

impl Drop for Place {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Place {
    fn new() -> Self {
        let tools = tempfile::tempdir().expect("folder");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_opm"), tools.path().join("opm")).expect("link");
        let free = TcpListener::bind("127.0.0.1:0").expect("port");
        Self {
            dir: tempfile::tempdir().expect("folder"),
            tools,
            port: free.local_addr().expect("address").port().to_string(),
            servers: Vec::new(),
        }
    }

    fn shell(&self, script: &str) -> Command {
        let mut path = OsString::from(self.tools.path());
        path.push(":/usr/bin:/bin");
        let mut command = Command::new("sh");
        // Errors are merged into the output, as in a terminal.
        command
            .args([
                "-e",
                "-c",
                &format!("exec 2>&1\n{}", script.replace(PORT, &self.port)),
            ])
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PATH", path);
        command
    }

    fn run(&self, script: &str) -> (i32, String) {
        let output = self.shell(script).output().expect("shell runs");
        let code = output.status.code().expect("exit code");
        (code, String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a server and waits until it responds.
    fn serve(&mut self, script: &str) {
        let script = format!("exec {}", script.trim());
        let mut server = self
            .shell(&script)
            .stdout(Stdio::piped())
            .spawn()
            .expect("shell runs");
        let started = Instant::now();
        while !is_served(&format!("127.0.0.1:{}", self.port)) {
            if let Ok(Some(_)) = server.try_wait() {
                let mut told = String::new();
                let _ = server.stdout.take().expect("output").read_to_string(&mut told);
                panic!("{script} ended: {told}");
            }
            assert!(started.elapsed() < PATIENCE, "{script} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.servers.push(server);
    }

    /// Returns the step with an image of another program instead of the one that a static `opm` makes of itself. (The tested
    /// program is linked dynamically, like any debug build.)
    fn with_opm_image(&self, script: &str) -> String {
        let path = self.tools.path().join("opm.tar");
        let mut layer = olm_oci::LayerSpec::new();
        layer.file("bin/opm", "program", 0o755, 0).expect("file");
        let image = olm_oci::ImageSpec {
            layers: vec![layer],
            ..Default::default()
        };
        image.build().expect("image").write(&path, None).expect("written");
        let command = "opm alpha image catalog ";
        assert!(script.contains(command), "no step for an image: {script}");
        script.replace(command, &format!("{command}--opm-image {} ", path.display()))
    }
}

/// Returns true if a server listens. A connection to a free port may get that port as its own, and is then connected to itself.
fn is_served(address: &str) -> bool {
    let Ok(stream) = std::net::TcpStream::connect(address) else {
        return false;
    };
    stream.local_addr().ok() != stream.peer_addr().ok()
}

fn guides() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides")
}

/// Runs a guide; returns the number of steps that were run, and the reasons for the others, which are also printed by line.
fn carry_out(name: &str) -> (usize, Vec<String>) {
    let text = std::fs::read_to_string(guides().join(name)).expect("guide");
    let steps = steps(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut place = Place::new();
    let (mut run, mut not_run) = (0, Vec::new());
    for step in &steps {
        if let Mode::NotRun(reason) = &step.mode {
            eprintln!(
                "not run: docs/guides/{name}, line {}: {reason}:\n{}",
                step.line, step.script
            );
            not_run.push(reason.clone());
            continue;
        }
        run += 1;
        carry_out_step(&mut place, step).unwrap_or_else(|error| {
            panic!("docs/guides/{name}, line {}: {error}\n{}", step.line, step.script)
        });
    }
    (run, not_run)
}

fn carry_out_step(place: &mut Place, step: &Step) -> Result<(), String> {
    let (expected, script) = match step.mode {
        Mode::KeepsRunning => {
            place.serve(&step.script);
            return Ok(());
        }
        Mode::NeedsStatic if !cfg!(target_feature = "crt-static") => (0, place.with_opm_image(&step.script)),
        Mode::Ends(code) => (code, step.script.clone()),
        Mode::NeedsStatic | Mode::NotRun(_) => (0, step.script.clone()),
    };
    let (code, printed) = place.run(&script);
    if code != expected {
        return Err(format!("ends with {code} instead of {expected}:\n{printed}"));
    }
    // The guide must show all output of a step, so that readers are not surprised.
    let shown = step.output.as_deref().unwrap_or_default();
    if !is_as_shown(shown, &printed) {
        return Err(format!("shown is\n{shown}\nprinted was\n{printed}"));
    }
    Ok(())
}

#[test]
fn d14_the_guide_to_catalogs_works_from_top_to_bottom() {
    let (run, not_run) = carry_out("catalogs.md");
    assert!(run >= 15, "{run} steps were run");
    assert_eq!(
        not_run,
        [
            "needs a container engine and a registry",
            "needs a registry",
            "needs grpcurl"
        ]
    );
}

#[test]
fn d14_the_guide_to_plans_works_from_top_to_bottom() {
    let (run, not_run) = carry_out("plan-and-explain.md");
    assert!(run >= 3, "{run} steps were run");
    assert_eq!(
        not_run,
        ["needs a cluster", "needs a cluster", "changes the user's shell"]
    );
}

/// Every other guide needs a cluster: `e2e/tests/guides.rs` names its test, and none has a step that could be run here.
#[test]
fn other_guides_need_a_cluster() {
    let of_cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/tests/guides.rs");
    let of_cluster = std::fs::read_to_string(of_cluster).expect("the test of the others");
    let mut others = 0;
    for entry in std::fs::read_dir(guides()).expect("guides") {
        let name = entry.expect("entry").file_name().into_string().expect("name");
        let tried = [
            format!("try_guide(\"{name}\")"),
            format!("(\"{name}\", \"e2e/tests/takeover.rs\")"),
        ];
        if CARRIED_OUT.contains(&name.as_str()) || tried.iter().any(|tried| of_cluster.contains(tried)) {
            continue;
        }
        others += 1;
        let (run, not_run) = carry_out(&name);
        assert_eq!(run, 0, "{name}");
        for reason in not_run {
            assert!(reason.starts_with("needs a cluster"), "{name}: {reason}");
        }
    }
    assert!(others >= 5, "{others} guides are about a cluster throughout");
}

/// A guide with wrong output must not pass.
#[test]
fn a_guide_that_is_wrong_is_found() {
    for (text, expected) in [
        ("```sh\nfalse\ntrue\n```\n", "ends with 1 instead of 0"),
        ("```sh\necho a\n```\n```text\nb\n```\n", "printed was\na\n"),
        ("```sh\necho a\n```\n", "printed was\na\n"),
        ("```sh\ntrue\n```\n```text\nb\n```\n", "shown is\nb\n"),
        (
            "<!-- test: fails with 1 -->\n```sh\ntrue\n```\n",
            "ends with 0 instead of 1",
        ),
        (
            "```sh\nopm validate nothing\n```\n",
            "stat nothing: no such file or directory",
        ),
    ] {
        let step = &steps(text).expect("steps")[0];
        let error = carry_out_step(&mut Place::new(), step).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}
