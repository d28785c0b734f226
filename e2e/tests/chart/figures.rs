//! Short forms of `cargo xtask bench v1` and `cargo xtask bench rest`: what they measure, with bounds that only a serious fault exceeds.

use std::time::Duration;

use anyhow::ensure;
use e2e::lab::Lab;
use olm_testing::long;
use xtask::bench::rest;
use xtask::bench::v1::{Bench, corpus};
use xtask::progress::Progress;

/// The short form serves one in this many packages of the corpus catalog: programs of tests are not optimised.
const SHARE: usize = 10;
/// Figures may exceed their target by this factor, and times by the other one, because other tests run beside this one.
const FACTOR: f64 = 2.0;
const FACTOR_OF_TIMES: f64 = 10.0;

/// Memory, requests and times of OLM v1 are near the targets P16 and P22.
pub fn olm_v1_costs_about_what_it_should(lab: &Lab) -> anyhow::Result<()> {
    let packages = corpus()?;
    if packages.is_empty() {
        println!("LEFT OUT: figures of OLM v1, because the corpus catalog is not on this machine");
        return Ok(());
    }
    let packages = long::every_nth(SHARE, "packages of the corpus catalog", packages);
    let extensions = long::count_or("measured ClusterExtensions", 3, 10);
    let bench = Bench::publish(lab.cluster(), lab.opm(), &packages, extensions as usize)?;
    let of_catalogd @ [_, anonymous, peak, metas, all] = bench.catalogd()?;
    let of_controller @ [_, after_pod, requests, anonymous_of_controller] = bench.operator_controller()?;
    bench.clean_up()?;
    println!("P16: {of_catalogd:?}; P22: {of_controller:?}");
    let figures = [
        ("MiB of catalogd", anonymous, 12.0 * FACTOR),
        ("MiB of catalogd at most", peak, 40.0 * FACTOR),
        ("ms for one package", metas, 2.0 * FACTOR_OF_TIMES),
        ("ms for all packages", all, 80.0 * FACTOR_OF_TIMES),
        (
            "s from a ready pod to an installed extension",
            after_pod,
            0.3 * FACTOR_OF_TIMES,
        ),
        (
            "MiB of operator-controller",
            anonymous_of_controller,
            8.0 * FACTOR,
        ),
        ("requests for an extension", requests, 60.0 * FACTOR),
    ];
    within_bounds(&figures)
}

/// Processor time and requests of OLM at rest, and after a restart of the API server, are near the target P20.
pub fn olm_at_rest_costs_about_what_it_should(lab: &Lab) -> anyhow::Result<()> {
    let all = long::count_or("ClusterServiceVersions at rest", 20, 200);
    let seconds = long::count_or("seconds at rest", 15, 300);
    let lasts = Duration::from_secs(u64::from(seconds));
    let figures @ [processor, _, requests_after, quiet_after] =
        rest::measure(lab.cluster(), all as usize, lasts, &Progress::start())?;
    println!("P20: {figures:?}");
    within_bounds(&[
        ("s of processor time an hour", processor, 10.0 * FACTOR_OF_TIMES),
        (
            "requests after a restart of the API server",
            requests_after,
            40.0 * FACTOR,
        ),
        (
            "s until quiet after a restart of the API server",
            quiet_after,
            5.0 * FACTOR_OF_TIMES,
        ),
    ])
}

/// Checks figures, each with its unit and bound.
fn within_bounds(figures: &[(&str, f64, f64)]) -> anyhow::Result<()> {
    // A time can be too short to be seen; that nothing was measured would be within every bound.
    let measured = figures.iter().filter(|(_, measured, _)| *measured > 0.0).count();
    ensure!(measured + 1 >= figures.len(), "{figures:?}");
    let exceeded: Vec<String> = figures
        .iter()
        .filter(|(_, measured, bound)| measured > bound)
        .map(|(what, measured, bound)| format!("{measured:.3} {what}, at most {bound:.3}"))
        .collect();
    ensure!(exceeded.is_empty(), "{}", exceeded.join("; "));
    Ok(())
}
