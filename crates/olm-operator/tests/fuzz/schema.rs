//! Admission rules of the API server for OLM's kinds, from their CustomResourceDefinitions: types, required
//! fields, enums, formats, limits, and pruning.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Schemas by kind.
pub struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// Loads the definitions of `manifests/crds`.
    pub fn load() -> Self {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/crds");
        let mut schemas = BTreeMap::new();
        for entry in std::fs::read_dir(folder).expect("the generated definitions") {
            let bytes = std::fs::read(entry.expect("entry").path()).expect("definition");
            let definition = olm_fbc::yaml::parse_all(&bytes).expect("YAML").remove(0);
            let versions = definition["spec"]["versions"].as_array().expect("versions");
            let stored = versions
                .iter()
                .find(|version| version["storage"] == true)
                .expect("a stored version");
            let kind = definition["spec"]["names"]["kind"].as_str().expect("kind");
            schemas.insert(kind.to_owned(), stored["schema"]["openAPIV3Schema"].clone());
        }
        assert!(schemas.contains_key("ClusterServiceVersion"));
        Self(schemas)
    }

    /// Prunes fields that the schema does not contain.
    ///
    /// # Errors
    /// The reason why the object is not admitted.
    pub fn admit(&self, object: &mut Value) -> Result<(), String> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let Some(schema) = self.0.get(kind) else {
            return Ok(());
        };
        let metadata = object["metadata"].take();
        object["metadata"] = Value::Object(serde_json::Map::new());
        let verdict = admit(schema, object, "");
        object["metadata"] = metadata;
        verdict
    }
}

fn admit(schema: &Value, value: &mut Value, at: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{at}: {what}"));
    if value.is_null() {
        return if schema["nullable"] == true {
            Ok(())
        } else {
            wrong("null")
        };
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if value.is_string() || value.is_i64() {
            Ok(())
        } else {
            wrong("neither integer nor string")
        };
    }
    if let Some(known) = schema["enum"].as_array()
        && !known.contains(value)
    {
        return wrong("not one of the known words");
    }
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        _ => true,
    };
    if !fits {
        return wrong("another type");
    }
    match value {
        Value::Object(map) => object(schema, map, at),
        Value::Array(items) => array(schema, items, at),
        Value::String(text) => string(schema, text).map_err(|what| format!("{at}: {what}")),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            let format = schema["format"].as_str();
            let limit = if format == Some("int32") {
                f64::from(i32::MAX)
            } else {
                f64::MAX
            };
            let least = schema["minimum"].as_f64().unwrap_or(f64::MIN);
            let most = schema["maximum"].as_f64().unwrap_or(f64::MAX);
            if number.abs() > limit || number < least || number > most {
                wrong("out of range")
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

fn object(schema: &Value, map: &mut serde_json::Map<String, Value>, at: &str) -> Result<(), String> {
    let properties = schema["properties"].as_object();
    let more = &schema["additionalProperties"];
    let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true;
    map.retain(
        |key, value| match properties.and_then(|properties| properties.get(key)) {
            Some(property) => !value.is_null() || property["nullable"] == true,
            None => keeps || (more.is_object() && !value.is_null()) || more == true,
        },
    );
    for key in schema["required"].as_array().into_iter().flatten() {
        let key = key.as_str().unwrap_or_default();
        if !map.contains_key(key) {
            return Err(format!("{at}: {key} is missing"));
        }
    }
    for (key, value) in map.iter_mut() {
        let property = properties.and_then(|properties| properties.get(key));
        if let Some(schema) = property.or(Some(more).filter(|more| more.is_object())) {
            admit(schema, value, &format!("{at}.{key}"))?;
        }
    }
    Ok(())
}

fn array(schema: &Value, items: &mut [Value], at: &str) -> Result<(), String> {
    if schema["maxItems"]
        .as_u64()
        .is_some_and(|most| items.len() as u64 > most)
    {
        return Err(format!("{at}: too many items"));
    }
    for (index, item) in items.iter_mut().enumerate() {
        if schema["items"].is_object() {
            admit(&schema["items"], item, &format!("{at}[{index}]"))?;
        }
    }
    let keys: Vec<&str> = match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => schema["x-kubernetes-list-map-keys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect(),
        Some("set") => Vec::new(),
        _ => return Ok(()),
    };
    let mut seen = BTreeSet::new();
    let identity = |item: &Value| match keys.as_slice() {
        [] => item.to_string(),
        keys => keys
            .iter()
            .map(|key| item[*key].to_string())
            .collect::<Vec<_>>()
            .join("|"),
    };
    if items.iter().all(|item| seen.insert(identity(item))) {
        Ok(())
    } else {
        Err(format!("{at}: an item twice"))
    }
}

fn string(schema: &Value, text: &str) -> Result<(), &'static str> {
    let length = text.chars().count() as u64;
    if schema["maxLength"].as_u64().is_some_and(|most| length > most)
        || schema["minLength"].as_u64().is_some_and(|least| length < least)
    {
        return Err("too long or too short");
    }
    if schema["format"] == "date-time" && !is_time(text) {
        return Err("no time");
    }
    Ok(())
}

/// RFC 3339, as the API server reads it.
fn is_time(text: &str) -> bool {
    let form = text.len() >= 20
        && text.as_bytes()[10] == b'T'
        && (text.ends_with('Z') || text[19..].contains(['+', '-']));
    text.is_ascii() && form && text.parse::<jiff::Timestamp>().is_ok()
}
