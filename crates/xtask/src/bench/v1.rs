//! `cargo xtask bench v1`: the cost of OLM v1. `catalogd` with the corpus catalog (target P16), and `operator-controller` with ten
//! extensions (target P22).
//!
//! Requests to `catalogd` are sent by curl over one connection, so their times leave out the handshake. Memory comes from `/proc`,
//! requests to the API server from its audit log. A missed target is printed and is no error.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::memory::{field, process_of_olm};
use super::table::{self, counts, is_ready_pod, is_true, median};
use super::{Measured, catalogs};
use crate::catalog::{Bundle, Entry, Opm, Package};
use crate::cluster::Cluster;
use crate::cluster::audit::{AuditEvent, AuditTail};
use crate::deploy::v1::{self, ACCOUNTS};
use crate::kubectl::{Destination, text};
use crate::oci_layout::{self, ImageConfig, LayerFile};
use crate::watch::Sightings;
use crate::{files, process, workspace};

const PATIENCE: Duration = Duration::from_secs(240);
/// Extensions in a run.
const EXTENSIONS: usize = 10;
/// Start of the names of packages, extensions, catalogs and namespaces.
const NAME: &str = "bench-v1";
/// Label of all that a measurement creates.
const LABEL: &str = "bench=v1";
/// Names of the ClusterCatalogs.
const LARGE: &str = "bench-v1-large";
const SMALL: &str = "bench-v1-small";
/// Repetitions of a request for one package, and of one for everything. The first of each opens the connection.
const METAS: usize = 41;
const ALL: usize = 7;
/// Time until watches are established.
const WATCHED: Duration = Duration::from_secs(2);
/// Time after which freed memory has been returned to the system.
const AT_REST: Duration = Duration::from_secs(12);

/// The figures of a run, those of [`Bench::catalogd`] and of [`Bench::operator_controller`], for [`table::print`].
const ROWS: &str = "\
P16 | ClusterCatalog of the corpus created to served, s        |                 |
    |   catalogd RssAnon, MiB                                  | 67 to 73 RSS    | 12
    |   catalogd peak, MiB                                     | 80              | 40
    |   metas of one package, ms                               | 15 to 24        | 2
    |   all, ms                                                | 100 to 150      | 80
P22 | ClusterExtension created to Installed, s                 |                 |
    |   of that after the pod was Ready, s                     |                 | 0.3
    |   API requests of operator-controller and catalogd       |                 | 60
    |   operator-controller RssAnon, ten extensions, MiB       |                 | 8";

/// Runs the measurements several times and prints the medians.
///
/// # Errors
/// A measured operation fails, or the corpus catalog is missing.
pub(super) fn run(name: &str) -> anyhow::Result<()> {
    let corpus = packages_of(&catalogs::corpus()?.context(catalogs::NO_CORPUS)?)?;
    let measured = Measured::set_up(name)?;
    let Measured {
        cluster,
        destination,
        built,
        progress,
    } = &measured;
    v1::deploy(cluster, built, progress)?;
    let opm = Opm::new(built.opm_program());
    let bench = progress.stage("catalogs published", || {
        Bench::publish(cluster, &opm, &corpus, EXTENSIONS)
    })?;
    let figures = measured.repeat(|_| {
        v1::restart(destination)?;
        let figures = [&bench.catalogd()?[..], &bench.operator_controller()?].concat();
        bench.clean_up()?;
        Ok(figures)
    })?;
    table::print(ROWS, &figures);
    Ok(())
}

/// Returns the folders of the corpus catalog's packages, in order; none if the corpus is not on this machine.
///
/// # Errors
/// The corpus cannot be unpacked.
pub fn corpus() -> anyhow::Result<Vec<PathBuf>> {
    catalogs::corpus()?.map_or_else(|| Ok(Vec::new()), |catalog| packages_of(&catalog))
}

fn packages_of(catalog: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = files::entries(catalog)?;
    folders.retain(|path| path.is_dir());
    Ok(folders)
}

/// Published catalogs: `large`, of which requests are measured, and one of small operators. What a measurement creates is removed when
/// this is dropped.
#[derive(Debug)]
pub struct Bench {
    cluster: Cluster,
    destination: Destination,
    /// Name of a package of `large` of median size.
    typical: String,
    extensions: usize,
}

impl Bench {
    /// Publishes both catalogs: one of the package folders `large`, and one of operators for this number of extensions. The cluster has
    /// OLM v1, and the demo operator's image.
    ///
    /// # Errors
    /// `large` is empty, opm fails, or a push fails.
    pub fn publish(
        cluster: &Cluster,
        opm: &Opm,
        large: &[PathBuf],
        extensions: usize,
    ) -> anyhow::Result<Self> {
        let home = workspace::root().join("target/bench-v1");
        files::renew(&home)?;
        let mut packages = Vec::new();
        for name in names(extensions) {
            let bundle = Bundle {
                folder: home.join(&name),
                image: format!("olm.local/{name}-bundle:v1"),
            };
            crate::demo::write_variant(&name, &bundle.folder)?;
            let tar = home.join(format!("{name}.tar"));
            opm.bundle_image(&bundle, &tar)?;
            cluster.load(&tar, std::slice::from_ref(&bundle.image))?;
            packages.push(package(name, bundle));
        }
        let small = home.join("small");
        opm.write_catalog(&packages, &small)?;
        publish_catalog(cluster, SMALL, &packages_of(&small)?, &home)?;
        publish_catalog(cluster, LARGE, large, &home)?;
        Ok(Self {
            cluster: cluster.clone(),
            destination: Destination::Embedded(cluster.clone()),
            typical: typical(large)?,
            extensions,
        })
    }

    /// Has `catalogd` serve the large catalog. Returns the seconds from the ClusterCatalog's creation until it is served, anonymous memory at
    /// rest and the peak of resident memory since the start of the process in MiB, and the milliseconds of a request for one package and of
    /// one for everything.
    ///
    /// # Errors
    /// The catalog is not served, or an answer is not as expected.
    pub fn catalogd(&self) -> anyhow::Result<[f64; 5]> {
        let kinds = ["clustercatalog"];
        let sightings = Sightings::start(&self.destination, NAME, &kinds)?;
        std::thread::sleep(WATCHED);
        self.destination.apply(&[catalog(LARGE)])?;
        let is_large = |object: &Value| text(object, "/metadata/name") == LARGE;
        let created = sightings.wait("the catalog", PATIENCE, |it| is_large(&it.object))?;
        let served = sightings.wait("the catalog to be served", PATIENCE, |it| {
            is_large(&it.object) && is_true(&it.object, "Serving")
        })?;
        let base = text(&served.object, "/status/urls/base").to_owned();
        let query = format!("metas?package={}", self.typical);
        let (metas, bytes) = self.answers(&base, &query, METAS)?;
        let (all, all_bytes) = self.answers(&base, "all", ALL)?;
        ensure!(
            bytes > 0 && all_bytes >= bytes,
            "{} has {bytes} bytes of {all_bytes}",
            self.typical
        );
        std::thread::sleep(AT_REST);
        let process = process_of_olm(&self.destination, "catalogd")?;
        Ok([
            (served.at - created.at).as_secs_f64(),
            field(&process, "RssAnon")?,
            field(&process, "VmHWM")?,
            metas * 1000.0,
            all * 1000.0,
        ])
    }

    /// Returns the median of the seconds that an answer takes over an open connection, and its bytes.
    fn answers(&self, base: &str, what: &str, count: usize) -> anyhow::Result<(f64, u64)> {
        let pods = self
            .destination
            .get(&["pods", "-n", "olm", "-l", "app=catalogd"])?;
        let pods = pods.unwrap_or_default();
        let address = text(&pods, "/items/0/status/podIP");
        ensure!(!address.is_empty(), "catalogd has no address");
        let mut curl = self.cluster.command("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--fail",
            "--insecure",
            "--max-time",
            "60",
        ])
        .args(["--output", "/dev/null"])
        .args(["--write-out", "%{time_total} %{size_download}\n"])
        .args(["--connect-to", &format!("::{address}:8443")])
        // Repeats the request: curl counts in the fragment, which is not sent.
        .arg(format!("{base}/api/v1/{what}#[1-{count}]"));
        parse_answers(&process::run(&mut curl)?)
    }

    /// Installs one extension, then the others at once. Returns the seconds from the creation of the first until it was installed, and the
    /// part of that after its pod was ready, the requests of OLM v1 to the API server for it, and the anonymous memory of
    /// `operator-controller` at rest with all of them in MiB.
    ///
    /// # Errors
    /// An extension is not installed.
    pub fn operator_controller(&self) -> anyhow::Result<[f64; 4]> {
        let destination = &self.destination;
        destination.apply(&[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": labelled(NAME)}),
            catalog(SMALL),
        ])?;
        let catalog = ["clustercatalog", SMALL];
        destination.wait_for(
            &catalog,
            "the catalog of the extensions to be served",
            PATIENCE,
            |catalog| is_true(catalog, "Serving"),
        )?;
        let sightings = Sightings::start(destination, NAME, &["pod", "clusterextension"])?;
        std::thread::sleep(WATCHED);
        let mut log = AuditTail::of_olm(&self.cluster.audit_log())?;
        let extensions: Vec<Value> = names(self.extensions).map(|name| extension(&name)).collect();
        let (first, others) = extensions.split_first().context("there are no extensions")?;
        destination.apply(std::slice::from_ref(first))?;
        let name = text(first, "/metadata/name");
        let is_first =
            |object: &Value| object["kind"] == "ClusterExtension" && text(object, "/metadata/name") == name;
        let created = sightings.wait("the ClusterExtension", PATIENCE, |it| is_first(&it.object))?;
        let installed = sightings.wait("the ClusterExtension to be installed", PATIENCE, |it| {
            is_first(&it.object) && is_true(&it.object, "Installed")
        })?;
        let pod = sightings.wait("the operator's pod", PATIENCE, |it| is_ready_pod(&it.object))?;
        // The last status belongs to it.
        std::thread::sleep(Duration::from_secs(3));
        let counted = |event: &AuditEvent| counts(event, &ACCOUNTS);
        let requests = log.read()?.into_iter().filter(counted).count();

        destination.apply(others)?;
        for name in names(self.extensions) {
            let what = format!("{name} to be installed");
            destination.wait_for(&["clusterextension", &name], &what, PATIENCE, |extension| {
                is_true(extension, "Installed")
            })?;
        }
        std::thread::sleep(AT_REST);
        let process = process_of_olm(destination, "operator-controller")?;
        Ok([
            (installed.at - created.at).as_secs_f64(),
            installed.at.saturating_duration_since(pod.at).as_secs_f64(),
            requests as f64,
            field(&process, "RssAnon")?,
        ])
    }

    /// Deletes what the measurements created, and waits until nothing of it is left.
    ///
    /// # Errors
    /// Something stays.
    pub fn clean_up(&self) -> anyhow::Result<()> {
        self.delete()?;
        for name in names(self.extensions) {
            let definition = format!("greetings.{name}.example.com");
            self.destination
                .wait_until_gone(&["crd", &definition], PATIENCE)?;
        }
        self.destination.wait_until_gone(&["namespace", NAME], PATIENCE)
    }

    /// Deletes it and waits for the extensions only, because their namespace must not go first.
    fn delete(&self) -> anyhow::Result<()> {
        for (kind, wait) in [
            ("clusterextension", "--wait=true"),
            ("clustercatalog", "--wait=true"),
            ("namespace", "--wait=false"),
        ] {
            self.destination
                .run(&["delete", kind, "-l", LABEL, wait, "--timeout=120s"])?;
        }
        Ok(())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Err(error) = self.delete() {
            eprintln!("cannot remove what was measured: {error:#}");
        }
    }
}

/// Returns the names of packages and their extensions.
fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("{NAME}-{number}"))
}

fn package(name: String, bundle: Bundle) -> Package {
    let entry = Entry {
        name: format!("{name}.v1.0.0"),
        ..Entry::default()
    };
    Package {
        name,
        default_channel: "stable".to_owned(),
        channels: vec![("stable".to_owned(), vec![entry])],
        bundles: vec![bundle],
    }
}

fn image(catalog: &str) -> String {
    format!("olm.local/{catalog}:v1")
}

/// Returns the metadata of an object that is removed at the end.
fn labelled(name: &str) -> Value {
    json!({"name": name, "labels": {"bench": "v1"}})
}

fn catalog(name: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": labelled(name),
        "spec": {"source": {"type": "Image", "image": {"ref": image(name)}}}
    })
}

fn extension(name: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": labelled(name),
        "spec": {"namespace": NAME, "source": {"sourceType": "Catalog", "catalog": {"packageName": name}}}
    })
}

/// Pushes the image of a catalog with these package folders. `catalogd` needs no opm in it, and no cache.
fn publish_catalog(cluster: &Cluster, name: &str, packages: &[PathBuf], home: &Path) -> anyhow::Result<()> {
    let mut contents: Vec<LayerFile> = Vec::new();
    for folder in packages {
        let inside = folder.file_name().unwrap_or_default().to_string_lossy();
        contents.extend(oci_layout::files_below(folder, &format!("configs/{inside}"))?);
    }
    let label = "operators.operatorframework.io.index.configs.v1";
    let config = ImageConfig {
        labels: vec![(label.to_owned(), "/configs".to_owned())],
        folders: vec![("configs".to_owned(), 0o755)],
        ..ImageConfig::default()
    };
    let tar = home.join(format!("{name}.tar"));
    oci_layout::write(&tar, &contents, &config)?;
    cluster.load(&tar, &[image(name)])
}

/// Returns the name of the package of median size, which is that of its folder.
fn typical(packages: &[PathBuf]) -> anyhow::Result<String> {
    let mut sizes = Vec::new();
    for folder in packages {
        let mut size = 0;
        for (_, file) in files::below(folder)? {
            size += fs::metadata(&file)?.len();
        }
        sizes.push((size, folder));
    }
    sizes.sort();
    let (_, folder) = sizes.get(sizes.len() / 2).context("the catalog has no package")?;
    Ok(folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned())
}

/// Parses curl's lines of seconds and bytes. Returns the median of the seconds without the first, which include the handshake, and the
/// bytes.
fn parse_answers(printed: &str) -> anyhow::Result<(f64, u64)> {
    let mut seconds: Vec<f64> = Vec::new();
    let mut bytes: Vec<u64> = Vec::new();
    for line in printed.lines() {
        let (time, size) = line.split_once(' ').context("curl printed no two numbers")?;
        let wrong = || format!("curl printed {line:?}");
        seconds.push(time.parse().with_context(wrong)?);
        bytes.push(size.parse().with_context(wrong)?);
    }
    let first = *bytes.first().context("curl printed nothing")?;
    ensure!(
        bytes.iter().all(|size| *size == first),
        "the answers have different sizes: {bytes:?}"
    );
    Ok((median(seconds.split_off(1)), first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_opens_the_connection_and_is_left_out() {
        let (seconds, bytes) = parse_answers("0.500000 7\n0.002000 7\n0.001000 7\n0.003000 7\n").unwrap();
        assert!((seconds - 0.002).abs() < f64::EPSILON, "{seconds}");
        assert_eq!(bytes, 7);
        for wrong in ["", "0.5\n", "0.5 7\n0.5 8\n", "a 7\n"] {
            assert!(parse_answers(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_typical_package_is_the_one_in_the_middle_by_size() {
        let home = tempfile::tempdir().unwrap();
        for (name, size) in [("large", 300), ("small", 1), ("middle", 20)] {
            fs::create_dir(home.path().join(name)).unwrap();
            fs::write(home.path().join(name).join("catalog.json"), vec![b' '; size]).unwrap();
        }
        let packages = packages_of(home.path()).unwrap();
        assert_eq!(packages.len(), 3);
        assert_eq!(typical(&packages).unwrap(), "middle");
        assert!(typical(&[]).is_err());
    }
}
