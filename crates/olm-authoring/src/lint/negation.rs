//! Finds `not` in constraints, which rarely means what its author intends.
//!
//! A constraint is tested on one candidate at a time (`spec/resolver.md`, compound constraints). Before anything is selected
//! there is nothing to exclude.

use serde_json::Value;

/// Maximum number of findings for one constraint.
const MAX_NAMED: usize = 5;

/// Returns the meaning of each `not` of a constraint, as `all.constraints[1].not: …`; at most [`MAX_NAMED`].
pub(super) fn negations(constraint: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(constraint, "", "", &mut found);
    found
}

/// Looks for `not` in a constraint that is part of the form `around`; empty for none.
fn look(constraint: &Value, around: &str, place: &str, found: &mut Vec<String>) {
    for form in ["all", "any", "not"] {
        let Some(compound) = constraint.get(form) else {
            continue;
        };
        if form == "not" && found.len() < MAX_NAMED {
            found.push(format!("{place}not: {}", comes_to(around)));
        }
        let parts = compound["constraints"].as_array();
        for (index, part) in parts.into_iter().flatten().enumerate() {
            let place = format!("{place}{form}.constraints[{index}].");
            look(part, form, &place, found);
        }
    }
}

/// Returns the meaning of a `not` in its context.
fn comes_to(around: &str) -> &'static str {
    match around {
        "all" => {
            "`not` in `all` restricts only the operator that meets the other parts; another installed operator may be what `not` excludes"
        }
        "not" => "a `not` in a `not` has no effect; remove both",
        _ => {
            "`not` outside of `all` excludes nothing: any operator of any catalog that is something else meets the constraint"
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn con_013_a_not_is_advised_against_wherever_it_stands() {
        let gvk = json!({"gvk": {"group": "g", "version": "v1", "kind": "K"}});
        let not = json!({"not": {"constraints": [gvk]}});
        let of = |form: &str, parts: &[&Value]| json!({form: {"constraints": parts}});
        assert_eq!(negations(&gvk), Vec::<String>::new());
        assert_eq!(negations(&of("all", &[&gvk, &gvk])), Vec::<String>::new());
        for (constraint, place, said) in [
            (
                of("all", &[&gvk, &not]),
                "all.constraints[1].not: ",
                "the other parts; another installed operator",
            ),
            (
                of("any", &[&not, &gvk]),
                "any.constraints[0].not: ",
                "excludes nothing",
            ),
            (not.clone(), "not: ", "excludes nothing"),
            (of("not", &[&not]), "not.constraints[0].not: ", "remove both"),
            (
                of("any", &[&gvk, &of("all", &[&gvk, &not])]),
                "any.constraints[1].all.constraints[1].not: ",
                "the other parts; another installed operator",
            ),
        ] {
            let found = negations(&constraint);
            let last = found.last().expect("a finding");
            assert!(
                last.starts_with(place) && last.contains(said),
                "{constraint}: {found:?}"
            );
        }
    }

    #[test]
    fn the_first_of_many_are_named() {
        let not = json!({"not": {"constraints": [{"cel": {"rule": "true"}}]}});
        let many = json!({"all": {"constraints": vec![not; 1000]}});
        assert_eq!(negations(&many).len(), MAX_NAMED);
    }
}
