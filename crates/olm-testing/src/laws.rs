//! How properties are tested: how many cases are drawn, and from which seed.

use proptest::test_runner::{Config, RngSeed};

/// `cases` cases from a seed of the clock. `OLM_LAW_CASES` and `OLM_LAW_SEED` override; both are printed, so that a failure
/// can be had again.
pub fn config(cases: u32) -> Config {
    let given = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse::<u64>().ok())
    };
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let seed = given("OLM_LAW_SEED").unwrap_or_else(now);
    let wanted = given("OLM_LAW_CASES").and_then(|cases| u32::try_from(cases).ok());
    let cases = wanted.unwrap_or(cases);
    println!("{cases} cases, OLM_LAW_SEED={seed}");
    Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    }
}
