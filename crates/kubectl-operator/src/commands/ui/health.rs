//! Reads the CatalogSources that a namespace can use, for their page.

use kube::Client;
use olm_api::v1alpha1::CatalogSource;

use crate::commands::catalog::{Row, row};
use crate::global;
use crate::reader::list_readable;

/// Reads the catalogs of a namespace and the global ones, or those of all namespaces. `global` is the namespace of global catalogs,
/// if the user gave it. Returns the catalogs by namespace and name, and notes on those that could not be read.
///
/// # Errors
/// The catalogs of the namespace cannot be read.
pub(super) async fn read(
    client: &Client,
    namespace: Option<&str>,
    global: Option<&str>,
) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let (mut sources, mut unreadable) = list_readable::<CatalogSource>(client, namespace, "").await?;
    let mut notes = Vec::new();
    if let Some(namespace) = namespace {
        let global = global::find(client, global, Some(namespace)).await.catalogs;
        if global != namespace {
            // A user of one namespace may lack the right.
            match list_readable::<CatalogSource>(client, Some(&global), "").await {
                Ok((found, others)) => {
                    sources.extend(found);
                    unreadable.extend(others);
                }
                Err(error) => notes.push(format!("global catalogs are not shown: {error:#}")),
            }
        }
    }
    notes.extend(unreadable.into_iter().map(|object| object.text));
    let mut catalogs: Vec<Row> = sources.iter().map(row).collect();
    catalogs.sort_by_cached_key(|catalog| (catalog.namespace.clone(), catalog.name.clone()));
    Ok((catalogs, notes))
}
