use super::*;

/// Numbers that occur in the tables, and their neighbours.
const NUMBERS: [u64; 8] = [0, 1, 2, 3, 4, 10, 11, 12];

/// Row, range, versions in it, versions outside.
type Row = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

fn range(text: &str) -> Range {
    Range::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn contains(range: &Range, version: &str) -> bool {
    range.contains(&Version::parse(version).unwrap())
}

/// Returns the releases of [`NUMBERS`] that are in the range.
fn content(text: &str) -> Vec<String> {
    let range = range(text);
    let mut found = Vec::new();
    for major in NUMBERS {
        for minor in NUMBERS.into_iter().chain([13, 14, 15]) {
            for patch in NUMBERS {
                let version = Version::new(major, minor, patch);
                if range.contains(&version) {
                    found.push(version.to_string());
                }
            }
        }
    }
    found
}

/// Rows of the documentation: each pair means the same.
#[test]
fn v1r_ranges_that_mean_the_same() {
    for (row, one, other) in [
        ("V1R-001", ">=1.11 <1.13", ">=1.11,<1.13"),
        ("V1R-001", "1.11.x || 1.13.x", "1.11.x||1.13.x"),
        ("V1R-002", ">=1.11, <1.13", ">=1.11.0 <1.13.0"),
        ("V1R-003", "=1.11.1", "1.11.1"),
        ("V1R-003", "!=1.11.1", "<1.11.1 || >1.11.1"),
        ("V1R-003", ">=1.11.1", "=1.11.1 || >1.11.1"),
        ("V1R-003", "<=1.11.1", "=1.11.1 || <1.11.1"),
        ("V1R-004", "=1.x", ">=1.0.0, <2.0.0"),
        ("V1R-004", "=1.11.*", ">=1.11.0, <1.12.0"),
        ("V1R-004", "=1.11.X", "=1.11.x"),
        ("V1R-005", "1.11.x", ">=1.11.0, <1.12.0"),
        ("V1R-006", ">=1.12.X", ">=1.12.0"),
        ("V1R-006", "<=2.x", "<3"),
        ("V1R-006", "*", ">=0.0.0"),
        ("V1R-007", "~1.11.0", ">=1.11.0, <1.12.0"),
        ("V1R-008", "~1", ">=1, <2"),
        ("V1R-008", "~1.x", ">=1, <2"),
        ("V1R-009", "~1.12", ">=1.12, <1.13"),
        ("V1R-009", "~1.12.x", ">=1.12.0, <1.13.0"),
        ("V1R-010", "^0", ">=0.0.0, <1.0.0"),
        ("V1R-011", "^0.0", ">=0.0.0, <0.1.0"),
        ("V1R-011", "^0.0.3", ">=0.0.3, <0.0.4"),
        ("V1R-012", "^0.2", ">=0.2.0, <0.3.0"),
        ("V1R-012", "^0.2.3", ">=0.2.3, <0.3.0"),
        ("V1R-013", "^1.2.x", ">= 1.2.0, < 2.0.0"),
        ("V1R-013", "^1.2.3", ">= 1.2.3, < 2.0.0"),
        ("V1R-014", "^2.x", ">= 2.0.0, < 3"),
        ("V1R-014", "^2.3", ">= 2.3, < 3"),
        ("V1R-015", "1.11", "1.11.x"),
        ("V1R-015", "2", "2.x"),
        ("V1R-015", "< 3", "<3.0.0"),
        ("V1R-015", "1.14.x", ">=1.14.0, <1.15.0"),
        ("V1R-015", ">=1.10", ">=1.10.0"),
        // Rules of the library that the documentation does not have.
        ("spec 5.3", "!=1.2.x", "<1.2.0 || >=1.3.0"),
        ("spec 5.3", "!=1.x", "<1.0.0 || >=2.0.0"),
        ("spec 5.3", ">11", ">=12.0.0"),
        ("spec 5.3", ">11.1", ">=11.2.0"),
        ("spec 5.3", ">=1.x", ">=1.0.0"),
        ("spec 5.3", "<1.x", "<1.0.0"),
        ("spec 5.3", "<=1.1", "<1.2.0"),
        ("spec 5.3", "~0.0.0", "*"),
        ("spec 5.3", "~*", "*"),
        ("spec 5.3", "~>1.2.3", "~1.2.3"),
        ("spec 5.3", "~1.2.3", ">=1.2.3 <1.3.0"),
        ("spec 5.3", "=>1.2.3 =<2.3.4", ">=1.2.3 <=2.3.4"),
        ("spec 5.3", "1.2 - 2.3.4", ">=1.2 <=2.3.4"),
        ("spec 5.3", "v1.2.3", "1.2.3"),
        ("spec 5.3", "1.2.3+build.1", "1.2.3"),
        ("spec 5.3", " >=1 , <2 ", ">=1,<2"),
        ("spec 5.3", "1.x.x", "1"),
        ("spec 5.3", "^*", "0.0.0"),
        ("spec 5.3", "01.2.3", "1.2.3"),
    ] {
        assert_eq!(content(one), content(other), "{row}: {one} and {other}");
    }
}

#[test]
fn v1r_versions_in_and_outside() {
    let rows: &[Row] = &[
        (
            "V1R-002",
            ">=1.11, <1.13",
            &["1.11.0", "1.12.9"],
            &["1.13.0", "1.10.9"],
        ),
        ("V1R-003", ">1.11.1", &["1.11.2", "2.0.0"], &["1.11.1"]),
        ("V1R-015", "1.14.0", &["1.14.0"], &["1.14.1", "1.13.9"]),
        ("V1R-015", ">=1.16", &["1.16.0", "1.17.3", "2.0.0"], &["1.15.9"]),
        ("case 11", ">=1.0.0", &["2.0.0"], &["2.0.0-rc.1"]),
        ("case 11", ">=1.0.0-0", &["2.0.0-rc.1", "1.0.0-0"], &["0.9.0"]),
        ("pre-release", "*-0", &["2.0.0-rc.1"], &[]),
        // One pre-release in the group is enough, in another group it is not.
        ("pre-release", ">=1.0.0-0 <3", &["2.0.0-rc.1"], &["3.0.0"]),
        ("pre-release", ">=1.0.0-0 <2 || >=2", &[], &["2.5.0-rc.1"]),
        ("pre-release", "!=1.0.0", &["1.0.1"], &["1.0.1-rc.1"]),
        (
            "pre-release",
            "1.0.0-rc.1",
            &["1.0.0-rc.1"],
            &["1.0.0", "1.0.0-rc.2"],
        ),
        ("pre-release", "!=1.2.x-a", &["1.2.0", "1.2.5-b"], &["1.2.5-a"]),
        ("build", "1.0.0", &["1.0.0+2"], &[]),
        ("wildcard", "!=*", &["0.0.1", "1.0.0"], &["0.0.0"]),
        ("wildcard", "<=*", &["0.0.9"], &["0.1.0"]),
    ];
    for (row, text, inside, outside) in rows {
        let range = range(text);
        for version in *inside {
            assert!(contains(&range, version), "{row}: {text} contains {version}");
        }
        for version in *outside {
            assert!(
                !contains(&range, version),
                "{row}: {text} does not contain {version}"
            );
        }
    }
}

#[test]
fn other_texts_are_refused_in_upstreams_words() {
    for (text, error) in [
        ("", r#"improper constraint: """#),
        (" ", r#"improper constraint: " ""#),
        ("nonsense", r#"improper constraint: "nonsense""#),
        ("==1.0.0", r#"improper constraint: "==1.0.0""#),
        ("> =1", r#"improper constraint: "> =1""#),
        ("1.2.3.4", r#"improper constraint: "1.2.3.4""#),
        ("1.0.0,", r#"improper constraint: "1.0.0,""#),
        ("1.0.0,,2.0.0", r#"improper constraint: "1.0.0,,2.0.0""#),
        (">=1<2", r#"improper constraint: ">=1<2""#),
        ("1.*]", r#"improper constraint: "1.*]""#),
        ("1.0.0-", r#"improper constraint: "1.0.0-""#),
        ("1.0.0-a..b", r#"improper constraint: "1.0.0-a..b""#),
        (">=1 - 2", r#"improper constraint: ">=1 - 2""#),
        ("1 -2", r#"improper constraint: "1 -2""#),
        // Only the alternative is shown, with its spaces.
        ("1.0.0 || foo", r#"improper constraint: " foo""#),
        ("1.0.0 ||", r#"improper constraint: """#),
        ("1x", "constraint parser error"),
        ("1|2", "constraint parser error"),
        ("99999999999999999999", "constraint parser error"),
        ("1.0.0-01", "constraint parser error"),
    ] {
        let found = Range::parse(text).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(found, Err(error.to_owned()), "{text}");
    }
}

proptest::proptest! {
    /// Any text is a range or an error, and an exact version contains itself only.
    #[test]
    fn any_text_is_answered(text in "[0-9xX*|v<>=!~^., +a-]{0,24}", major in 0..5_u64, minor in 0..5_u64) {
        let _ = Range::parse(&text);
        let version = Version::new(major, minor, 1);
        let exact = range(&version.to_string());
        proptest::prop_assert!(exact.contains(&version));
        proptest::prop_assert!(!exact.contains(&Version::new(major, minor, 2)));
    }
}
