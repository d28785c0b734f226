//! Fuzzing for the stable toolchain: inputs are made from seeds by random changes, for a limited time.
//!
//! The time per target is `OLM_FUZZ_SECONDS`, short by default. `cargo xtask test` uses more, and `--long` uses new random
//! numbers on every run. Accepted input becomes a seed of further inputs, so changes add up. If a target has a maker for
//! structured inputs, two thirds of the inputs come from it, and half of those get byte changes, too. A finding is kept below the
//! target folder and its path is printed. A finding copied to `tests/findings/<target>-…` is tried first on every run.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub mod random;
pub mod tree;

pub use random::Random;

const DEFAULT_SECONDS: u64 = 3;
/// Maximum time for one input: slowness is a finding, too. Generous, because tests run unoptimised beside others.
const SLOW: Duration = Duration::from_secs(20);
/// Maximum memory of all targets of a test program together. Their inputs are small.
const MEMORY_KIB: u64 = 2 << 20;
/// Maximum size of an input, in bytes.
const BYTES: usize = 1 << 16;
/// Maximum number of input bytes that a finding prints.
const SHOWN: usize = 4096;
/// Maximum number of accepted inputs that are kept as seeds beside the given ones.
const KEPT: usize = 256;

/// Summary of a run, for readers and for `cargo xtask test`.
struct Report<'a> {
    name: &'a str,
    start: u64,
    time: Duration,
    seeds: usize,
    findings: usize,
    tried: u64,
    accepted: u64,
}

impl Report<'_> {
    fn print(&self) {
        let line = format!(
            "fuzz {} from {}: {:.0} s, {} seeds, {} former findings, {} inputs of which {} accepted, 0 new findings\n",
            self.name,
            self.start,
            self.time.as_secs_f64(),
            self.seeds,
            self.findings,
            self.tried,
            self.accepted
        );
        // Not `println!`, which the test harness captures when the test passes.
        let _ = std::io::stdout().write_all(line.as_bytes());
    }
}

/// Makes an input from seeds, or none.
pub type Maker = fn(&[Vec<u8>], &mut Random) -> Option<Vec<u8>>;

/// A target and its inputs.
pub struct Fuzz<'a> {
    pub name: &'a str,
    /// First inputs. Some must be accepted, or nothing after the first check is reached.
    pub seeds: Vec<Vec<u8>>,
    /// Pieces of text that are inserted.
    pub words: &'a [&'a str],
    /// Makes inputs in the way of this target.
    pub structured: Option<Maker>,
}

impl Fuzz<'_> {
    /// Tries inputs on `target`, which panics on a finding and returns true if it accepted the input.
    pub fn run(&self, target: impl Fn(&[u8]) -> bool) {
        let name = self.name;
        assert!(!self.seeds.is_empty(), "{name} has no seeds");
        let findings = findings(name);
        for (file, input) in &findings {
            attempt(file, input, &target);
        }
        let mut accepted = 0;
        for seed in &self.seeds {
            accepted += u64::from(attempt(name, seed, &target));
        }
        let clock = Instant::now();
        let start = start();
        let mut random = Random::new(start ^ name.len() as u64);
        let mut seeds = self.seeds.clone();
        let mut tried = 0_u64;
        while clock.elapsed() < seconds() || tried == 0 {
            let input = self.input(&seeds, &mut random);
            tried += 1;
            if attempt(name, &input, &target) {
                accepted += 1;
                if seeds.len() < self.seeds.len() + KEPT {
                    seeds.push(input);
                } else if random.below(8) == 0 {
                    let at = self.seeds.len() + random.below(KEPT);
                    seeds[at] = input;
                }
            }
        }
        let report = Report {
            name,
            start,
            time: clock.elapsed(),
            seeds: self.seeds.len(),
            findings: findings.len(),
            tried,
            accepted,
        };
        report.print();
        assert!(accepted > 0, "{name} took none of {tried} inputs");
        let used = memory_kib();
        assert!(used < MEMORY_KIB, "{name}: the program used {used} KiB of memory");
    }

    fn input(&self, seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
        if let Some(structured) = self.structured
            && random.below(3) > 0
            && let Some(input) = structured(seeds, random)
        {
            // Half of them get byte changes in addition.
            return match random.below(2) {
                0 => input,
                _ => mutate(input, seeds, self.words, random),
            };
        }
        let seed = seeds[random.below(seeds.len())].clone();
        mutate(seed, seeds, self.words, random)
    }
}

/// Returns the start of the random numbers. It is the same on every run, so that a result depends on the change and not on
/// chance. `OLM_FUZZ_START` sets another number, or `now` for the clock, as the long form of the tests does.
#[expect(
    clippy::disallowed_methods,
    reason = "another start each time is what is wanted"
)]
fn start() -> u64 {
    match std::env::var("OLM_FUZZ_START").as_deref() {
        Ok("now") => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |now| now.as_nanos() as u64),
        Ok(number) => number
            .parse()
            .expect("OLM_FUZZ_START is a number or the word now"),
        Err(_) => 1,
    }
}

fn seconds() -> Duration {
    let given = std::env::var("OLM_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(DEFAULT_SECONDS))
}

/// Returns the peak memory use of this program; 0 if the system does not report it.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

fn attempt(name: &str, input: &[u8], target: &impl Fn(&[u8]) -> bool) -> bool {
    let clock = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| target(input)));
    let is_slow = clock.elapsed() > SLOW;
    match result {
        Ok(accepted) if !is_slow => accepted,
        _ => {
            let path = keep(name, input);
            let what = if is_slow { "takes too long" } else { "fails" };
            // Prints the input itself, too: in CI the file is lost with the machine.
            panic!(
                "{name} {what} on {} bytes, kept in {}: b\"{}\"",
                input.len(),
                path.display(),
                input[..input.len().min(SHOWN)].escape_ascii()
            );
        }
    }
}

fn keep(name: &str, input: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("findings");
    let _ = std::fs::create_dir_all(&folder);
    let sum = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = folder.join(format!("{name}-{sum:016x}"));
    let _ = std::fs::write(&path, input);
    path
}

fn findings(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/findings");
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let file = path.file_name()?.to_str()?.to_owned();
            (file.starts_with(&format!("{name}-")))
                .then(|| std::fs::read(&path).ok().map(|bytes| (file, bytes)))?
        })
        .collect()
}

/// Returns the input with random changes to its bytes.
fn mutate(mut input: Vec<u8>, seeds: &[Vec<u8>], words: &[&str], random: &mut Random) -> Vec<u8> {
    if input.len() > BYTES {
        let start = random.below(input.len() - BYTES);
        input = input[start..start + BYTES].to_vec();
    }
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        let end = (at + random.below(32)).min(input.len());
        match random.below(8) {
            0 if at < input.len() => input[at] = random.next() as u8,
            1 => drop(input.drain(at..end)),
            2 => {
                let copy = input[at..end].to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, copy);
            }
            3 => input.truncate(at),
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.below(256)).min(other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
            5 => {
                let word = words[random.below(words.len())];
                let copies = 1 + random.below(3) * random.below(40);
                input.splice(at..at, word.repeat(copies).into_bytes());
            }
            6 => drop(input.splice(at..end, words[random.below(words.len())].bytes())),
            _ if at < input.len() => input[at] ^= 1 << random.below(8),
            _ => {}
        }
        input.truncate(BYTES);
    }
    input
}
