//! "At most k of these" as clauses.

use super::sat::{Literal, Sat};

/// Maximum members for which one clause per pair is smaller than a counter.
const PAIRWISE_LIMIT: usize = 6;

/// Adds clauses that forbid more than `limit` of `members`, a repeated member counting as often as it is listed.
///
/// Every clause gets the literals of `unless`, so the whole rule can be switched off by one of them.
pub(super) fn at_most(sat: &mut impl Sat, limit: usize, members: &[Literal], unless: &[Literal]) {
    if members.len() <= limit {
        return;
    }
    if limit == 0 {
        for member in members {
            add(sat, &[member.negated()], unless);
        }
    } else if limit == 1 && members.len() <= PAIRWISE_LIMIT {
        for (i, first) in members.iter().enumerate() {
            for second in &members[i + 1..] {
                add(sat, &[first.negated(), second.negated()], unless);
            }
        }
    } else {
        sequential_counter(sat, limit, members, unless);
    }
}

/// Adds Sinz's counter: `reached[j]` after a member means that at least `j + 1` members up to it hold. It is
/// linear in members times limit. A sorting network, as upstream's, grows with the square of the logarithm on
/// top.
fn sequential_counter(sat: &mut impl Sat, limit: usize, members: &[Literal], unless: &[Literal]) {
    let mut before: Vec<Literal> = Vec::new();
    for &member in members {
        if let Some(&full) = before.get(limit - 1) {
            add(sat, &[member.negated(), full.negated()], unless);
        }
        let after: Vec<Literal> = (0..limit.min(before.len() + 1)).map(|_| sat.variable()).collect();
        add(sat, &[member.negated(), after[0]], unless);
        for (j, &reached) in before.iter().enumerate() {
            add(sat, &[reached.negated(), after[j]], unless);
            if let Some(&next) = after.get(j + 1) {
                add(sat, &[member.negated(), reached.negated(), next], unless);
            }
        }
        before = after;
    }
}

fn add(sat: &mut impl Sat, clause: &[Literal], unless: &[Literal]) {
    let literals: Vec<Literal> = clause.iter().chain(unless).copied().collect();
    sat.clause(&literals);
}
