//! Catalogs rendered from templates.

use olm_authoring::template::Template;
use olm_fbc::schema::Blob;
use serde_json::{Value, json};

use super::catalogs::{base, check};

#[test]
fn fbc_013_tools_may_make_edges_from_higher_forms() {
    let template = json!({"schema": "olm.semver", "stable": {"bundles": [{"image": "1"}, {"image": "2"}]}});
    let rendered = [("1", &base()[3]), ("2", &base()[4])]
        .map(
            |(image, blob)| match Blob::from_value(blob.clone()).expect("blob") {
                Blob::Bundle(bundle) => (image.to_owned(), vec![bundle]),
                other => panic!("{other:?}"),
            },
        )
        .into();
    let made = Template::parse(template.to_string().as_bytes(), None)
        .and_then(|template| template.render(&rendered))
        .expect("catalog");
    let made: Vec<Value> = made.iter().map(Blob::to_value).collect();
    check(&made).expect("an ordinary valid catalog");
}
