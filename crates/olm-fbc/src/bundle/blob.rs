//! The `olm.bundle` blob of a bundle.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{BundleContent, BundleError};
use crate::go_json::{self, Html};
use crate::property::{Fields, Gvk, Property, kinds};
use crate::schema::{Bundle, RelatedImage};

/// Annotation of a CSV that adds properties, a JSON list.
const PROPERTIES_ANNOTATION: &str = "olm.properties";

impl BundleContent {
    /// The blob, with `image` as the bundle's image; empty for a folder that has none.
    ///
    /// Properties are sorted by type and value, bundle objects last; a non-empty `image` is also a related image.
    ///
    /// # Errors
    /// APIs that the CSV owns are missing, the CSV has no name or version, or a dependency has the wrong shape.
    pub fn to_blob(&self, image: &str) -> Result<Bundle, BundleError> {
        let csv = self.csv();
        if csv.name.is_empty() {
            return Err(BundleError::MissingField {
                path: csv.path.clone(),
                field: "metadata.name",
            });
        }
        let mut properties = self.derived_properties()?;
        properties.sort_by_cached_key(|property| {
            (
                property.kind.clone(),
                go_json::to_string(&property.value, Html::Plain),
            )
        });
        properties.dedup();
        let mut objects: Vec<String> = self
            .manifests
            .iter()
            .map(|manifest| {
                let text = go_json::to_string(&manifest.object, Html::Escaped);
                base64::engine::general_purpose::STANDARD.encode(text)
            })
            .collect();
        objects.sort_unstable();
        properties.extend(
            objects
                .into_iter()
                .map(|data| Property::new(kinds::BUNDLE_OBJECT, json!({"data": data}))),
        );
        Ok(Bundle {
            name: csv.name.clone(),
            package: self.package().to_owned(),
            image: image.to_owned(),
            properties,
            related_images: self.related_images(image),
            ..Bundle::default()
        })
    }

    fn derived_properties(&self) -> Result<Vec<Property>, BundleError> {
        let mut given = self.properties.clone();
        given.extend(self.annotated_properties());
        let mut properties = vec![self.package_property(&given)?];
        let gvks = |kind: &str, apis: std::collections::BTreeSet<Gvk>| -> Vec<Property> {
            apis.iter().map(|api| Property::gvk(kind, api)).collect()
        };
        properties.extend(gvks(kinds::GVK, self.provided_apis()?));
        properties.extend(gvks(kinds::GVK_REQUIRED, self.required_apis()?));
        properties.extend(
            given
                .into_iter()
                .filter(|property| property.kind != kinds::PACKAGE),
        );
        for dependency in &self.dependencies {
            properties.push(self.requirement(dependency)?);
        }
        Ok(properties)
    }

    /// The package from the files; a property in the CSV's annotation wins.
    fn package_property(&self, given: &[Property]) -> Result<Property, BundleError> {
        if let Some(property) = self
            .annotated_properties()
            .into_iter()
            .rev()
            .find(|property| property.kind == kinds::PACKAGE)
        {
            return Ok(property);
        }
        let csv = self.csv();
        let version = csv.object["spec"]["version"].as_str().unwrap_or_default();
        let package = self.package();
        if package.is_empty() || version.is_empty() {
            if let Some(property) = given
                .iter()
                .rev()
                .find(|property| property.kind == kinds::PACKAGE)
            {
                return Ok(property.clone());
            }
            return Err(BundleError::MissingField {
                path: if package.is_empty() {
                    "metadata/annotations.yaml".to_owned()
                } else {
                    csv.path.clone()
                },
                field: if package.is_empty() {
                    super::annotations::PACKAGE
                } else {
                    "spec.version"
                },
            });
        }
        let mut value = json!({"packageName": package, "version": version});
        match &csv.object["spec"]["release"] {
            Value::String(release) if !release.is_empty() => value["release"] = json!(release),
            Value::Number(release) => value["release"] = json!(release.to_string()),
            _ => {}
        }
        Ok(Property::new(kinds::PACKAGE, value))
    }

    /// Properties in the CSV's annotation; a broken annotation counts as none.
    fn annotated_properties(&self) -> Vec<Property> {
        self.csv().object["metadata"]["annotations"][PROPERTIES_ANNOTATION]
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    fn requirement(&self, dependency: &Property) -> Result<Property, BundleError> {
        let wrap = |reason: String| BundleError::Content {
            path: "metadata/".to_owned(),
            reason: format!("dependency of type {:?}: {reason}", dependency.kind),
        };
        match dependency.kind.as_str() {
            kinds::GVK => {
                let fields = Fields::of(&dependency.value).map_err(wrap)?;
                let gvk = Gvk {
                    group: fields.text("group").map_err(wrap)?,
                    kind: fields.text("kind").map_err(wrap)?,
                    version: fields.text("version").map_err(wrap)?,
                };
                Ok(Property::gvk(kinds::GVK_REQUIRED, &gvk))
            }
            kinds::PACKAGE => {
                let fields = Fields::of(&dependency.value).map_err(wrap)?;
                Ok(Property::new(
                    kinds::PACKAGE_REQUIRED,
                    json!({
                        "packageName": fields.text("packageName").map_err(wrap)?,
                        "versionRange": fields.text("version").map_err(wrap)?,
                    }),
                ))
            }
            _ => Ok(dependency.clone()),
        }
    }

    /// Related images of the CSV, then what runs or is pulled besides, without a name; sorted by image.
    fn related_images(&self, image: &str) -> Vec<RelatedImage> {
        let spec = &self.csv().object["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut images: Vec<RelatedImage> = spec["relatedImages"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|related| RelatedImage {
                name: text(&related["name"]),
                image: text(&related["image"]),
                ..RelatedImage::default()
            })
            .collect();
        let mut add = |image: &str| {
            if !image.is_empty() && !images.iter().any(|related| related.image == image) {
                images.push(RelatedImage {
                    image: image.to_owned(),
                    ..RelatedImage::default()
                });
            }
        };
        add(image);
        for deployment in spec["install"]["spec"]["deployments"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let pod = &deployment["spec"]["template"]["spec"];
            for list in ["initContainers", "containers"] {
                for container in pod[list].as_array().into_iter().flatten() {
                    add(container["image"].as_str().unwrap_or_default());
                }
            }
        }
        images.sort_by(|a, b| a.image.cmp(&b.image));
        images
    }
}
