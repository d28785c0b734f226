//! No input makes the parsers panic, hang or exhaust the memory. Accepted input has these properties: it is the same after
//! writing and reading, versions have one order, and ranges contain the versions that a naive reader accepts.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

mod catalog_seeds;
mod fuzzing;
mod naive_range;

use catalog_seeds::{
    LIMITS, WORDS, beginnings, catalogs, changed_documents, check_rendering, checked, files_of_the_corpus,
};
use fuzzing::{Fuzz, Random};
use go_compat::semver::{Range, Version};
use olm_fbc::channel::Graph;
use olm_fbc::release::Release;
use olm_fbc::render::Format;
use olm_fbc::yaml::{self, Documents};

#[test]
fn yaml_of_any_kind() {
    let mut seeds = catalogs();
    seeds.extend(beginnings(files_of_the_corpus("bundles", 40)));
    let fuzz = Fuzz {
        name: "yaml",
        seeds,
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let mut taken = false;
        for value in Documents::with_limits(input, LIMITS).flatten() {
            taken |= value.is_object() || value.is_array();
            let text = yaml::to_string(&value).expect("JSON has a YAML form");
            assert_eq!(yaml::parse(text.as_bytes()).expect("own output"), value, "{text}");
        }
        taken
    });
}

#[test]
fn catalogs_of_any_kind() {
    let fuzz = Fuzz {
        name: "catalog",
        seeds: catalogs(),
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let (checker, blobs) = checked(input);
        for blob in &blobs {
            check_rendering(blob, Format::Json);
            check_rendering(blob, Format::Yaml);
        }
        match checker.finish() {
            Ok(model) => {
                for package in model.packages.values() {
                    for channel in package.channels.values() {
                        Graph::new(&channel.entries).head().expect("one head");
                    }
                }
                !model.packages.is_empty()
            }
            Err(faults) => {
                assert!(!faults.to_string().is_empty());
                false
            }
        }
    });
}

/// Returns a range, or a version, as an author might write it.
fn written_range(_: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
    let version = |random: &mut Random| {
        let number =
            |random: &mut Random| *random.of(&["0", "1", "2", "9", "10", "11", "18446744073709551615"]);
        let mut text = format!("{}.{}", number(random), number(random));
        match random.below(5) {
            0 => {
                return text
                    .replace(".18446744073709551615", ".1")
                    .split('.')
                    .next()
                    .map(|major| format!("{major}.x"))
                    .unwrap_or_default();
            }
            1 => return text + ".x",
            _ => text += &format!(".{}", number(random)),
        }
        if random.below(3) == 0 {
            text += *random.of(&[
                "-0",
                "-1",
                "-alpha",
                "-alpha.1",
                "-alpha.beta",
                "-beta.11",
                "-rc.1.2",
                "-a-b",
            ]);
        }
        if random.below(5) == 0 {
            text += *random.of(&["+1", "+build.5", "+a-b"]);
        }
        text
    };
    let mut alternatives = Vec::new();
    for _ in 0..=random.below(3) {
        let mut comparisons = Vec::new();
        for _ in 0..=random.below(3) {
            let operator = *random.of(&["", "=", "==", "!", "!=", ">", ">=", "<", "<="]);
            comparisons.push(format!("{operator}{}", version(random)));
        }
        alternatives.push(comparisons.join(" "));
    }
    Some(alternatives.join(" || ").into_bytes())
}

#[test]
fn versions_and_ranges_of_any_kind() {
    let seeds = [
        "1.2.3",
        "1.2.3-alpha.1+build.5",
        ">=1.0.0 <2.0.0 || !1.5.x",
        "1.x",
        "v1.2",
        "=1.0.0",
        ">1.0.0 || <0.1.0-rc.1",
        "18446744073709551615.0.0",
    ];
    let words = [
        "1",
        ".",
        "-",
        "+",
        "x",
        "X",
        "*",
        ">",
        "<",
        "=",
        "!",
        "||",
        " ",
        "0",
        "v",
        "alpha",
        "99999999999999999999",
        "\u{0663}",
    ];
    let probes: Vec<Version> = [
        "0.0.0",
        "0.9.9",
        "1.0.0-0",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.5.0-rc.1",
        "1.9.2",
        "2.0.0+b",
        "2.1.0",
        "9.10.11",
        "10.0.0",
        "11.1.9",
    ]
    .map(|text| Version::parse(text).expect("version"))
    .to_vec();
    let fuzz = Fuzz {
        name: "version",
        seeds: seeds.map(|text| text.as_bytes().to_vec()).to_vec(),
        words: &words,
        structured: Some(written_range),
    };
    fuzz.run(|input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return false;
        };
        if let Ok(version) = Version::parse(text) {
            assert_eq!(version.to_string(), text, "strict versions have one form");
            assert_eq!(Version::parse_tolerant(text).as_ref(), Ok(&version));
            check_order(&version, &probes);
        }
        if let Ok(version) = Version::parse_tolerant(text) {
            assert_eq!(Version::parse(&version.to_string()).as_ref(), Ok(&version));
        }
        if let Ok(release) = Release::parse(text) {
            assert_eq!(release.to_string(), text);
        }
        let range = Range::parse(text);
        if let Some(expected) = naive_range::read(text) {
            let range = range.as_ref().unwrap_or_else(|error| panic!("{text:?}: {error}"));
            for probe in &probes {
                assert_eq!(
                    range.contains(probe),
                    naive_range::holds(&expected, &probe.to_string()),
                    "{text:?} {probe}"
                );
            }
        }
        if let Ok(range) = &range {
            assert_eq!(range.to_string(), text);
            for probe in &probes {
                let _ = range.contains(probe);
            }
        }
        let _ = olm_fbc::image_ref::check(text);
        range.is_ok()
    });
}

/// Checks that the order is total, and equal to that of the naive reader.
fn check_order(version: &Version, probes: &[Version]) {
    for (index, one) in probes.iter().enumerate() {
        let order = version.cmp(one);
        assert_eq!(one.cmp(version), order.reverse(), "{version} {one}");
        assert_eq!(
            naive_range::compare(&version.to_string(), &one.to_string()),
            order,
            "{version} {one}"
        );
        for other in &probes[index..] {
            if order.is_le() && one <= other {
                assert!(version <= other, "{version} <= {one} <= {other}");
            }
        }
    }
}
