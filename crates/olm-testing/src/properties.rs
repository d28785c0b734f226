//! Settings of property tests: number of cases and seed.

use proptest::test_runner::{Config, RngSeed};

use crate::long;

/// Seed of random numbers. In the short form it is the same on every run, so that a result depends only on the change. In the long form
/// it comes from the clock. `OLM_PROPERTY_SEED` overrides it. Tests print it, so that a failure can be reproduced.
#[expect(
    clippy::disallowed_methods,
    reason = "another seed each time is what is wanted"
)]
pub fn seed() -> u64 {
    given("OLM_PROPERTY_SEED").unwrap_or_else(|| match long::is_long() {
        true => std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
        false => 1,
    })
}

fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns a configuration with `cases` cases and [`seed`]. `OLM_PROPERTY_CASES` overrides the number; both are printed.
pub fn config(cases: u32) -> Config {
    let seed = seed();
    let wanted = given("OLM_PROPERTY_CASES").and_then(|cases| u32::try_from(cases).ok());
    let cases = wanted.unwrap_or(cases);
    println!("{cases} cases, OLM_PROPERTY_SEED={seed}");
    Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    }
}
