#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

use olm_fbc::property::Property;
use olm_fbc::schema::{Channel, Package};
use serde_json::json;

use super::*;

fn bundle(name: &str, package: &str, version: &str) -> Bundle {
    Bundle {
        name: name.to_owned(),
        package: package.to_owned(),
        image: format!("img/{name}"),
        properties: vec![Property::new(
            "olm.package",
            json!({"packageName": package, "version": version}),
        )],
        ..Bundle::default()
    }
}

fn versions(versions: &[&str]) -> Rendered {
    versions
        .iter()
        .map(|version| {
            let bundle = bundle(&format!("p.v{version}"), "p", version);
            (bundle.image.clone(), vec![bundle])
        })
        .collect()
}

fn semver(document: Value, rendered: &Rendered) -> Result<Vec<Blob>, Error> {
    let text = document.to_string();
    Template::parse(text.as_bytes(), None)?.render(rendered)
}

fn list(versions: &[&str]) -> Value {
    let bundles: Vec<Value> = versions
        .iter()
        .map(|version| json!({"image": format!("img/p.v{version}")}))
        .collect();
    json!({ "bundles": bundles })
}

fn graph(blobs: &[Blob]) -> String {
    let mut text = String::new();
    for blob in blobs {
        match blob {
            Blob::Package(Package { default_channel, .. }) => text += &format!("default {default_channel}\n"),
            Blob::Channel(Channel { name, entries, .. }) => {
                text += &format!("{name}:\n");
                for entry in entries {
                    text += &format!(
                        "  {} > {} ! {}\n",
                        entry.name,
                        entry.replaces,
                        entry.skips.join(" ")
                    );
                }
            }
            _ => {}
        }
    }
    text
}

#[test]
fn kinds_have_names_and_schemas() {
    assert_eq!(Kind::parse("semver").expect("kind"), Kind::Semver);
    assert!(Kind::parse("composite").is_err());
    for (text, expected) in [
        ("{}", "template input missing required 'schema' field"),
        (
            "schema: x",
            "unknown template schema: x; known are olm.template.basic, olm.semver, olm.template.substitutes",
        ),
    ] {
        let error = Template::parse(text.as_bytes(), None).expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
    let error = Template::parse(b"schema: olm.semver", Some(Kind::Basic)).expect_err("other kind");
    assert_eq!(
        error.to_string(),
        "template has unknown schema (\"olm.semver\"), should be \"olm.template.basic\""
    );
}

#[test]
fn the_highest_patch_of_each_minor_has_the_edges() {
    let all = [
        "1.1.0",
        "1.2.0",
        "1.2.1",
        "1.3.1-alpha",
        "1.3.1-beta",
        "1.3.1",
        "2.0.0",
    ];
    let document = json!({"schema": "olm.semver", "generateMajorChannels": true, "generateMinorChannels": true,
        "Candidate": list(&["1.1.0"]), "stable": list(&all)});
    insta::assert_snapshot!(graph(&semver(document, &versions(&all)).expect("catalog")), @"
    default stable-v2.0
    candidate-v1:
      p.v1.1.0 >  ! 
    candidate-v1.1:
      p.v1.1.0 >  ! 
    stable-v1:
      p.v1.1.0 >  ! 
      p.v1.2.0 >  ! 
      p.v1.2.1 > p.v1.1.0 ! p.v1.2.0
      p.v1.3.1-alpha >  ! 
      p.v1.3.1-beta >  ! 
      p.v1.3.1 > p.v1.2.1 ! p.v1.1.0 p.v1.2.0 p.v1.3.1-alpha p.v1.3.1-beta
    stable-v1.1:
      p.v1.1.0 >  ! 
    stable-v1.2:
      p.v1.2.0 >  ! 
      p.v1.2.1 > p.v1.1.0 ! p.v1.2.0
    stable-v1.3:
      p.v1.3.1-alpha >  ! 
      p.v1.3.1-beta >  ! 
      p.v1.3.1 > p.v1.2.1 ! p.v1.1.0 p.v1.2.0 p.v1.3.1-alpha p.v1.3.1-beta
    stable-v2:
      p.v2.0.0 >  ! 
    stable-v2.0:
      p.v2.0.0 >  ! 
    ");
}

#[test]
fn the_default_channel_follows_the_preference() {
    let rendered = versions(&["0.1.0", "3.1.0"]);
    let default = |preference: Value| {
        let document = json!({"schema": "olm.semver", "generateMajorChannels": true, "generateMinorChannels": true,
            "defaultChannelTypePreference": preference, "fast": list(&["0.1.0", "3.1.0"])});
        let blobs = semver(document, &rendered).expect("catalog");
        graph(&blobs).lines().next().expect("package").to_owned()
    };
    assert_eq!(default(json!("minor")), "default fast-v3.1");
    assert_eq!(default(json!("major")), "default fast-v3");
}

#[test]
fn semver_mistakes_are_reported() {
    let rendered = versions(&["1.0.0", "1.0.0+a", "2.0.0"]);
    let mut two = rendered.clone();
    two.insert("img/q".to_owned(), vec![bundle("q.v1", "q", "1.0.0")]);
    for (document, expected) in [
        (
            json!({"schema": "olm.semver", "stabel": {}}),
            "unknown field \"stabel\": did you mean \"stable\"?",
        ),
        (
            json!({"schema": "olm.semver", "stable": {"bundels": []}}),
            "unknown field \"bundels\" in stable: did you mean \"bundles\"?",
        ),
        (
            json!({"schema": "olm.semver"}),
            "render: no bundles specified or no bundles could be rendered",
        ),
        (
            json!({"schema": "olm.semver", "defaultChannelTypePreference": "major"}),
            "schema attribute mismatch",
        ),
        (
            json!({"schema": "olm.semver", "defaultChannelTypePreference": "mjor"}),
            "unknown defaultChannelTypePreference: \"mjor\", valid values are 'major' and 'minor': did you mean \"major\"?",
        ),
        (
            json!({"schema": "olm.semver", "stable": {"bundles": [{"imgae": "i"}]}}),
            "unknown or wrong field \"imgae\" in stable.bundles: did you mean \"image\"?",
        ),
        (
            json!({"schema": "olm.semver", "stable": list(&["1.0.0", "1.0.0+a"])}),
            "differ only by build metadata",
        ),
        (
            json!({"schema": "olm.semver", "stable": list(&["1.0.0", "1.0.0"])}),
            "duplicate bundle name",
        ),
        (
            json!({"schema": "olm.semver", "stable": list(&["9.0.0"])}),
            "resulted in 0 bundles, expected 1",
        ),
        (
            json!({"schema": "olm.semver", "fast": {"bundles": [{"image": "img/q"}]}, "stable": list(&["2.0.0"])}),
            "does not belong to this package: \"q\"",
        ),
    ] {
        let error = semver(document, &two).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn names_that_make_no_template_say_what_was_meant() {
    let error = |document: Value| -> String {
        let error = Template::parse(document.to_string().as_bytes(), None).expect_err("no template");
        error.to_string()
    };
    for (document, expected) in [
        (
            json!({"schema": "olm.semvr"}),
            "unknown template schema: olm.semvr; known are olm.template.basic, olm.semver, olm.template.substitutes: did \
             you mean \"olm.semver\"?",
        ),
        (
            json!({"shcema": "olm.semver"}),
            "template input missing required 'schema' field (did you mean \"schema\" instead of \"shcema\"?)",
        ),
        (json!({}), "template input missing required 'schema' field"),
        (
            json!({"schema": "olm.template.basic", "entries": [{"schema": "x"}, {"schemas": "olm.package", "name": "p"}]}),
            "entry 1 of the template (did you mean \"schema\" instead of \"schemas\"?)",
        ),
    ] {
        let found = error(document);
        assert!(found.starts_with(expected), "{found}");
    }
    assert_eq!(
        Kind::parse("semvr").expect_err("no kind").to_string(),
        "invalid template type \"semvr\", must be one of: [basic semver substitutes]: did you mean \"semver\"?"
    );
}

/// Upstream ignores them, so they are not errors; without a warning the author would see only an empty catalog.
#[test]
fn names_in_templates_that_nobody_reads_are_warnings() {
    let warnings = |document: Value| {
        let template = Template::parse(document.to_string().as_bytes(), None).expect("template");
        template.warnings
    };
    assert_eq!(
        warnings(json!({"schema": "olm.template.basic", "entires": []})),
        ["unknown key \"entires\": did you mean \"entries\"?"]
    );
    let channel = json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "a", "replace": "b"}]});
    assert_eq!(
        warnings(json!({"schema": "olm.template.substitutes", "entries": [channel],
            "substitutions": [{"name": "x", "bas": "a"}]})),
        [
            "entries[0]: package \"p\", olm.channel \"c\": entries[0]: unknown key \"replace\": did you mean \"replaces\"?",
            "substitutions[0]: unknown key \"bas\": did you mean \"base\"?",
        ]
    );
    assert_eq!(
        warnings(json!({"schema": "olm.template.basic", "substitutions": [], "Entries": [], "entires": []})),
        Vec::<String>::new()
    );
}

#[test]
fn basic_bundles_are_images() {
    let text = "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: p}\n- {schema: olm.bundle, image: img/p.v1.0.0}\n";
    let template = Template::parse(text.as_bytes(), Some(Kind::Basic)).expect("template");
    assert_eq!(template.images(), ["img/p.v1.0.0"]);
    let blobs = template.render(&versions(&["1.0.0"])).expect("catalog");
    assert_eq!(blobs[1].name(), "p.v1.0.0");
    assert!(template.render(&Rendered::new()).is_err());
    let text =
        "schema: olm.template.basic\nentries:\n- {schema: olm.bundle, image: i, package: p, name: b}\n";
    let error = Template::parse(text.as_bytes(), None).expect_err("more than an image");
    assert!(
        error
            .to_string()
            .contains("unexpected fields present in basic template bundle \"b\"")
    );
}

fn catalog() -> Vec<Value> {
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "name": "c", "package": "p", "entries": [
            {"name": "p.v1.0.0"},
            {"name": "p.v1.1.0", "replaces": "p.v1.0.0", "skipRange": "<1.1.0"},
            {"name": "p.v1.2.0", "replaces": "p.v1.1.0"},
        ]}),
        json!({"schema": "olm.channel", "name": "d", "package": "p", "entries": [
            {"name": "p.v1.2.0", "skips": ["p.v1.1.0"]}, {"name": "p.v1.1.0"},
        ]}),
    ];
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        blobs.push(Blob::Bundle(bundle(&format!("p.v{version}"), "p", version)).to_value());
    }
    blobs
}

fn substitutes(substitutions: Value, rendered: &Rendered) -> Result<Vec<Blob>, Error> {
    let document =
        json!({"schema": "olm.template.substitutes", "entries": catalog(), "substitutions": substitutions});
    Template::parse(document.to_string().as_bytes(), None)?.render(rendered)
}

#[test]
fn a_substitute_takes_the_place_of_its_base() {
    let rendered = versions(&["1.1.1"]);
    let blobs =
        substitutes(json!([{"name": "img/p.v1.1.1", "base": "p.v1.1.0"}]), &rendered).expect("catalog");
    insta::assert_snapshot!(graph(&blobs), @"
    default c
    c:
      p.v1.0.0 >  ! 
      p.v1.1.0 >  ! 
      p.v1.2.0 > p.v1.1.1 ! p.v1.1.0
      p.v1.1.1 > p.v1.0.0 ! p.v1.1.0
    d:
      p.v1.2.0 >  ! p.v1.1.1
      p.v1.1.0 >  ! 
      p.v1.1.1 >  ! p.v1.1.0
    ");
}

#[test]
fn substitution_mistakes_are_reported() {
    let mut rendered = versions(&["1.1.1", "1.0.5"]);
    rendered.insert("img/none".to_owned(), Vec::new());
    let one = |name: &str, base: &str| json!([{"name": name, "base": base}]);
    for (substitutions, expected) in [
        (one("", "p.v1.1.0"), "substitution name cannot be empty"),
        (one("x", ""), "substitution base cannot be empty"),
        (one("x", "x"), "substitution name and base cannot be the same"),
        (
            one("img/p.v1.1.1", "other"),
            "base bundle \"other\" does not exist in catalog",
        ),
        (
            one("img/p.v1.1.1", "p.1.1.0"),
            "base bundle \"p.1.1.0\" does not exist in catalog: did you mean \"p.v1.1.0\"?",
        ),
        (one("img/none", "p.v1.1.0"), "contains no bundles"),
        (
            one("img/p.v1.0.5", "p.v1.1.0"),
            "base bundle \"p.v1.1.0\" is not less than substitute bundle \"img/p.v1.0.5\"",
        ),
        (
            json!([{"name": "img/p.v1.1.1", "base": "p.v1.1.0"}, {"name": "img/p.v1.0.5", "base": "p.v1.1.0"}]),
            "cannot reuse the same substitution base \"p.v1.1.0\"",
        ),
        (
            json!([{"name": "img/p.v1.1.1", "base": "p.v1.1.0"}, {"name": "img/p.v1.1.1", "base": "p.v1.0.0"}]),
            "cannot reuse the same substitution \"img/p.v1.1.1\" for different bases (\"p.v1.1.0\" and \"p.v1.0.0\")",
        ),
    ] {
        let error = substitutes(substitutions, &rendered)
            .expect_err(expected)
            .to_string();
        assert!(
            error.starts_with("render: ") && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn build_metadata_of_a_substitute_is_its_release() {
    let mut substitute = bundle("p.v1.1.0-1", "p", "1.1.0+1");
    substitute.properties.push(Property::new(
        "olm.csv.metadata",
        json!({"annotations": {"olm.substitutesFor": "p.v1.1.0"}}),
    ));
    let rendered = Rendered::from([("img".to_owned(), vec![substitute.clone()])]);
    let asked = json!([{"name": "img", "base": "p.v1.1.0"}]);
    assert!(substitutes(asked.clone(), &rendered).is_ok());
    substitute.properties.pop();
    let rendered = Rendered::from([("img".to_owned(), vec![substitute])]);
    let error = substitutes(asked, &rendered)
        .expect_err("same version")
        .to_string();
    assert!(error.contains("is not less than"), "{error}");
}

#[test]
fn catalogs_become_templates_that_render_to_them() {
    let blobs: Vec<Blob> = catalog()
        .into_iter()
        .map(|value| Blob::from_value(value).expect("blob"))
        .collect();
    let rendered = versions(&["1.0.0", "1.1.0", "1.2.0"]);
    for kind in [Kind::Basic, Kind::Substitutes] {
        let document = from_catalog(&blobs, kind).expect("template");
        let text = serde_json::to_string(&document).expect("JSON");
        let template = Template::parse(text.as_bytes(), None).expect("template");
        assert_eq!(template.render(&rendered).expect("catalog"), blobs, "{kind:?}");
    }
    assert!(from_catalog(&blobs, Kind::Semver).is_err());
}

/// Pipelines have called it for two years.
#[test]
fn the_composite_template_names_what_took_its_place() {
    let told = [
        Kind::parse("composite").unwrap_err(),
        Template::parse(b"schema: olm.composite\ncomponents: []\n", None).unwrap_err(),
        Template::parse(
            b"schema: olm.composite.catalogs\ncatalogs: []\n",
            Some(Kind::Basic),
        )
        .unwrap_err(),
    ];
    for error in told {
        let text = error.to_string();
        assert!(
            text.starts_with("composite templates are no longer supported"),
            "{text}"
        );
        assert!(text.contains("opm alpha render-template basic"), "{text}");
    }
}
