//! OpenAPI documents of PackageManifests, built from the schema of their type.

use olm_api::crd::package_manifest_schema;
use olm_api::packages::{GROUP, ICON, KIND, LIST_KIND, RESOURCE, VERSION};
use serde_json::{Map, Value, json};

/// Title of both documents.
const TITLE: &str = "Package API server";
/// Name of the schema, in the form of custom resources: the group backwards, version and kind.
const NAME: &str = "com.coreos.operators.packages.v1.PackageManifest";
/// Name of the list's schema.
const LIST_NAME: &str = "com.coreos.operators.packages.v1.PackageManifestList";

/// Returns version 2 of OpenAPI. The API server merges it with those of all other servers.
pub fn v2() -> Value {
    let schemas = schemas("#/definitions/");
    let read = |reference: &str, type_: &str| json!({"200": {"description": "OK", "schema": {(reference): type_}}, "401": {"description": "Unauthorized"}});
    let paths = paths(|operation| {
        let parameters: Vec<Value> = operation
            .parameters
            .iter()
            .map(|parameter| {
                json!({"name": parameter.name, "in": parameter.place, "type": "string", "uniqueItems": true,
                    "required": parameter.place == "path", "description": parameter.about})
            })
            .collect();
        let (responses, produces) = match operation.answer {
            Some(name) => (
                read("$ref", &format!("#/definitions/{name}")),
                json!(["application/json", "application/yaml"]),
            ),
            None => (read("type", "file"), json!(["image/*"])),
        };
        json!({"parameters": parameters, "produces": produces, "schemes": ["https"], "responses": responses})
    });
    json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "definitions": schemas,
    })
}

/// Returns version 3 of OpenAPI.
pub fn v3() -> Value {
    let schemas = schemas("#/components/schemas/");
    let paths = paths(|operation| {
        let parameters: Vec<Value> = operation
            .parameters
            .iter()
            .map(|parameter| {
                json!({"name": parameter.name, "in": parameter.place, "required": parameter.place == "path",
                    "description": parameter.about, "schema": {"type": "string", "uniqueItems": true}})
            })
            .collect();
        let content = match operation.answer {
            Some(name) => {
                let schema = json!({"schema": {"$ref": format!("#/components/schemas/{name}")}});
                json!({"application/json": schema, "application/yaml": schema})
            }
            None => json!({"image/*": {"schema": {"type": "string", "format": "binary"}}}),
        };
        json!({"parameters": parameters, "responses": {
            "200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}}})
    });
    json!({
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// Returns the list of version 3 documents, each with the hash of its current content.
pub fn v3_paths(hash: &str) -> Value {
    let path = format!("apis/{GROUP}/{VERSION}");
    let url = format!("/openapi/v3/{path}?hash={hash}");
    json!({"paths": {(path): {"serverRelativeURL": url}}})
}

fn schemas(references: &str) -> Value {
    let kinds = |kind: &str| json!([{"group": GROUP, "version": VERSION, "kind": kind}]);
    let mut object = package_manifest_schema();
    object["x-kubernetes-group-version-kind"] = kinds(KIND);
    let mut schemas = Map::new();
    schemas.insert(NAME.to_owned(), object);
    schemas.insert(
        LIST_NAME.to_owned(),
        json!({
            "description": "List of PackageManifests.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": "API group and version of the list."},
                "kind": {"type": "string", "description": "Kind of the list."},
                "metadata": {"type": "object", "description": "List metadata."},
                "items": {"type": "array", "description": "The PackageManifests.",
                    "items": {"$ref": format!("{references}{NAME}")}},
            },
            "x-kubernetes-group-version-kind": kinds(LIST_KIND),
        }),
    );
    Value::Object(schemas)
}

struct Parameter {
    name: &'static str,
    place: &'static str,
    about: &'static str,
}

impl Parameter {
    const fn in_path(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            place: "path",
            about,
        }
    }

    const fn in_query(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            place: "query",
            about,
        }
    }
}

const NAMESPACE: Parameter = Parameter::in_path(
    "namespace",
    "Namespace whose PackageManifests are returned: those of its own and of global catalogs.",
);
const OBJECT: Parameter = Parameter::in_path("name", "Name of the package.");
/// Parameters of lists.
const LIST: [Parameter; 2] = [
    Parameter::in_query("labelSelector", "Label selector."),
    Parameter::in_query(
        "fieldSelector",
        "Field selector on metadata.name and metadata.namespace.",
    ),
];

struct Operation {
    /// Name of the response's schema; `None` for icons.
    answer: Option<&'static str>,
    parameters: Vec<Parameter>,
}

fn paths(document: impl Fn(&Operation) -> Value) -> Value {
    let all = format!("/apis/{GROUP}/{VERSION}/{RESOURCE}");
    let of_namespace = format!("/apis/{GROUP}/{VERSION}/namespaces/{{namespace}}/{RESOURCE}");
    let one = format!("{of_namespace}/{{name}}");
    let list = |path: Vec<Parameter>| Operation {
        answer: Some(LIST_NAME),
        parameters: path.into_iter().chain(LIST).collect(),
    };
    let get = |answer| Operation {
        answer,
        parameters: vec![OBJECT, NAMESPACE],
    };
    let rows = [
        (
            all,
            "list",
            "listPackageManifestForAllNamespaces",
            list(Vec::new()),
        ),
        (
            of_namespace,
            "list",
            "listNamespacedPackageManifest",
            list(vec![NAMESPACE]),
        ),
        (
            format!("{one}/{ICON}"),
            "connect",
            "getNamespacedPackageManifestIcon",
            get(None),
        ),
        (one, "get", "readNamespacedPackageManifest", get(Some(NAME))),
    ];
    let mut paths = Map::new();
    for (path, action, id, operation) in rows {
        let mut told = document(&operation);
        told["operationId"] = json!(id);
        told["tags"] = json!([format!("{GROUP}_{VERSION}")]);
        told["x-kubernetes-action"] = json!(action);
        told["x-kubernetes-group-version-kind"] = json!({"group": GROUP, "version": VERSION, "kind": KIND});
        paths.insert(path, json!({"get": told}));
    }
    Value::Object(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects every `$ref` in a document.
    fn references(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    out.push(reference.clone());
                }
                members.values().for_each(|member| references(member, out));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, out)),
            _ => {}
        }
    }

    #[test]
    fn references_lead_somewhere() {
        for document in [v2(), v3()] {
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(!found.is_empty());
            for reference in found {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn both_versions_tell_of_the_same_paths_and_fields() {
        let (v2, v3) = (v2(), v3());
        assert_eq!(v2["info"]["title"], "Package API server");
        let paths = |document: &Value| -> Vec<String> {
            document["paths"].as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(paths(&v2), paths(&v3));
        assert_eq!(paths(&v2).len(), 4);
        let channels = "/properties/status/properties/channels/items/properties/currentCSV/type";
        assert_eq!(v2["definitions"][NAME].pointer(channels).unwrap(), "string");
        assert_eq!(
            v3["components"]["schemas"][NAME].pointer(channels).unwrap(),
            "string"
        );
    }

    #[test]
    fn the_document_of_the_version_is_found_by_its_hash() {
        assert_eq!(
            v3_paths("abc")["paths"]["apis/packages.operators.coreos.com/v1"]["serverRelativeURL"],
            "/openapi/v3/apis/packages.operators.coreos.com/v1?hash=abc"
        );
    }
}
