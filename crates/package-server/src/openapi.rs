//! OpenAPI documents of PackageManifests.

use olm_api::packages::{GROUP, ICON, KIND, LIST_KIND, RESOURCE, VERSION};
use serde_json::{Map, Value, json};

/// Schema of a PackageManifest, which has no CustomResourceDefinition because it is not stored. A test of `olm-api` compares it with
/// the type.
const SCHEMA: &str = include_str!("openapi/package_manifest.json");
/// Title of both documents.
const TITLE: &str = "Package API server";
/// Name of the schema, in the form of custom resources: the group backwards, version and kind.
const NAME: &str = "com.coreos.operators.packages.v1.PackageManifest";
/// Name of the list's schema.
const LIST_NAME: &str = "com.coreos.operators.packages.v1.PackageManifestList";

/// Returns version 2 of OpenAPI. The API server merges it with those of all other servers.
pub fn v2() -> Value {
    let typed = |mut parameter: Value| {
        parameter["type"] = json!("string");
        parameter["uniqueItems"] = json!(true);
        parameter
    };
    let answered = |answer: Option<&str>| {
        let (schema, produces) = match answer {
            Some(name) => (
                json!({"$ref": format!("#/definitions/{name}")}),
                json!(["application/json", "application/yaml"]),
            ),
            None => (json!({"type": "file"}), json!(["image/*"])),
        };
        json!({"produces": produces, "schemes": ["https"], "responses": {
            "200": {"description": "OK", "schema": schema}, "401": {"description": "Unauthorized"}}})
    };
    json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths(typed, answered),
        "definitions": schemas("#/definitions/"),
    })
}

/// Returns version 3 of OpenAPI.
pub fn v3() -> Value {
    let typed = |mut parameter: Value| {
        parameter["schema"] = json!({"type": "string", "uniqueItems": true});
        parameter
    };
    let answered = |answer: Option<&str>| {
        let content = match answer {
            Some(name) => {
                let schema = json!({"schema": {"$ref": format!("#/components/schemas/{name}")}});
                json!({"application/json": schema, "application/yaml": schema})
            }
            None => json!({"image/*": {"schema": {"type": "string", "format": "binary"}}}),
        };
        json!({"responses": {
            "200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}}})
    };
    json!({
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths(typed, answered),
        "components": {"schemas": schemas("#/components/schemas/")},
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
    let mut object: Value = serde_json::from_str(SCHEMA).unwrap_or_default();
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

/// Returns the operations by path. `typed` adds the type of a parameter, a text; `answered` describes a response by
/// the name of its schema, or an icon.
fn paths(typed: impl Fn(Value) -> Value, answered: impl Fn(Option<&str>) -> Value) -> Value {
    let parameter = |place: &str, name: &str, about: &str| {
        typed(json!({"name": name, "in": place, "required": place == "path", "description": about}))
    };
    let namespace = parameter(
        "path",
        "namespace",
        "Namespace whose PackageManifests are returned: those of its own and of global catalogs.",
    );
    let object = vec![
        parameter("path", "name", "Name of the package."),
        namespace.clone(),
    ];
    let list = vec![
        parameter("query", "labelSelector", "Label selector."),
        parameter(
            "query",
            "fieldSelector",
            "Field selector on metadata.name and metadata.namespace.",
        ),
    ];
    let all = format!("/apis/{GROUP}/{VERSION}/{RESOURCE}");
    let of_namespace = format!("/apis/{GROUP}/{VERSION}/namespaces/{{namespace}}/{RESOURCE}");
    let one = format!("{of_namespace}/{{name}}");
    let rows = [
        (
            format!("{one}/{ICON}"),
            "connect",
            "getNamespacedPackageManifestIcon",
            None,
            object.clone(),
        ),
        (one, "get", "readNamespacedPackageManifest", Some(NAME), object),
        (
            of_namespace,
            "list",
            "listNamespacedPackageManifest",
            Some(LIST_NAME),
            [vec![namespace], list.clone()].concat(),
        ),
        (
            all,
            "list",
            "listPackageManifestForAllNamespaces",
            Some(LIST_NAME),
            list,
        ),
    ];
    let mut paths = Map::new();
    for (path, action, id, answer, parameters) in rows {
        let mut told = answered(answer);
        told["parameters"] = json!(parameters);
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
    fn both_versions_describe_the_same_paths_and_fields() {
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
