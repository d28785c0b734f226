//! `olmv1 create catalog`, `update catalog`, and how ClusterCatalogs are listed.

use anyhow::bail;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, ResourceExt as _};
use olm_api::condition::{self, cluster_catalog};
use olm_api::extension_v1::{
    AvailabilityMode, CatalogSourceType, ClusterCatalog, ClusterCatalogSource, ClusterCatalogSpec,
    ImageSource,
};

use super::{Managed, change_labels, current, find, mode, report, since, status_of};
use crate::args::olmv1::{CreateCatalogArgs, UpdateCatalogArgs};
use crate::args::shared::UPSTREAM_TIMEOUT;
use crate::cluster::Cluster;
use crate::operators::Node;
use crate::terminal::Mark;
use crate::watch::Outcome;
use crate::{Verdict, writer};

/// Creates a catalog and waits until it is served.
///
/// # Errors
/// The catalog cannot be created, or is not served in time.
pub(super) async fn create(args: &CreateCatalogArgs) -> anyhow::Result<Verdict> {
    let catalog = new(args)?;
    let cluster = Cluster::connect(&args.write.connection).await?;
    let wait = args.wait.or(UPSTREAM_TIMEOUT);
    let cleanup = Some(args.cleanup_timeout);
    super::create(&cluster, &catalog, &wait, cleanup, &args.write).await
}

/// Builds the catalog from the flags.
pub(super) fn new(args: &CreateCatalogArgs) -> anyhow::Result<ClusterCatalog> {
    let fields = &args.fields;
    check_poll_interval(&args.name, &args.source, fields.source_poll_interval_minutes)?;
    let image = ImageSource {
        reference: args.source.clone(),
        poll_interval_minutes: poll_interval(fields.source_poll_interval_minutes),
        ..ImageSource::default()
    };
    let spec = ClusterCatalogSpec {
        source: ClusterCatalogSource {
            type_: CatalogSourceType::Image,
            image: Some(image),
            ..ClusterCatalogSource::default()
        },
        priority: Some(fields.priority.unwrap_or_default()),
        availability_mode: Some(availability(fields.available.unwrap_or(true))),
        ..ClusterCatalogSpec::default()
    };
    let mut catalog = ClusterCatalog::new(&args.name, spec);
    if !fields.labels.is_empty() {
        catalog.metadata.labels = Some(fields.labels.iter().cloned().collect());
    }
    Ok(catalog)
}

fn availability(is_available: bool) -> AvailabilityMode {
    match is_available {
        true => AvailabilityMode::Available,
        false => AvailabilityMode::Unavailable,
    }
}

/// Returns the field for a flag; `None` if the image is not polled.
fn poll_interval(minutes: Option<i32>) -> Option<i64> {
    minutes.filter(|minutes| *minutes > 0).map(i64::from)
}

/// The API server rejects this too, but names no flag.
fn check_poll_interval(name: &str, image: &str, minutes: Option<i32>) -> anyhow::Result<()> {
    if image.contains('@') && poll_interval(minutes).is_some() {
        bail!(
            "ClusterCatalog {name}: image {image} has a digest, so there is nothing to poll; omit --source-poll-interval-minutes, \
             set it to 0, or use a tag"
        );
    }
    Ok(())
}

/// Updates fields of a catalog.
///
/// # Errors
/// There is no such catalog, or it cannot be updated.
pub(super) async fn update(args: &UpdateCatalogArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.write.connection).await?;
    let mut catalog = find::<ClusterCatalog>(&cluster, &args.name).await?;
    change(&mut catalog, args)?;
    let api = Api::<ClusterCatalog>::all(cluster.client.clone());
    let updated = writer::replace(mode(&args.write), &api, &catalog).await?;
    report(&[updated], "updated", &args.write)?;
    Ok(Verdict::Fine)
}

/// Sets the fields of a catalog from the flags.
pub(super) fn change(catalog: &mut ClusterCatalog, args: &UpdateCatalogArgs) -> anyhow::Result<()> {
    let fields = &args.fields;
    change_labels(&mut catalog.metadata.labels, &fields.labels);
    let spec = &mut catalog.spec;
    if spec.source.type_ != CatalogSourceType::Image {
        bail!(
            "ClusterCatalog {}: the source type {} is not known to this version of the plugin; use `kubectl edit`",
            args.name,
            spec.source.type_
        );
    }
    let is_reset = !args.unset.ignore_unset;
    if is_reset || fields.priority.is_some() {
        spec.priority = Some(fields.priority.unwrap_or_default());
    }
    if is_reset || fields.available.is_some() {
        spec.availability_mode = Some(availability(fields.available.unwrap_or(true)));
    }
    let image = spec.source.image.get_or_insert_default();
    if let Some(reference) = &args.image {
        image.reference.clone_from(reference);
    }
    if is_reset || fields.source_poll_interval_minutes.is_some() {
        check_poll_interval(&args.name, &image.reference, fields.source_poll_interval_minutes)?;
        image.poll_interval_minutes = poll_interval(fields.source_poll_interval_minutes);
    }
    Ok(())
}

/// Returns the conditions of a catalog; empty if there are none yet.
pub(super) fn conditions(catalog: &ClusterCatalog) -> &[Condition] {
    let status = catalog.status.as_ref();
    status
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default()
}

impl Managed for ClusterCatalog {
    const WORD: &'static str = "catalog";
    const HEAD: &'static [&'static str] = &[
        "NAME",
        "AVAILABILITY",
        "PRIORITY",
        "LASTUNPACKED",
        "SERVING",
        "AGE",
    ];
    const CONSEQUENCE: &'static str = "";
    const SHOWN_BY: &'static str = "olmv1 get catalog {} -o yaml";

    fn row(&self, now: Timestamp) -> Vec<String> {
        let status = self.status.as_ref();
        let unpacked = status.and_then(|status| status.last_unpacked.as_ref());
        let mode = self.spec.availability_mode.as_ref();
        vec![
            self.name_any(),
            mode.map(ToString::to_string).unwrap_or_default(),
            self.spec.priority.unwrap_or_default().to_string(),
            since(now, unpacked),
            status_of(conditions(self), cluster_catalog::SERVING),
            since(now, self.metadata.creation_timestamp.as_ref()),
        ]
    }

    fn sort(objects: &mut [Self]) {
        objects.sort_by_cached_key(|catalog| {
            let priority = catalog.spec.priority.unwrap_or_default();
            (
                catalog.spec.availability_mode.as_ref().map(ToString::to_string),
                std::cmp::Reverse(priority),
                catalog.name_any(),
            )
        });
    }

    fn progress(&self) -> (Node, Outcome) {
        let (conditions, generation) = (conditions(self), self.metadata.generation);
        let serving = current(conditions, cluster_catalog::SERVING, generation);
        let progressing = current(conditions, cluster_catalog::PROGRESSING, generation);
        let (wanted, done) = match self.spec.is_switched_off() {
            true => (condition::FALSE, "Unavailable"),
            false => (condition::TRUE, "Serving"),
        };
        let name = self.name_any();
        if serving.is_some_and(|serving| serving.status == wanted) {
            return (
                Node::new("ClusterCatalog", &name, Mark::Fine, done),
                Outcome::Done,
            );
        }
        let reason = progressing.map_or("New", |progressing| progressing.reason.as_str());
        let (mark, outcome) = match reason {
            cluster_catalog::BLOCKED => (Mark::Bad, Outcome::Over),
            _ => (Mark::Waits, Outcome::Waits),
        };
        let mut node = Node::new("ClusterCatalog", &name, mark, reason);
        node.message = progressing
            .filter(|progressing| progressing.reason != cluster_catalog::SUCCEEDED)
            .map_or_else(
                || "waiting for catalogd to serve its content".to_owned(),
                |progressing| progressing.message.clone(),
            );
        (node, outcome)
    }
}
