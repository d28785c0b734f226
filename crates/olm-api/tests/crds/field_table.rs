//! The table of field names that `olm_api::manifest` works with, made from the schemas.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::support::Definition;

const HEADER: &str = "\
//! Names of the fields in the specs of some kinds.
// Generated from `manifests/crds` by `cargo xtask gen`. Do not edit.

use super::Fields;

";

/// Deduplicates equal subtrees: each is written once.
#[derive(Default)]
struct Table {
    /// Number of the subtree, by its contents.
    known: BTreeMap<String, usize>,
    text: String,
}

/// Names of the tables, and of the definitions whose spec they are made from.
const TABLES: [(&str, &str); 4] = [
    ("CATALOG_SOURCE", "catalogsources"),
    ("CLUSTER_SERVICE_VERSION", "clusterserviceversions"),
    ("OPERATOR_GROUP", "operatorgroups"),
    ("SUBSCRIPTION", "subscriptions"),
];

/// Returns the source of the tables.
pub fn render(definitions: &[Definition]) -> String {
    let mut table = Table::default();
    let mut roots = String::new();
    for (name, file) in TABLES {
        let mut of_file = definitions.iter().filter(|definition| definition.name == file);
        let manifest = &of_file.next().unwrap().manifest;
        let spec = manifest.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
        let fields = table.add(spec.unwrap());
        let _ = writeln!(roots, "pub(super) static {name}: Fields = {fields};");
    }
    format!("{HEADER}{roots}{}", table.text)
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
