//! Paged lists. No state is kept between two pages, so any replica can return the next one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::api_status::ApiStatus;
use crate::index::{Item, Position};
use crate::rendering::ListMetadata;

/// Returns one page of the sorted `items`: at most `limit` after the end of the previous page. Changes
/// between two pages may be missed, as in every paged list.
///
/// # Errors
/// The token is invalid.
pub fn page(
    mut items: Vec<Item>,
    limit: Option<usize>,
    token: Option<&str>,
    counts_all: bool,
) -> Result<(Vec<Item>, ListMetadata), ApiStatus> {
    if let Some(token) = token {
        let last = parse(token).ok_or_else(|| ApiStatus::bad_request("continue key is not valid"))?;
        items.retain(|item| item.position() > last);
    }
    let Some(limit) = limit.filter(|limit| *limit < items.len()) else {
        return Ok((items, ListMetadata::default()));
    };
    let remaining = items.len() - limit;
    items.truncate(limit);
    let metadata = ListMetadata {
        continue_token: items.last().map(|item| text(&item.position())),
        // Kubernetes omits it for lists with a selector.
        remaining_item_count: counts_all.then_some(remaining),
    };
    Ok((items, metadata))
}

fn text(position: &Position) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(position).unwrap_or_default())
}

fn parse(token: &str) -> Option<Position> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use olm_runtime::NamespacedName;

    use super::*;
    use crate::index::{Catalog, CatalogFacts, Packages};
    use crate::package_manifest::Package;

    fn items(names: &[&str]) -> Vec<Item> {
        let catalog = Arc::new(Catalog {
            facts: CatalogFacts {
                key: NamespacedName::new("ns", "cat"),
                ..CatalogFacts::default()
            },
            packages: Arc::new(Packages::new()),
        });
        let item = |name: &&str| Item {
            namespace: "ns".into(),
            catalog: Arc::clone(&catalog),
            package: Arc::new(Package {
                name: (*name).into(),
                labels: BTreeMap::new(),
                icon: None,
                content: Vec::new(),
            }),
        };
        names.iter().map(item).collect()
    }

    fn names(items: &[Item]) -> Vec<&str> {
        items.iter().map(|item| &*item.package.name).collect()
    }

    #[test]
    fn pages_together_are_the_list() {
        let all = ["a", "b", "c", "d", "e"];
        let (first, metadata) = page(items(&all), Some(2), None, true).unwrap();
        assert_eq!(names(&first), ["a", "b"]);
        assert_eq!(metadata.remaining_item_count, Some(3));
        let token = metadata.continue_token;
        let (second, metadata) = page(items(&all), Some(2), token.as_deref(), true).unwrap();
        assert_eq!(names(&second), ["c", "d"]);
        let (last, metadata) = page(items(&all), Some(2), metadata.continue_token.as_deref(), true).unwrap();
        assert_eq!(names(&last), ["e"]);
        assert_eq!(metadata, ListMetadata::default());
    }

    #[test]
    fn a_page_begins_where_the_last_ended_whatever_went_meanwhile() {
        let (_, metadata) = page(items(&["a", "b", "c"]), Some(2), None, true).unwrap();
        let (next, _) = page(
            items(&["a", "c", "d"]),
            None,
            metadata.continue_token.as_deref(),
            true,
        )
        .unwrap();
        assert_eq!(names(&next), ["c", "d"]);
    }

    #[test]
    fn what_fits_is_one_page() {
        let (all, metadata) = page(items(&["a", "b"]), Some(2), None, true).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(metadata, ListMetadata::default());
        let (_, selected) = page(items(&["a", "b"]), Some(1), None, false).unwrap();
        assert_eq!(selected.remaining_item_count, None);
    }

    #[test]
    fn a_token_that_is_none_of_ours_is_refused() {
        for token in ["x", "e30", "%%%"] {
            assert_eq!(
                page(items(&["a"]), None, Some(token), true).unwrap_err().code,
                400,
                "{token}"
            );
        }
    }
}
