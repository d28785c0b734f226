//! The order of a channel: entries along `replaces` from the one head (`docs/reference/resolution.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A channel has no order. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChainError(String);

/// Maximum number of chains that are followed and named. A catalog may have as many as entries, each nearly
/// as long.
pub const MAX_NAMED_CHAINS: usize = 12;

/// An entry with the fields that determine the order.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// Name of the entry.
    pub name: &'a str,
    /// The entry it replaces, if any.
    pub replaces: Option<&'a str>,
    /// The entries it skips.
    pub skips: &'a [Arc<str>],
}

/// Orders the entries of one channel, head first, as indexes into `links`.
///
/// Skipped entries are left out, although the chain continues through them. Entries that only `skips` leads
/// to are left out too. Versions do not matter.
///
/// # Errors
/// The entries have no head, a cycle, or more than one chain.
pub fn order(package: &str, channel: &str, links: &[Link<'_>]) -> Result<Vec<usize>, ChainError> {
    let by_name: BTreeMap<&str, usize> = links.iter().enumerate().map(|(i, link)| (link.name, i)).collect();
    let mut replaced: BTreeSet<usize> = BTreeSet::new();
    let mut skipped: BTreeSet<usize> = BTreeSet::new();
    for link in links {
        replaced.extend(link.replaces.and_then(|name| by_name.get(name)));
        skipped.extend(link.skips.iter().filter_map(|name| by_name.get(&**name)));
    }
    let heads: Vec<usize> = (0..links.len())
        .filter(|i| !replaced.contains(i) && !skipped.contains(i))
        .collect();
    let place = || format!("in channel {channel:?} of package {package:?}");
    if heads.is_empty() && !links.is_empty() {
        return Err(ChainError(format!(
            "no channel heads (entries not replaced by another entry) found {}",
            place()
        )));
    }
    let count = heads.len();
    let mut chains = Vec::new();
    for head in heads.into_iter().take(MAX_NAMED_CHAINS) {
        let chain = walk(links, &by_name, head).ok_or_else(|| {
            let head = links[head].name;
            ChainError(format!(
                "a cycle exists in the chain of replacement beginning with {head:?} {}",
                place()
            ))
        })?;
        chains.push(
            chain
                .into_iter()
                .filter(|i| !skipped.contains(i))
                .collect::<Vec<_>>(),
        );
    }
    if count > 1 {
        let named: Vec<String> = chains.iter().map(|chain| ends(links, chain)).collect();
        let more = if named.len() < count { ", ..." } else { "" };
        return Err(ChainError(format!(
            "a unique replacement chain within a channel is required to determine the relative order between channel \
             entries, but {count} replacement chains were found {}: {}{more}",
            place(),
            named.join(", ")
        )));
    }
    Ok(chains.pop().unwrap_or_default())
}

fn walk(links: &[Link<'_>], by_name: &BTreeMap<&str, usize>, head: usize) -> Option<Vec<usize>> {
    let mut chain = vec![head];
    let mut seen = BTreeSet::from([head]);
    let mut current = head;
    while let Some(&next) = links[current].replaces.and_then(|name| by_name.get(name)) {
        if !seen.insert(next) {
            return None;
        }
        chain.push(next);
        current = next;
    }
    Some(chain)
}

fn ends(links: &[Link<'_>], chain: &[usize]) -> String {
    match chain {
        [] => "[]".to_owned(),
        [only] => links[*only].name.to_owned(),
        [first, .., last] => format!("{}...{}", links[*first].name, links[*last].name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order of rows: `name`, `name<replaced` or `name!skipped,skipped`.
    fn check(rows: &str) -> String {
        let parsed: Vec<(String, Option<String>, Vec<Arc<str>>)> = rows
            .split_whitespace()
            .map(|row| {
                let (row, skips) = row.split_once('!').unwrap_or((row, ""));
                let (name, replaces) = row
                    .split_once('<')
                    .map_or((row, None), |(n, r)| (n, Some(r.to_owned())));
                (
                    name.to_owned(),
                    replaces,
                    skips
                        .split(',')
                        .filter(|s| !s.is_empty())
                        .map(Into::into)
                        .collect(),
                )
            })
            .collect();
        let links: Vec<Link<'_>> = parsed
            .iter()
            .map(|(name, replaces, skips)| Link {
                name,
                replaces: replaces.as_deref(),
                skips,
            })
            .collect();
        match order("p", "c", &links) {
            Ok(chain) => chain
                .into_iter()
                .map(|i| links[i].name)
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn follows_replaces_from_the_head() {
        assert_eq!(check(""), "");
        assert_eq!(check("a"), "a");
        assert_eq!(check("a<b c b<c"), "a b c");
        assert_eq!(check("a<gone"), "a");
    }

    #[test]
    fn leaves_out_what_is_skipped() {
        assert_eq!(check("a<b!b b"), "a");
        assert_eq!(check("a<b!c b<c c"), "a b");
        assert_eq!(check("a!b b"), "a");
        assert_eq!(check("a<b!b b<c c"), "a c");
    }

    #[test]
    fn a_cycle_has_no_head_or_starts_at_one() {
        assert_eq!(
            check("a<b b<a"),
            r#"no channel heads (entries not replaced by another entry) found in channel "c" of package "p""#
        );
        assert_eq!(
            check("a<b b<c c<b"),
            r#"a cycle exists in the chain of replacement beginning with "a" in channel "c" of package "p""#
        );
    }

    #[test]
    fn names_both_ends_of_every_chain() {
        assert_eq!(
            check("a<b b c<d d e!f f"),
            "a unique replacement chain within a channel is required to determine the relative order between \
             channel entries, but 3 replacement chains were found in channel \"c\" of package \"p\": a...b, c...d, e"
        );
    }

    /// A malicious catalog has as many heads as entries, each with nearly all entries behind it.
    #[test]
    fn a_few_of_many_heads_are_followed_and_named() {
        const MANY: usize = 20_000;
        let names: Vec<String> = (0..2 * MANY).map(|i| format!("e{i:05}")).collect();
        let links: Vec<Link<'_>> = (0..2 * MANY)
            .map(|i| Link {
                name: &names[i],
                // A tail, and heads that all precede it.
                replaces: match i {
                    _ if i + 1 < MANY => Some(&names[i + 1]),
                    _ if i >= MANY => Some(&names[0]),
                    _ => None,
                },
                skips: &[],
            })
            .collect();
        let error = order("p", "c", &links).unwrap_err().to_string();
        assert!(
            error.contains(&format!("but {MANY} replacement chains were found")),
            "{error}"
        );
        assert!(error.ends_with(", ...") && error.len() < 1000, "{error}");
    }
}
