//! Cases at solver level, and properties against a naive second solver.

use olm_testing::properties::config;
use proptest::prelude::*;

use super::*;

/// Returns upstream's order of dropping constraints: the most telling ones stay longest.
fn rank(instance: &Instance, reference: ConstraintRef) -> u8 {
    match instance.constraints(reference.variable)[reference.constraint] {
        Constraint::Conflict(_) => 0,
        Constraint::AtMostOne(_) => 1,
        Constraint::Dependency(_) => 2,
        Constraint::Prohibited | Constraint::Mandatory => 3,
    }
}

fn instance(variables: &[&[Constraint]]) -> Instance {
    Instance {
        variables: variables.iter().map(|c| c.to_vec()).collect(),
    }
}

/// Solves every component; selected variables ascending, or the cores.
fn solve_all(instance: &Instance) -> Result<Vec<usize>, Vec<Vec<ConstraintRef>>> {
    let (mut selected, mut cores) = (Vec::new(), Vec::new());
    for component in instance.components() {
        match solve(instance, &component, &Work::default(), |r| rank(instance, r)).unwrap() {
            Outcome::Selected(selection) => selected.extend(selection.selected().map(|v| v.0)),
            Outcome::Unsatisfiable(core) => cores.push(core),
        }
    }
    selected.sort_unstable();
    if cores.is_empty() {
        Ok(selected)
    } else {
        Err(cores)
    }
}

fn selects(variables: &[&[Constraint]]) -> Vec<usize> {
    solve_all(&instance(variables)).unwrap()
}

fn core(variables: &[&[Constraint]]) -> Vec<(usize, usize)> {
    let cores = solve_all(&instance(variables)).unwrap_err();
    assert_eq!(cores.len(), 1);
    cores[0].iter().map(|r| (r.variable.0, r.constraint)).collect()
}

fn needs(candidates: &[usize]) -> Constraint {
    Constraint::Dependency(candidates.iter().map(|&c| VariableId(c)).collect())
}

fn excludes(other: usize) -> Constraint {
    Constraint::Conflict(VariableId(other))
}

fn at_most_one(members: &[usize]) -> Constraint {
    Constraint::AtMostOne(members.iter().map(|&m| VariableId(m)).collect())
}

use Constraint::{Mandatory, Prohibited};

#[test]
fn nothing_is_selected_without_a_mandatory_variable() {
    assert_eq!(selects(&[]), Vec::<usize>::new());
    assert_eq!(selects(&[&[]]), Vec::<usize>::new());
    assert_eq!(selects(&[&[needs(&[1])], &[]]), Vec::<usize>::new());
    assert_eq!(selects(&[&[Mandatory]]), [0]);
}

#[test]
fn mandatory_and_prohibited_exclude_each_other() {
    assert_eq!(core(&[&[Mandatory, Prohibited]]), [(0, 0), (0, 1)]);
}

#[test]
fn dependencies_are_followed() {
    assert_eq!(selects(&[&[], &[Mandatory, needs(&[0])]]), [0, 1]);
    assert_eq!(
        selects(&[&[], &[needs(&[0])], &[Mandatory, needs(&[1])]]),
        [0, 1, 2]
    );
    assert_eq!(
        selects(&[&[Mandatory, needs(&[1]), needs(&[2])], &[], &[]]),
        [0, 1, 2]
    );
}

#[test]
fn a_conflict_makes_the_next_candidate_win() {
    // 2 requires 0 or 1; 1 conflicts with 0: the first candidate wins in either order.
    assert_eq!(
        selects(&[&[], &[excludes(0)], &[Mandatory, needs(&[0, 1])]]),
        [0, 2]
    );
    assert_eq!(
        selects(&[&[], &[excludes(0)], &[Mandatory, needs(&[1, 0])]]),
        [1, 2]
    );
    assert_eq!(
        selects(&[&[Mandatory], &[excludes(0)], &[Mandatory, needs(&[1, 3])], &[]]),
        [0, 2, 3]
    );
}

#[test]
fn two_mandatory_variables_in_conflict_are_the_core() {
    assert_eq!(
        core(&[&[Mandatory], &[Mandatory, excludes(0)]]),
        [(0, 0), (1, 0), (1, 1)]
    );
}

#[test]
fn a_variable_that_is_not_selected_has_no_preferences() {
    assert_eq!(
        selects(&[&[needs(&[2, 1])], &[], &[], &[Mandatory, needs(&[1, 2])]]),
        [1, 3]
    );
}

#[test]
fn the_holder_of_an_at_most_is_not_part_of_its_core() {
    assert_eq!(
        core(&[&[Mandatory, at_most_one(&[1, 2])], &[Mandatory], &[Mandatory]]),
        [(0, 1), (1, 0), (2, 0)]
    );
}

#[test]
fn at_most_one_moves_a_choice_to_a_shared_candidate() {
    assert_eq!(
        selects(&[
            &[Mandatory, needs(&[2, 3]), at_most_one(&[2, 3])],
            &[Mandatory, needs(&[3])],
            &[],
            &[]
        ]),
        [0, 1, 3]
    );
}

#[test]
fn a_choice_met_by_an_earlier_one_adds_nothing() {
    assert_eq!(
        selects(&[&[Mandatory, needs(&[3])], &[Mandatory, needs(&[2, 3])], &[], &[]]),
        [0, 1, 3]
    );
    assert_eq!(
        selects(&[
            &[Mandatory, needs(&[3, 4, 5])],
            &[Mandatory, needs(&[2, 3])],
            &[],
            &[],
            &[],
            &[]
        ]),
        [0, 1, 3]
    );
}

#[test]
fn preference_beats_size() {
    assert_eq!(
        selects(&[&[Mandatory, needs(&[2, 3])], &[Mandatory, needs(&[3])], &[], &[]]),
        [0, 1, 2, 3]
    );
}

#[test]
fn first_choices_in_conflict_fall_back_to_a_compatible_set() {
    // 3, 4 and 5 exclude each other, and so do 6 and the first choice of every other variable.
    let group = at_most_one(&[3, 4, 5]);
    assert_eq!(
        selects(&[
            &[Mandatory, needs(&[3, 6]), group],
            &[Mandatory, needs(&[4, 7])],
            &[Mandatory, needs(&[5, 8])],
            &[excludes(7)],
            &[],
            &[excludes(6)],
            &[],
            &[],
            &[excludes(3)],
        ]),
        [0, 1, 2, 4, 6, 8]
    );
}

#[test]
fn each_preference_list_gets_its_first() {
    assert_eq!(
        selects(&[&[Mandatory, needs(&[1, 2]), needs(&[3, 4])], &[], &[], &[], &[]]),
        [0, 1, 3]
    );
}

#[test]
fn a_variable_may_meet_its_own_dependency() {
    assert_eq!(selects(&[&[Mandatory, needs(&[0])]]), [0]);
}

#[test]
fn a_member_listed_twice_counts_twice() {
    assert_eq!(core(&[&[at_most_one(&[1, 1])], &[Mandatory]]), [(0, 0), (1, 0)]);
}

#[test]
fn parts_without_shared_constraints_are_solved_apart() {
    let instance = instance(&[
        &[Mandatory, needs(&[])],
        &[Mandatory, needs(&[2])],
        &[],
        &[needs(&[3])],
    ]);
    let parts: Vec<Vec<usize>> = instance
        .components()
        .iter()
        .map(|c| c.iter().map(|v| v.0).collect())
        .collect();
    assert_eq!(parts, [vec![0], vec![1, 2]]);
    let outcomes: Vec<bool> = instance
        .components()
        .iter()
        .map(|c| {
            matches!(
                solve(&instance, c, &Work::default(), |_| 0).unwrap(),
                Outcome::Selected(_)
            )
        })
        .collect();
    assert_eq!(outcomes, [false, true]);
}

#[test]
fn the_counter_allows_exactly_one() {
    // Nine members exceed the pairwise encoding; a direct call forces the SAT pass.
    for count in 0..=9 {
        let mut variables: Vec<Vec<Constraint>> = (0..9)
            .map(|i| if i < count { vec![Mandatory] } else { vec![] })
            .collect();
        variables.push(vec![Mandatory, at_most_one(&[0, 1, 2, 3, 4, 5, 6, 7, 8])]);
        let instance = Instance { variables };
        let component = &instance.components()[0];
        let found =
            search::with_oracle(&instance, component, Varisat::within(Work::default().proof())).unwrap();
        assert_eq!(found.is_some(), count <= 1, "{count}");
    }
}

/// Returns whether a set of selected variables meets every constraint, in the simplest way.
fn is_model(instance: &Instance, selected: &[bool], without: &[ConstraintRef]) -> bool {
    (0..instance.len()).all(|index| {
        instance
            .constraints(VariableId(index))
            .iter()
            .enumerate()
            .all(|(constraint, c)| {
                let reference = ConstraintRef {
                    variable: VariableId(index),
                    constraint,
                };
                without.contains(&reference)
                    || match c {
                        Constraint::Mandatory => selected[index],
                        Constraint::Prohibited => !selected[index],
                        Constraint::Dependency(any) => !selected[index] || any.iter().any(|c| selected[c.0]),
                        Constraint::Conflict(other) => !selected[index] || !selected[other.0],
                        Constraint::AtMostOne(members) => {
                            members.iter().filter(|m| selected[m.0]).count() <= 1
                        }
                    }
            })
    })
}

fn has_model(instance: &Instance, without: &[ConstraintRef]) -> bool {
    (0u32..1 << instance.len()).any(|bits| {
        let selected: Vec<bool> = (0..instance.len()).map(|i| bits & (1 << i) != 0).collect();
        is_model(instance, &selected, without)
    })
}

/// Finds the first consistent leaf by plain backtracking: the definition, with no oracle and no counting.
fn naive(instance: &Instance, queue: &[Vec<VariableId>], taken: &[bool]) -> Option<Vec<bool>> {
    let Some((candidates, rest)) = queue.split_first() else {
        return is_model(instance, taken, &[]).then(|| taken.to_vec());
    };
    if candidates.iter().any(|c| taken[c.0]) {
        return naive(instance, rest, taken);
    }
    candidates.iter().find_map(|&candidate| {
        let (mut queue, mut taken) = (rest.to_vec(), taken.to_vec());
        taken[candidate.0] = true;
        queue.extend(instance.constraints(candidate).iter().filter_map(|c| match c {
            Constraint::Dependency(candidates) => Some(candidates.clone()),
            _ => None,
        }));
        naive(instance, &queue, &taken)
    })
}

fn constraints(len: usize) -> impl Strategy<Value = Constraint> {
    let variable = move || (0..len).prop_map(VariableId);
    prop_oneof![
        2 => Just(Mandatory),
        1 => Just(Prohibited),
        5 => prop::collection::vec(variable(), 0..4).prop_map(Constraint::Dependency),
        3 => variable().prop_map(Constraint::Conflict),
        2 => prop::collection::vec(variable(), 0..len).prop_map(Constraint::AtMostOne),
    ]
}

fn instances() -> impl Strategy<Value = Instance> {
    (2usize..8).prop_flat_map(|len| {
        prop::collection::vec(prop::collection::vec(constraints(len), 0..3), len)
            .prop_map(|variables| Instance { variables })
    })
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn the_selection_is_the_first_consistent_leaf(instance in instances()) {
        let anchors: Vec<Vec<VariableId>> =
            (0..instance.len()).map(VariableId).filter(|&v| instance.is_anchor(v)).map(|v| vec![v]).collect();
        // Contradictory constraints do not matter between variables that no anchor leads to.
        for component in instance.components() {
            let inside = |v: &VariableId| component.contains(v);
            let anchors: Vec<Vec<VariableId>> = anchors.iter().filter(|a| inside(&a[0])).cloned().collect();
            let mut alone = instance.clone();
            for index in 0..alone.len() {
                if !inside(&VariableId(index)) {
                    alone.variables[index].clear();
                }
            }
            let expected = naive(&alone, &anchors, &vec![false; alone.len()]);
            match solve(&instance, &component, &Work::default(), |r| rank(&instance, r)).unwrap() {
                Outcome::Selected(selection) => {
                    let mut selected = vec![false; instance.len()];
                    selection.selected().for_each(|v| selected[v.0] = true);
                    prop_assert_eq!(Some(selected), expected);
                    let oracle = search::with_oracle(&instance, &component, Varisat::within(Work::default().proof())).unwrap();
                    prop_assert_eq!(Some(selection), oracle, "both passes agree");
                }
                Outcome::Unsatisfiable(core) => {
                    prop_assert_eq!(expected, None);
                    prop_assert!(!has_model(&alone, &[]));
                    let others: Vec<ConstraintRef> =
                        alone.refs(&component).map(|(r, _)| r).filter(|r| !core.contains(r)).collect();
                    prop_assert!(!has_model(&alone, &others), "the core alone is contradictory: {:?}", core);
                    for kept in &core {
                        let without: Vec<ConstraintRef> = others.iter().chain([kept]).copied().collect();
                        prop_assert!(has_model(&alone, &without), "{:?} is not needed in {:?}", kept, core);
                    }
                }
            }
        }
    }
}
