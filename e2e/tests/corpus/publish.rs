//! Images of the test: stand-ins, bundles and catalogs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context as _, bail};
use e2e::corpus::stand_in::{self, StandIn};
use e2e::lab::Lab;
use xtask::catalog;

use crate::choice::{CHOICES, Candidate, SITES, Site};
use crate::sample::{self, Sample};

/// Pushes stand-ins, bundle images under their names in the catalog, one catalog per site, and one for the samples. Both kinds of
/// bundles are pushed together, because some run the same images.
pub fn publish(lab: &Lab, corpus: &Path, candidates: &[Candidate], samples: &[Sample]) -> anyhow::Result<()> {
    let folder = lab.folder("corpus")?;
    let program = lab.stand_in_program();
    let mut work: Vec<Box<dyn FnOnce() -> anyhow::Result<()> + Send + '_>> = Vec::new();
    for (number, (image, stand_in)) in stand_ins(candidates, samples)?.into_iter().enumerate() {
        let tar = folder.join(format!("stand-in-{number}.tar"));
        work.push(Box::new(move || {
            stand_in.write(program, &tar)?;
            lab.cluster().load(&tar, &[image])
        }));
    }
    for candidate in candidates {
        for leg in &candidate.legs {
            let tar = folder.join(format!("{}.tar", leg.csv));
            let image = candidate.catalog.image(&leg.csv)?.to_owned();
            work.push(Box::new(move || {
                let bundle = catalog::Bundle {
                    folder: candidate.folder.join(&leg.csv),
                    image,
                };
                lab.opm().bundle_image(&bundle, &tar)?;
                lab.cluster().load(&tar, std::slice::from_ref(&bundle.image))
            }));
        }
    }
    for sample in samples {
        let tar = folder.join(format!("{}.tar", sample.namespace));
        work.push(Box::new(move || {
            lab.opm().bundle_image(&sample.image, &tar)?;
            lab.cluster()
                .load(&tar, std::slice::from_ref(&sample.image.image))
        }));
    }
    if !samples.is_empty() {
        let (home, tar) = (folder.join("samples"), folder.join("samples.tar"));
        work.push(Box::new(move || {
            lab.opm().write_catalog(&sample::packages(samples), &home)?;
            lab.opm()
                .catalog_image(&home, lab.opm_image(), sample::CATALOG, &tar)?;
            lab.cluster().load(&tar, &[sample::CATALOG.to_owned()])
        }));
    }
    for site in &SITES {
        let (home, tar) = (folder.join(site.name), folder.join(format!("{}.tar", site.name)));
        work.push(Box::new(move || publish_catalog(lab, corpus, site, &home, &tar)));
    }
    in_parallel(work)
}

/// Returns the stand-ins of all images, by image.
pub fn stand_ins(candidates: &[Candidate], samples: &[Sample]) -> anyhow::Result<BTreeMap<String, StandIn>> {
    let chosen = candidates.iter().flat_map(|candidate| &candidate.bundles);
    stand_in::plan(chosen.chain(samples.iter().map(|sample| &sample.bundle)))
}

/// Publishes the packages of a site, unchanged from the corpus, in one catalog image.
fn publish_catalog(lab: &Lab, corpus: &Path, site: &Site, home: &Path, tar: &Path) -> anyhow::Result<()> {
    for choice in CHOICES.iter().filter(|choice| choice.site == site.name) {
        let package = home.join(choice.package);
        std::fs::create_dir_all(&package)?;
        let file = corpus.join("fbc").join(choice.package).join("catalog.json");
        std::fs::copy(&file, package.join("catalog.json"))
            .with_context(|| format!("cannot copy {}", file.display()))?;
    }
    let image = catalog_image(site.name);
    lab.opm()
        .run(&["validate", home.to_str().context("the path is not UTF-8")?])?;
    lab.opm().catalog_image(home, lab.opm_image(), &image, tar)?;
    lab.cluster().load(tar, &[image])
}

/// Returns the name of the catalog image of a site.
pub fn catalog_image(site: &str) -> String {
    format!("olm.local/corpus/{site}:latest")
}

/// Does all the work on two threads.
fn in_parallel(work: Vec<Box<dyn FnOnce() -> anyhow::Result<()> + Send + '_>>) -> anyhow::Result<()> {
    let queue = Mutex::new(work);
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop());
    let run = || -> anyhow::Result<()> {
        while let Some(work) = next() {
            work()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(run), scope.spawn(run)];
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| bail!("publishing an image panicked"))
        })
    })
}
