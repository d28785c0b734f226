//! Fuzzing for the stable toolchain: inputs are made from seeds by random changes, for a time.
//!
//! The time is `OLM_FUZZ_SECONDS`, by default short. A finding is kept below the target folder and named; copied to
//! `tests/findings/<target>-…` it is tried first on every run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DEFAULT_SECONDS: u64 = 3;
/// Longest time one input may take: slowness is a finding, too. Generous, as tests run unoptimised beside others.
const SLOW: Duration = Duration::from_secs(20);
/// Inputs do not grow beyond this.
const BYTES: usize = 1 << 16;

/// Numbers that look random; the same for the same start (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(start: u64) -> Self {
        Self(start | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `end`, 0 for an empty range.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }
}

fn seconds() -> Duration {
    let given = std::env::var("OLM_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(DEFAULT_SECONDS))
}

/// Tries inputs made of `seeds` and `words` on `target`, which panics on a finding.
pub fn fuzz(name: &str, seeds: &[Vec<u8>], words: &[&str], target: impl Fn(&[u8])) {
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for (file, input) in findings(name) {
        attempt(&file, &input, &target);
    }
    for seed in seeds {
        attempt(name, seed, &target);
    }
    let clock = Instant::now();
    // Other inputs on every run, and said on a finding through the file that is kept.
    let start = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |now| now.as_nanos() as u64);
    let mut random = Random::new(start);
    let mut tried = 0_u64;
    while clock.elapsed() < seconds() {
        let input = mutate(seeds, words, &mut random);
        attempt(name, &input, &target);
        tried += 1;
    }
    println!("{name}: {tried} inputs");
    assert!(tried > 0);
}

fn attempt(name: &str, input: &[u8], target: &impl Fn(&[u8])) {
    let clock = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| target(input)));
    let is_slow = clock.elapsed() > SLOW;
    if result.is_err() || is_slow {
        let path = keep(name, input);
        let what = if is_slow { "takes too long" } else { "fails" };
        panic!(
            "{name} {what} on {} bytes, kept in {}",
            input.len(),
            path.display()
        );
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

fn mutate(seeds: &[Vec<u8>], words: &[&str], random: &mut Random) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
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
