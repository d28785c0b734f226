use super::*;

fn properties() -> Vec<EntryProperty> {
    [
        ("olm.package", r#"{"packageName":"etcd","version":"1.2.3"}"#),
        ("olm.gvk", r#"{"group":"g","kind":"K","version":"v1"}"#),
        ("certified", "true"),
        ("number", "1"),
        ("words", r#"["a","b"]"#),
        ("broken", "]"),
    ]
    .into_iter()
    .map(|(kind, value)| EntryProperty::new(kind, value))
    .collect()
}

fn check(rule: &str) -> String {
    match Rule::compile(rule) {
        Ok(rule) => {
            let budget = Budget::of_bundle();
            let met = rule.test(&properties(), &budget);
            budget
                .check()
                .map_or_else(|error| error.to_string(), |()| met.to_string())
        }
        Err(error) => error,
    }
}

#[test]
fn rules_are_evaluated_over_the_properties() {
    for (rule, expected) in [
        ("true", true),
        ("properties.exists(p, p.type == 'certified')", true),
        ("properties.exists(p, p.type == \"gone\")", false),
        (
            "properties.exists(p, p.type == 'certified' && p.value == true)",
            true,
        ),
        ("properties.exists(p, p.type == 'number' && p.value == 1)", true),
        ("properties.exists(p, p.type == 'words' && 'b' in p.value)", true),
        (
            "properties.exists(p, p.type == 'words' && p.value[1] == 'b')",
            true,
        ),
        (
            "properties.exists(p, p.type == 'olm.gvk' && p.value.kind == 'K' && p.value.group == 'g')",
            true,
        ),
        (
            "properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, '1.2.3') == 0)",
            true,
        ),
        (
            "properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, 'v1.2.4') < 0)",
            true,
        ),
        (
            "properties.exists(p, p.type == 'olm.package' && semver_compare(p.value.version, '1.2') == 1)",
            true,
        ),
        ("!properties.exists(p, p.type == 'gone')", false),
        ("!properties.exists(p, has(p.type) && p.type == 'gone')", true),
        (
            "properties.filter(p, p.type.startsWith('olm.')).size() == 2",
            false,
        ),
        (
            "properties.filter(p, has(p.type) && p.type.startsWith('olm.')).size() == 2",
            true,
        ),
        (
            "size(properties) == 6 && properties.map(p, has(p.value)).size() == 6",
            true,
        ),
        (
            "properties.filter(p, has(p.type)).map(p, p.type == 'certified')[2]",
            true,
        ),
        (
            "properties.exists_one(p, has(p.type) && p.type == 'number')",
            true,
        ),
        ("properties.all(p, has(p.type))", false),
        ("properties.exists(p, p.type.matches('^cert'))", true),
        ("properties.exists(p, string(p.value) == '1')", true),
        (
            "type(1) == int && [1, 2].exists(x, x == 2) && {'a': 1}['a'] == 1",
            true,
        ),
        ("timestamp('2024-01-01T00:00:00Z').getFullYear() == 2024", true),
        ("semver_compare('x', '1.0.0') == 0", false),
        (
            "properties.exists(p, semver_compare(p.value, '1.0.0') == 0)",
            true,
        ),
        ("1 / 0 == 1", false),
    ] {
        assert_eq!(check(rule), expected.to_string(), "{rule}");
    }
}

#[test]
fn what_does_not_compile_is_reported_with_the_reason() {
    for (rule, expected) in [
        ("properties.exists(p, ", "Syntax error"),
        ("", "Syntax error"),
        ("1", "cel expressions must have type Bool, this one has type int"),
        (
            "properties",
            "cel expressions must have type Bool, this one has type list(map(string, dyn))",
        ),
        (
            "properties[0].value",
            "cel expressions must have type Bool, this one has type dyn",
        ),
        (
            "true ? 1 : 2",
            "cel expressions must have type Bool, this one has type int",
        ),
        ("gone == 1", "undeclared reference to 'gone'"),
        (
            "properties.exists(p, q.type == '')",
            "undeclared reference to 'q'",
        ),
        ("gone(properties)", "undeclared reference to 'gone'"),
        ("properties.gone()", "undeclared reference to 'gone'"),
        ("optional.none() == 1", "undeclared reference"),
        (
            "1 == 'a'",
            "found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            "1 && true",
            "found no matching overload for '_&&_' applied to '(int, bool)'",
        ),
        (
            "'a' + 1 == 'a1'",
            "found no matching overload for '_+_' applied to '(string, int)'",
        ),
        (
            "semver_compare('1.0.0') == 0",
            "found no matching overload for 'semver_compare' applied to '(string)'",
        ),
        ("1.exists(x, true)", "cannot be range of a comprehension"),
        ("'a'.b == 1", "type 'string' does not support field selection"),
        ("true.exists", "does not support field selection"),
        ("Thing{a: 1} == 1", "undeclared reference to 'Thing'"),
    ] {
        let found = check(rule);
        assert!(found.contains(expected), "{rule}: {found}");
    }
}

#[test]
fn a_rule_may_loop_within_a_loop_but_not_deeper() {
    let nested = |depth: usize| {
        let mut rule = "a0 == a0".to_owned();
        for level in 0..depth {
            rule = format!("properties.all(a{level}, {rule})");
        }
        rule
    };
    assert_eq!(check(&nested(2)), "true");
    assert!(
        check(&nested(3)).contains("more than 1000000"),
        "{}",
        check(&nested(3))
    );
    assert!(check(&"x".repeat(MAX_RULE_SIZE + 1)).contains("the rule has 16385 bytes"));
    let deep = format!("{}true{}", "(".repeat(2000), ")".repeat(2000));
    assert!(check(&deep).contains("Recursion limit"), "{}", check(&deep));
}

#[test]
fn what_takes_too_long_is_stopped_and_remembered() {
    let many: Vec<EntryProperty> = (0..1000)
        .map(|i| EntryProperty::new(format!("t{i}"), "1"))
        .collect();
    let rule = Rule::compile("properties.all(p, properties.exists(q, q.type == p.type))").unwrap();
    let budget = Budget::of_bundle();
    assert!(!rule.test(&many, &budget));
    assert_eq!(
        budget.check().unwrap_err().to_string(),
        "the cel rule took more than 20000 steps on one bundle"
    );
    assert!(
        !rule.test(&properties(), &budget),
        "what comes after means nothing"
    );
    let budget = Budget::of_catalog(10);
    let rule = Rule::compile("properties.exists(p, p.type == 'gone')").unwrap();
    for _ in 0..501 {
        rule.test(&many, &budget);
    }
    assert_eq!(
        budget.check().unwrap_err().to_string(),
        "the cel rule took more than 500500 steps on one catalog"
    );
}

#[test]
fn texts_that_double_again_and_again_are_stopped() {
    let mut rule = "['aaaaaaaaaaaaaaaa']".to_owned();
    for _ in 0..30 {
        rule.push_str(".map(x, x + x)");
    }
    rule.push_str(".size() == 1");
    assert_eq!(
        check(&rule),
        "the cel rule took more than 20000 steps on one bundle"
    );
    let mut rule = "[[1, 2, 3, 4]]".to_owned();
    for _ in 0..40 {
        rule.push_str(".map(x, x + x)");
    }
    rule.push_str(".size() == 1");
    assert_eq!(
        check(&rule),
        "the cel rule took more than 20000 steps on one bundle"
    );
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 1500, failure_persistence: None, ..Default::default() })]

    /// The parser is an external crate, and a panic would end the process: every input must be handled.
    #[test]
    fn no_text_makes_a_rule_panic(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "properties", ".exists(", ".all(", ".map(", ".filter(", "p", ",", "p.type", "==", "!=", "&&", "||", "!", "(", ")",
            "[", "]", "{", "}", ":", "?", "'a'", "\"", "1", "1u", "1.5", "-", "+", "*", "/", "%", "in", "has(", "size(", "null",
            "true", ".", "semver_compare(", "string(", "matches('('", "\\", "\u{1F600}", "b'x'", "0x", "1e", "@range", " ", "\n",
        ]), 0..14)
    ) {
        let text = words.concat();
        if let Ok(rule) = Rule::compile(&text) {
            rule.test(&properties(), &Budget::of_bundle());
        }
    }
}
