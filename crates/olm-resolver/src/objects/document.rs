//! Objects in files, before they are decoded.

use std::io::{self, Read as _};
use std::path::Path;

use olm_fbc::yaml;
use serde_json::Value;

use super::ObjectsError;

/// An object with its origin.
#[derive(Clone, Debug)]
pub struct Document {
    /// The object, undecoded.
    pub object: Value,
    /// Position of the object, such as `document 2 of objects.yaml`.
    pub origin: String,
}

impl Document {
    /// Sets the object's namespace if it has none, as kubectl does.
    pub fn put_into(&mut self, namespace: &str) {
        let metadata = &mut self.object["metadata"];
        if metadata.is_object() && metadata["namespace"].is_null() {
            metadata["namespace"] = namespace.into();
        }
    }
}

/// Returns the objects of a file of YAML or JSON documents; `-` is stdin. Lists are split up, empty documents
/// skipped.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or neither YAML nor JSON.
pub fn read_file(file: &Path) -> Result<Vec<Document>, ObjectsError> {
    let is_stdin = file == Path::new("-");
    let name = if is_stdin {
        "stdin".to_owned()
    } else {
        file.display().to_string()
    };
    let text = if is_stdin {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    match text {
        Ok(text) => parse(&text, &name),
        Err(error) => Err(ObjectsError(format!("cannot read {name}: {error}"))),
    }
}

/// Returns the objects of a text; `name` describes it in errors.
pub fn parse(text: &str, name: &str) -> Result<Vec<Document>, ObjectsError> {
    let found = yaml::parse_all(text.as_bytes())
        .map_err(|error| ObjectsError(format!("{name}: {}", in_terms_of(name, text, error))))?;
    let mut documents = Vec::new();
    for (index, object) in found.into_iter().enumerate() {
        take_apart(
            object,
            format!("document {} of {name}", index + 1),
            &mut documents,
        );
    }
    Ok(documents)
}

/// Converts an error for the file's format. A flow mapping of YAML begins as JSON does, but errors in a YAML
/// file must not be about JSON.
fn in_terms_of(name: &str, text: &str, error: yaml::Error) -> yaml::Error {
    let extension = Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str());
    let is_json_error = matches!(error, yaml::Error::Json { .. } | yaml::Error::UnexpectedEnd);
    if !is_json_error || !matches!(extension, Some("yaml" | "yml")) {
        return error;
    }
    let told = yaml::Documents::new(text.as_bytes())
        .as_yaml()
        .find_map(Result::err);
    told.unwrap_or(error)
}

fn take_apart(mut object: Value, origin: String, documents: &mut Vec<Document>) {
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    if is_list && let Value::Array(items) = object["items"].take() {
        for (index, item) in items.into_iter().enumerate() {
            take_apart(item, format!("item {} of {origin}", index + 1), documents);
        }
    } else if !object.is_null() && !is_list {
        documents.push(Document { object, origin });
    }
}
