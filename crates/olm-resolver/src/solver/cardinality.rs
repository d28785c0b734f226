//! "At most k of these" as clauses.

use varisat::Lit;

use super::sat::Varisat;

/// Maximum members for which one clause per pair is smaller than a counter.
const PAIRWISE_LIMIT: usize = 6;

/// Adds clauses that forbid more than `limit` of `members`, a repeated member counting as often as it is listed.
///
/// Every clause gets the literals of `unless`, so the whole rule can be switched off by one of them.
pub(super) fn at_most(sat: &mut Varisat, limit: usize, members: &[Lit], unless: &[Lit]) {
    if members.len() <= limit {
        return;
    }
    if limit == 0 {
        for &member in members {
            add(sat, &[!member], unless);
        }
    } else if limit == 1 && members.len() <= PAIRWISE_LIMIT {
        for (i, &first) in members.iter().enumerate() {
            for &second in &members[i + 1..] {
                add(sat, &[!first, !second], unless);
            }
        }
    } else {
        sequential_counter(sat, limit, members, unless);
    }
}

/// Adds Sinz's counter: `reached[j]` after a member means that at least `j + 1` members up to it hold. It is
/// linear in members times limit. A sorting network, as upstream's, grows with the square of the logarithm on
/// top.
fn sequential_counter(sat: &mut Varisat, limit: usize, members: &[Lit], unless: &[Lit]) {
    let mut before: Vec<Lit> = Vec::new();
    for &member in members {
        if let Some(&full) = before.get(limit - 1) {
            add(sat, &[!member, !full], unless);
        }
        let after: Vec<Lit> = (0..limit.min(before.len() + 1)).map(|_| sat.variable()).collect();
        add(sat, &[!member, after[0]], unless);
        for (j, &reached) in before.iter().enumerate() {
            add(sat, &[!reached, after[j]], unless);
            if let Some(&next) = after.get(j + 1) {
                add(sat, &[!member, !reached, next], unless);
            }
        }
        before = after;
    }
}

fn add(sat: &mut Varisat, clause: &[Lit], unless: &[Lit]) {
    let literals: Vec<Lit> = clause.iter().chain(unless).copied().collect();
    sat.clause(&literals);
}
