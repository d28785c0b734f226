//! Short form of `cargo xtask bench v1`: what it measures, with bounds that only a serious fault exceeds.

use anyhow::ensure;
use e2e::lab::Lab;
use olm_testing::long;
use xtask::bench::v1::{Bench, corpus};

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
    let of_catalogd = bench.catalogd()?;
    let of_controller = bench.operator_controller()?;
    bench.clean_up()?;
    println!("P16: {of_catalogd:?}; P22: {of_controller:?}");
    let figures = [
        ("MiB of catalogd", of_catalogd.anonymous, 12.0 * FACTOR),
        ("MiB of catalogd at most", of_catalogd.peak, 40.0 * FACTOR),
        ("s for one package", of_catalogd.metas, 0.002 * FACTOR_OF_TIMES),
        ("s for all packages", of_catalogd.all, 0.08 * FACTOR_OF_TIMES),
        (
            "s from a ready pod to an installed extension",
            of_controller.after_pod,
            0.3 * FACTOR_OF_TIMES,
        ),
        (
            "MiB of operator-controller",
            of_controller.anonymous,
            8.0 * FACTOR,
        ),
        (
            "requests for an extension",
            of_controller.requests as f64,
            60.0 * FACTOR,
        ),
    ];
    let exceeded: Vec<String> = figures
        .iter()
        .filter(|(_, measured, bound)| measured > bound)
        .map(|(what, measured, bound)| format!("{measured:.3} {what}, at most {bound:.3}"))
        .collect();
    ensure!(exceeded.is_empty(), "{}", exceeded.join("; "));
    // Nothing measured would be within every bound.
    ensure!(
        figures.iter().filter(|(_, measured, _)| *measured > 0.0).count() >= figures.len() - 1,
        "{figures:?}"
    );
    Ok(())
}
