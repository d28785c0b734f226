//! The table of field names that `olm_api::manifest` decodes with, made from the schema.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use olm_api::crd::Definition;
use serde_json::Value;

const HEADER: &str = "\
//! Names of the fields in the spec of a ClusterServiceVersion.
// Generated from the types by `cargo xtask gen`. Do not edit.

use super::Fields;

";

/// Deduplicates equal subtrees: each is written once.
#[derive(Default)]
struct Table {
    /// Number of the subtree, by its contents.
    known: BTreeMap<String, usize>,
    text: String,
}

/// Returns the source of the table.
pub fn render(definitions: &[Definition]) -> String {
    let csv = definitions
        .iter()
        .find(|definition| definition.name == "clusterserviceversions")
        .unwrap();
    let spec = csv
        .manifest
        .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec")
        .unwrap();
    let mut table = Table::default();
    let root = table.add(spec);
    format!("{HEADER}pub(super) static SPEC: Fields = {root};\n{}", table.text)
}

impl Table {
    /// Writes the subtree below `schema` and returns the expression for it.
    fn add(&mut self, schema: &Value) -> String {
        let mut named: BTreeMap<&str, String> = BTreeMap::new();
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, below) in properties {
                named.insert(name, self.refer(below));
            }
        }
        let each = schema
            .get("items")
            .or_else(|| schema.get("additionalProperties"))
            .filter(|each| each.is_object())
            .map_or_else(|| "None".to_owned(), |each| format!("Some({})", self.refer(each)));
        let named: Vec<String> = named
            .into_iter()
            .map(|(name, below)| format!("({name:?}, {below})"))
            .collect();
        format!("Fields {{ named: &[{}], each: {each} }}", named.join(", "))
    }

    fn refer(&mut self, schema: &Value) -> String {
        let content = self.add(schema);
        let next = self.known.len();
        let number = *self.known.entry(content.clone()).or_insert_with(|| {
            let _ = writeln!(self.text, "static F{next}: Fields = {content};");
            next
        });
        format!("&F{number}")
    }
}
