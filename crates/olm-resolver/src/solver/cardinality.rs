//! "At most one of these" as clauses.

use varisat::Lit;

use super::sat::Varisat;

/// Maximum members for which one clause per pair is smaller than a counter.
const PAIRWISE_LIMIT: usize = 6;

/// Adds clauses that forbid more than one of `members`, a repeated member counting as often as it is listed.
///
/// Every clause gets the literals of `unless`, so the whole rule can be switched off by one of them.
pub(super) fn at_most_one(sat: &mut Varisat, members: &[Lit], unless: &[Lit]) {
    if members.len() <= PAIRWISE_LIMIT {
        for (i, &first) in members.iter().enumerate() {
            for &second in &members[i + 1..] {
                add(sat, &[!first, !second], unless);
            }
        }
        return;
    }
    // Sinz's counter: the variable after a member means that one up to it holds. It is linear in members. A
    // sorting network, as upstream's, grows with the square of the logarithm on top.
    let mut before: Option<Lit> = None;
    for &member in members {
        if let Some(before) = before {
            add(sat, &[!member, !before], unless);
        }
        let after = sat.variable();
        add(sat, &[!member, after], unless);
        if let Some(before) = before {
            add(sat, &[!before, after], unless);
        }
        before = Some(after);
    }
}

fn add(sat: &mut Varisat, clause: &[Lit], unless: &[Lit]) {
    let literals: Vec<Lit> = clause.iter().chain(unless).copied().collect();
    sat.clause(&literals);
}
