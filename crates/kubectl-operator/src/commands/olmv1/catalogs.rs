//! `olmv1 create catalog`, `update catalog`, and how ClusterCatalogs are listed.

use anyhow::bail;
use kube::{Api, ResourceExt as _};
use olm_api::condition::{self, cluster_catalog};
use olm_api::extension_v1::{
    AvailabilityMode, CatalogSourceType, ClusterCatalog, ClusterCatalogSource, ClusterCatalogSpec,
};

use super::{Columns, Managed, change_labels, current, find, new_labels, report, since, status_of};
use crate::args::olmv1::{CatalogFields, CreateCatalogArgs, UpdateCatalogArgs};
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
    let spec = ClusterCatalogSpec {
        source: ClusterCatalogSource {
            type_: CatalogSourceType::Image,
            ..ClusterCatalogSource::default()
        },
        ..ClusterCatalogSpec::default()
    };
    let mut catalog = ClusterCatalog::new(&args.name, spec);
    change(&mut catalog, &args.fields, Some(&args.source), true)?;
    catalog.metadata.labels = new_labels(&args.fields.labels);
    Ok(catalog)
}

/// Updates fields of a catalog.
///
/// # Errors
/// There is no such catalog, or it cannot be updated.
pub(super) async fn update(args: &UpdateCatalogArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.write.connection).await?;
    let mut catalog = find::<ClusterCatalog>(&cluster, &args.name).await?;
    let (image, is_reset) = (args.image.as_deref(), !args.unset.ignore_unset);
    change(&mut catalog, &args.fields, image, is_reset)?;
    let api = Api::<ClusterCatalog>::all(cluster.client.clone());
    let updated = writer::replace(args.write.is_dry_run(), &api, &catalog).await?;
    report(&[updated], "updated", &args.write)?;
    Ok(Verdict::Fine)
}

/// Sets the fields of a catalog from the flags. With `is_reset`, those without a flag get their defaults.
pub(super) fn change(
    catalog: &mut ClusterCatalog,
    fields: &CatalogFields,
    image: Option<&str>,
    is_reset: bool,
) -> anyhow::Result<()> {
    let name = catalog.name_any();
    change_labels(&mut catalog.metadata.labels, &fields.labels);
    let spec = &mut catalog.spec;
    if spec.source.type_ != CatalogSourceType::Image {
        bail!(
            "ClusterCatalog {name}: the source type {} is not known to this version of the plugin; use `kubectl edit`",
            spec.source.type_
        );
    }
    if is_reset || fields.priority.is_some() {
        spec.priority = Some(fields.priority.unwrap_or_default());
    }
    if is_reset || fields.available.is_some() {
        spec.availability_mode = Some(match fields.available {
            Some(false) => AvailabilityMode::Unavailable,
            _ => AvailabilityMode::Available,
        });
    }
    let source = spec.source.image.get_or_insert_default();
    if let Some(image) = image {
        image.clone_into(&mut source.reference);
    }
    if is_reset || fields.source_poll_interval_minutes.is_some() {
        let minutes = fields.source_poll_interval_minutes.filter(|minutes| *minutes > 0);
        let image = &source.reference;
        // The API server rejects this too, but names no flag.
        if image.contains('@') && minutes.is_some() {
            bail!(
                "ClusterCatalog {name}: image {image} has a digest, so there is nothing to poll; omit --source-poll-interval-minutes, \
                 set it to 0, or use a tag"
            );
        }
        source.poll_interval_minutes = minutes.map(i64::from);
    }
    Ok(())
}

impl Managed for ClusterCatalog {
    const WORD: &'static str = "catalog";
    const COLUMNS: Columns<Self> = &[
        ("NAME", |catalog, _| catalog.name_any()),
        ("AVAILABILITY", |catalog, _| {
            let mode = catalog.spec.availability_mode.as_ref();
            mode.map(ToString::to_string).unwrap_or_default()
        }),
        ("PRIORITY", |catalog, _| {
            catalog.spec.priority.unwrap_or_default().to_string()
        }),
        ("LASTUNPACKED", |catalog, now| {
            let status = catalog.status.as_ref();
            since(now, status.and_then(|status| status.last_unpacked.as_ref()))
        }),
        ("SERVING", |catalog, _| {
            status_of(catalog.condition(cluster_catalog::SERVING))
        }),
        ("AGE", |catalog, now| {
            since(now, catalog.metadata.creation_timestamp.as_ref())
        }),
    ];
    const CONSEQUENCE: &'static str = "";
    const SHOWN_BY: &'static str = "olmv1 get catalog {} -o yaml";

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
        let generation = self.metadata.generation;
        let serving = current(self.condition(cluster_catalog::SERVING), generation);
        let progressing = current(self.condition(cluster_catalog::PROGRESSING), generation);
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
