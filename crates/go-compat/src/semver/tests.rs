use super::*;

#[test]
fn strict_versions() {
    for text in [
        "0.0.0",
        "1.2.3",
        "1.0.0-alpha.1",
        "1.0.0-0",
        "1.0.0-0abc",
        "1.0.0--",
        "1.0.0+build.01",
        "1.0.0-rc.1+a-b.7",
        "18446744073709551615.0.0",
    ] {
        assert_eq!(
            Version::parse(text).map(|version| version.to_string()),
            Ok(text.to_owned())
        );
    }
}

/// Texts with blang/semver's message for them.
#[test]
fn strict_versions_refused() {
    for (text, expected) in [
        ("", "Version string empty"),
        ("one", "No Major.Minor.Patch elements found"),
        ("1.0", "No Major.Minor.Patch elements found"),
        ("v1.0.0", r#"Invalid character(s) found in major number "v1""#),
        ("1.a.0", r#"Invalid character(s) found in minor number "a""#),
        ("1.0.x", r#"Invalid character(s) found in patch number "x""#),
        ("01.0.0", r#"Major number must not contain leading zeroes "01""#),
        ("1.00.0", r#"Minor number must not contain leading zeroes "00""#),
        ("1.0.00", r#"Patch number must not contain leading zeroes "00""#),
        ("1.0.0-", "Prerelease is empty"),
        ("1.0.0-a..b", "Prerelease is empty"),
        (
            "1.0.0-01",
            r#"Numeric PreRelease version must not contain leading zeroes "01""#,
        ),
        ("1.0.0-a_b", r#"Invalid character(s) found in prerelease "a_b""#),
        ("1.0.0+", "Build meta data is empty"),
        (
            "1.0.0+a_b",
            r#"Invalid character(s) found in build meta data "a_b""#,
        ),
        (
            "18446744073709551616.0.0",
            r#"number "18446744073709551616" is out of range"#,
        ),
    ] {
        assert_eq!(
            Version::parse(text).map_err(|error| error.to_string()),
            Err(expected.to_owned()),
            "{text:?}"
        );
    }
}

/// Results of blang/semver 4.0.
#[test]
fn tolerant_versions() {
    for (text, expected) in [
        ("1", Some("1.0.0")),
        ("v1.2", Some("1.2.0")),
        (" 1.2.3 ", Some("1.2.3")),
        ("01.002.0003", Some("1.2.3")),
        ("00.0.0", Some("0.0.0")),
        ("1.2.00-rc.1", Some("1.2.0-rc.1")),
        ("1.2.3+b", Some("1.2.3+b")),
        (" v1.2.3\n", Some("1.2.3")),
        ("\u{a0}1.0.0", Some("1.0.0")),
        ("0.0.0", Some("0.0.0")),
        ("1.00.0", Some("1.0.0")),
        ("1.2.00-alpha.1+b", Some("1.2.0-alpha.1+b")),
        ("1.2.03-rc1", Some("1.2.3-rc1")),
        // A missing digit is inserted only in the third part, which may have a suffix.
        ("1.2.-rc.1", Some("1.2.0-rc.1")),
        ("1.2.+b", Some("1.2.0+b")),
        ("1.-2.3", None),
        ("1..3", None),
        ("1.2.", None),
        ("1.0.0-18446744073709551615", Some("1.0.0-18446744073709551615")),
        ("1.0.0-18446744073709551616", None),
        ("1-alpha", None),
        ("1.2.3.4", None),
        ("a.b.c", None),
        ("v", None),
        ("1.2-rc", None),
        ("vv1.2.3", None),
        ("V1.2.3", None),
        ("", None),
        ("latest", None),
    ] {
        assert_eq!(
            Version::parse_tolerant(text)
                .ok()
                .map(|version| version.to_string())
                .as_deref(),
            expected,
            "{text:?}"
        );
    }
}

#[test]
fn order_is_by_precedence() {
    let ordered = [
        "0.0.1-0",
        "0.0.1",
        "1.0.0-1",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.10",
        "1.2.0",
        "10.0.0",
    ];
    for (i, a) in ordered.iter().enumerate() {
        for (j, b) in ordered.iter().enumerate() {
            let (a, b) = (Version::parse(a).expect("a"), Version::parse(b).expect("b"));
            assert_eq!(a.cmp(&b), i.cmp(&j), "{a} {b}");
        }
    }
    assert_eq!(
        Version::parse("1.0.0+a").expect("a"),
        Version::parse("1.0.0+b").expect("b")
    );
}

/// Ranges with versions inside and outside.
#[test]
fn ranges() {
    for (range, inside, outside) in [
        (
            ">=1.0.0 <2.0.0",
            &["1.0.0", "1.9.9", "2.0.0-rc.1"][..],
            &["2.0.0", "1.0.0-rc.1"][..],
        ),
        ("> 1.0.0", &["1.0.1"], &["1.0.0"]),
        (">= 1.0.0", &["1.0.0"], &["0.9.9"]),
        ("< =1.0.0", &["1.0.0"], &["1.0.1"]),
        ("1.0.0", &["1.0.0", "1.0.0+x"], &["1.0.1"]),
        ("==1.0.0", &["1.0.0"], &["1.0.1"]),
        ("!1.0.0", &["1.0.1"], &["1.0.0"]),
        ("!=1.0.0", &["1.0.1"], &["1.0.0"]),
        ("! 1.0.0", &["1.0.0"], &["1.0.1"]),
        (
            "<1.0.0 || >=2.0.0 !2.0.1",
            &["0.1.0", "2.0.0", "3.0.0"],
            &["1.0.0", "2.0.1"],
        ),
        ("1.x", &["1.0.0", "1.99.0"], &["2.0.0", "0.9.0"]),
        ("1.2.x", &["1.2.0", "1.2.9"], &["1.3.0"]),
        ("1.x.x", &["1.0.0", "1.0.9"], &["1.1.0"]),
        ("^1.2.x", &["1.2.0"], &["1.2.1"]),
        (">1.2.x", &["1.3.0"], &["1.2.9"]),
        ("<=1.2.x", &["1.2.9"], &["1.3.0"]),
        ("<1.x", &["0.9.0"], &["1.0.0"]),
        ("!=1.2.x", &[], &["1.2.0", "1.3.0", "1.0.0"]),
        (">=1.0.0-next", &["1.0.0"], &["1.0.0-a"]),
        ("1.0.0 - 2.0.0", &[], &["1.0.0", "1.5.0", "2.0.0"]),
        ("  >=1.0.0  <2.0.0  ", &["1.5.0"], &["2.0.0"]),
        ("1.0.0 x", &["1.0.0"], &["1.0.1"]),
    ] {
        let parsed = Range::parse(range).unwrap_or_else(|error| panic!("{range:?}: {error}"));
        for version in inside {
            assert!(
                parsed.contains(&Version::parse(version).expect("version")),
                "{version} in {range:?}"
            );
        }
        for version in outside {
            assert!(
                !parsed.contains(&Version::parse(version).expect("version")),
                "{version} not in {range:?}"
            );
        }
        assert_eq!(parsed.to_string(), range);
    }
}

#[test]
fn ranges_refused() {
    for (range, expected) in [
        ("", "Last element in range is '||'"),
        ("*", "Last element in range is '||'"),
        ("|| 1.0.0", "First element in range is '||'"),
        ("1.0.0 ||", "Last element in range is '||'"),
        ("1.0.0 || || 2.0.0", "Empty element between '||' in range"),
        ("not a range", r#"Could not get version from string: "not""#),
        (
            "~1.0.0",
            r#"Could not parse Range "~1.0.0": Could not parse comparator "~" in "~1.0.0""#,
        ),
        (
            ">v1.0.0",
            r#"Could not parse Range ">v1.0.0": Could not parse comparator ">v" in ">v1.0.0""#,
        ),
        (
            ">=1.0",
            r#"Could not parse Range ">=1.0": Could not parse version "1.0" in ">=1.0": No Major.Minor.Patch elements found"#,
        ),
        (
            "1.0.0,<2.0.0",
            r#"Could not parse Range "1.0.0,<2.0.0": Could not parse version "1.0.0,<2.0.0" in "1.0.0,<2.0.0": Invalid character(s) found in patch number "0,<2.0.0""#,
        ),
        ("=1.0.0-next", r#"Could not get version from string: "<""#),
    ] {
        assert_eq!(
            Range::parse(range).map_err(|error| error.to_string()),
            Err(expected.to_owned()),
            "{range:?}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn text_of_a_version_parses_back(major: u64, minor: u64, patch: u64, suffix in "(-[0-9A-Za-z]{1,4}(\\.[a-z]{1,3})?)?(\\+[0-9a-z]{1,4})?") {
        let text = format!("{major}.{minor}.{patch}{suffix}");
        if let Ok(version) = Version::parse(&text) {
            proptest::prop_assert_eq!(version.to_string(), text);
        }
    }

    #[test]
    fn no_text_panics(text in "[ 0-9x.<>=!|^~a-]{0,20}") {
        let _ = Version::parse(&text);
        let _ = Version::parse_tolerant(&text);
        if let Ok(range) = Range::parse(&text) {
            range.contains(&Version::new(1, 0, 0));
        }
    }
}
