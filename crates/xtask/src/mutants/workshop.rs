//! The copy of the workspace in which mutations are made, compiled and run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::list::Mutation;
use super::switches::{self, VARIABLE};
use super::{SUITES, Suite};
use crate::binaries::{Built, TestBinary};
use crate::workspace;

/// Cargo starts compilers of the workspace's own packages through this program, which does nothing else. What cargo builds so
/// has names of its own, while dependencies from elsewhere are those that the tests were compiled with.
const WRAPPER: &str = "env";

/// Chosen together with those of the lists, dependencies get the features they have in a build of the whole workspace.
const FOR_ITS_FEATURES: &str = "kubectl-operator";

#[derive(Debug)]
pub(super) struct Workshop {
    copy: PathBuf,
    target: OsString,
}

/// What the compiler said.
#[derive(Debug)]
pub(super) enum Compiled {
    Well(Vec<TestBinary>),
    /// It failed: files below the copy and lines that are wrong, and the compiler's words.
    Badly(Vec<Place>, String),
}

/// What became of a run of tests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ran {
    Well,
    /// This one failed first, by name, without modules.
    Badly(String),
    /// They came to no end.
    Endlessly,
}

/// Sources with switches.
#[derive(Debug, Default)]
pub(super) struct Switches {
    /// By file below the workspace's root.
    texts: BTreeMap<PathBuf, String>,
    /// By file: whose switches stand where, by package and number.
    lines: BTreeMap<PathBuf, Vec<(Number, RangeInclusive<usize>)>>,
    /// Those that have no switch.
    pub alone: BTreeSet<Number>,
}

/// A mutation, by the place of its suite and its place in the list of that.
pub(super) type Number = (usize, usize);

impl Switches {
    /// None yet; and these never get one.
    pub(super) fn without(alone: BTreeSet<Number>) -> Self {
        Self {
            alone,
            ..Self::default()
        }
    }

    /// Those that stand on these lines.
    fn at(&self, file: &Path, lines: &RangeInclusive<usize>) -> impl Iterator<Item = Number> {
        let within = self.lines.get(file).into_iter().flatten();
        within
            .filter(|(_, own)| own.start() <= lines.end() && lines.start() <= own.end())
            .map(|(number, _)| *number)
    }

    /// Those whose switches the compiler complains of.
    pub(super) fn wrong(&self, places: &[Place]) -> BTreeSet<Number> {
        places
            .iter()
            .flat_map(|(file, lines)| self.at(file, lines))
            .collect()
    }

    /// Puts switches for the mutations of a suite into its sources, except for those known to be `alone`.
    pub(super) fn add(&mut self, root: &Path, place: usize, mutations: &[Mutation]) {
        let package = SUITES[place].package;
        let mut by_file: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
        for (number, mutation) in mutations.iter().enumerate() {
            by_file
                .entry(mutation.path(Path::new(""), package))
                .or_default()
                .push(number);
        }
        for (path, numbers) in by_file {
            let Ok(text) = fs::read_to_string(root.join(&path)) else {
                continue;
            };
            let placed: Vec<_> = numbers
                .into_iter()
                .filter(|number| !self.alone.contains(&(place, *number)))
                .filter_map(|number| Some((number, mutations[number].place(&text).ok()?, &mutations[number])))
                .collect();
            let switched = switches::switch(&text, package, &placed);
            self.alone
                .extend(switched.left_out.into_iter().map(|number| (place, number)));
            let lines = switched.lines.into_iter();
            self.lines.insert(
                path.clone(),
                lines.map(|(number, lines)| ((place, number), lines)).collect(),
            );
            self.texts.insert(path, switched.text);
        }
    }
}

/// Waits until nobody else of this checkout works in the copy, and keeps others out until it is dropped.
///
/// # Errors
/// The lock cannot be made.
pub(super) fn lock(root: &Path) -> anyhow::Result<File> {
    let path = root.join("target/mutants/.lock");
    fs::create_dir_all(root.join("target/mutants"))?;
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    if file.try_lock().is_err() {
        println!("waiting for another `cargo xtask mutants` of this checkout");
        file.lock().with_context(|| format!("lock {}", path.display()))?;
    }
    Ok(file)
}

impl Workshop {
    /// Copies what git knows of, as it is on disk, the sources with their switches.
    ///
    /// # Errors
    /// It cannot be copied.
    pub(super) fn open(root: &Path, switches: &Switches) -> anyhow::Result<Self> {
        let copy = root.join("target/mutants/workspace");
        copy_workspace(root, &copy, &switches.texts)?;
        let target = workspace::target().into();
        Ok(Self { copy, target })
    }

    /// Takes one clause away, and gives what to call to have the file as it was; `None` when the clause is not there.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn take_away(
        &self,
        root: &Path,
        package: &str,
        mutation: &Mutation,
    ) -> anyhow::Result<Option<impl FnOnce() -> anyhow::Result<()> + use<>>> {
        let Ok(mut text) = fs::read_to_string(mutation.path(root, package)) else {
            return Ok(None);
        };
        let Ok(place) = mutation.place(&text) else {
            return Ok(None);
        };
        let path = mutation.path(&self.copy, package);
        let before = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        text.replace_range(place, &mutation.to);
        write(&path, text.as_bytes())?;
        Ok(Some(move || write(&path, &before)))
    }

    /// Compiles the tests of all lists, in one call: cargo chooses the features of dependencies by the packages it is asked for.
    ///
    /// # Errors
    /// Cargo cannot be run.
    pub(super) fn compile(&self) -> anyhow::Result<Compiled> {
        let mut cargo = workspace::cargo();
        cargo
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("RUSTC_WORKSPACE_WRAPPER", WRAPPER)
            // Programs that keep compilers' answers know compilers only.
            .env("RUSTC_WRAPPER", "")
            // Nobody reads where a test failed.
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .args([
                "test",
                "--no-run",
                "--no-fail-fast",
                "--message-format=json",
                "--package",
                FOR_ITS_FEATURES,
            ]);
        let mut targets: Vec<&str> = Vec::new();
        for suite in &SUITES {
            cargo.args(["--package", suite.package]);
            targets.extend(suite.targets);
        }
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            match target {
                "lib" => cargo.arg("--lib"),
                name if SUITES.iter().any(|suite| suite.package == name) => cargo.args(["--bin", name]),
                name => cargo.args(["--test", name]),
            };
        }
        let mut child = cargo
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run cargo")?;
        let output = child.stdout.take().context("cargo's output was not captured")?;
        let errors = child.stderr.take().context("cargo's errors were not captured")?;
        let talk = thread::spawn(move || {
            let mut text = String::new();
            let _ = BufReader::new(errors).read_to_string(&mut text);
            text
        });
        let (mut built, mut places, mut words) = (Built::default(), Vec::new(), String::new());
        for line in BufReader::new(output).lines() {
            let line = line.context("cargo's output broke off")?;
            built.note(&line);
            if let Some((found, text)) = error_of(&line) {
                places.extend(found);
                words.push_str(&text);
            }
        }
        let passed = child.wait().context("lost cargo")?.success();
        let talk = talk.join().unwrap_or_default();
        if passed {
            return Ok(Compiled::Well(built.tests));
        }
        if words.is_empty() {
            bail!("cargo failed: {talk}");
        }
        Ok(Compiled::Badly(places, words))
    }
}

/// A file and lines of it, counted from one.
type Place = (PathBuf, RangeInclusive<usize>);

/// Of a line of cargo's messages that tells an error: files and lines, and its text.
fn error_of(line: &str) -> Option<(Vec<Place>, String)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let message = message
        .get("message")
        .filter(|message| message["level"] == "error")?;
    let spans = message["spans"].as_array().map(Vec::as_slice).unwrap_or_default();
    let line = |span: &Value, name: &str| usize::try_from(span[name].as_u64()?).ok();
    let places = spans
        .iter()
        .filter_map(|span| {
            let lines = line(span, "line_start")?..=line(span, "line_end")?;
            Some((PathBuf::from(span["file_name"].as_str()?), lines))
        })
        .collect();
    let text = message["rendered"].as_str().unwrap_or_default().to_owned();
    Some((places, text))
}

/// Runs the tests of a suite with one mutation on, and arguments of the test harness. Ends at the first program that fails.
///
/// # Errors
/// A program cannot be run.
pub(super) fn run(
    suite: &Suite,
    binaries: &[TestBinary],
    on: Option<&str>,
    arguments: &[&str],
    limit: Duration,
) -> anyhow::Result<Ran> {
    for target in suite.targets {
        let Some(binary) = binaries
            .iter()
            .find(|binary| binary.package == suite.package && binary.target == *target)
        else {
            bail!("{} has no tests {target}", suite.package);
        };
        let mut command = binary.command();
        command.args(arguments);
        // Texts to compare with must not be written anew.
        command.env("INSTA_UPDATE", "no").env_remove(VARIABLE);
        command.envs(on.map(|on| (VARIABLE, on)));
        // The copy has no corpus beside it: what compares with that takes minutes, says that it did not run, and fails in CI.
        command.env_remove("OLM_SHARED").env_remove("CI");
        match run_one(command, limit)? {
            Ran::Well => {}
            other => return Ok(other),
        }
    }
    Ok(Ran::Well)
}

/// Runs a program of tests until the first fails: that is answer enough, and what comes after may take long.
fn run_one(mut command: Command, limit: Duration) -> anyhow::Result<Ran> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let output = child.stdout.take().context("its output was not captured")?;
    let (sender, failures) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(output).split(b'\n');
        while let Some(Ok(line)) = lines.next() {
            if let Some(name) = failed(&String::from_utf8_lossy(&line)) {
                let _ = sender.send(name);
            }
        }
    });
    let first = failures.recv_timeout(limit);
    if let Err(RecvTimeoutError::Disconnected) = first {
        let passed = child.wait().context("lost a test")?.success();
        return Ok(if passed {
            Ran::Well
        } else {
            Ran::Badly("none by name".to_owned())
        });
    }
    child.kill().context("end a test")?;
    child.wait().context("lost a test")?;
    Ok(first.map_or(Ran::Endlessly, Ran::Badly))
}

/// The test that failed, without its modules, if the line says so.
fn failed(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    name.rsplit("::").next().map(str::to_owned)
}

/// Writes a file unless it says that already, so that cargo builds no more than it must.
fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|known| known == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    }
    fs::write(path, content).with_context(|| format!("write {}", path.display()))
}

fn copy_workspace(root: &Path, copy: &Path, instead: &BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("run git")?;
    if !listed.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
    }
    let names = String::from_utf8(listed.stdout).context("names of files")?;
    let mut copied = BTreeSet::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let Ok(content) = fs::read(root.join(name)) else {
            continue;
        };
        let content = instead
            .get(Path::new(name))
            .map_or(&content[..], |text| text.as_bytes());
        write(&copy.join(name), content)?;
        copied.insert(copy.join(name));
    }
    remove_others(copy, &copied)
}

/// What is gone from the workspace, a test perhaps, and what tests left behind.
fn remove_others(folder: &Path, copied: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry
            .with_context(|| format!("list {}", folder.display()))?
            .path();
        if path.is_dir() && !path.is_symlink() {
            remove_others(&path, copied)?;
        } else if !copied.contains(&path) {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}
