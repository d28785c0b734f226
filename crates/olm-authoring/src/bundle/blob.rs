//! The `olm.bundle` blob of a bundle.

use go_compat::json::Fields;
use go_compat::json::{self, Html};
use olm_fbc::property::{Gvk, Property, kinds};
use olm_fbc::schema::{Bundle, RelatedImage};
use serde_json::{Value, json};

use super::BundleContent;
use crate::Error;

/// Annotation of a CSV that adds properties, a JSON list.
const PROPERTIES_ANNOTATION: &str = "olm.properties";

impl BundleContent {
    /// Returns the blob, with `image` as the bundle's image; empty for a folder that has none.
    ///
    /// Properties are sorted by type and value, bundle objects last; a non-empty `image` is also a related image.
    ///
    /// # Errors
    /// APIs that the CSV owns are missing, the CSV has no name or version, or a dependency has the wrong shape.
    pub fn to_blob(&self, image: &str) -> Result<Bundle, Error> {
        let name = self.csv_name();
        if name.is_empty() {
            return Err(format!("{}: metadata.name must be set", self.csv().name).into());
        }
        let mut properties = self.derived_properties()?;
        properties.extend(self.manifests.iter().map(|manifest| {
            let text = json::to_string(&manifest.object, Html::Escaped);
            let data = olm_fbc::base64::encode(text);
            Property::new(kinds::BUNDLE_OBJECT, json!({"data": data}))
        }));
        properties.sort_by_cached_key(|property| {
            let is_bulky = matches!(property.kind.as_str(), kinds::BUNDLE_OBJECT | kinds::CSV_METADATA);
            (
                is_bulky,
                property.kind.clone(),
                json::to_string(&property.value, Html::Plain),
            )
        });
        Ok(Bundle {
            name: name.to_owned(),
            package: self.package().to_owned(),
            image: image.to_owned(),
            properties,
            related_images: self.related_images(image)?,
            ..Bundle::default()
        })
    }

    fn derived_properties(&self) -> Result<Vec<Property>, Error> {
        self.check_texts()?;
        let mut given: Vec<Property> = Vec::new();
        for property in self.properties.iter().cloned().chain(self.annotated_properties()) {
            if !given.contains(&property) {
                given.push(property);
            }
        }
        let (mut provided, mut required) = (self.provided_apis()?, self.required_apis()?);
        let mut properties = Vec::new();
        for property in &given {
            match property.kind.as_str() {
                kinds::GVK => drop(provided.insert(gvk(property, "property")?)),
                // Only its shape is checked here; the property is chosen below.
                kinds::PACKAGE => drop(package_of(property)?),
                _ => properties.push(property.clone()),
            }
        }
        for dependency in &self.dependencies {
            match dependency.kind.as_str() {
                kinds::GVK => drop(required.insert(gvk(dependency, "dependency")?)),
                _ => properties.push(requirement(dependency)?),
            }
        }
        properties.push(self.package_property(&given)?);
        properties.extend(provided.iter().map(|api| Property::gvk(kinds::GVK, api)));
        properties.extend(required.iter().map(|api| Property::gvk(kinds::GVK_REQUIRED, api)));
        Ok(properties)
    }

    /// Checks that labels and annotations of the CSV are texts; no cluster accepts other values.
    fn check_texts(&self) -> Result<(), Error> {
        for field in ["labels", "annotations"] {
            for (key, value) in self.csv().object["metadata"][field]
                .as_object()
                .into_iter()
                .flatten()
            {
                if !(value.is_null() || value.is_string()) {
                    return Err(self.wrong_csv(&format!("metadata.{field} {key:?}"), "text", value));
                }
            }
        }
        Ok(())
    }

    /// Returns the package property from the files; a property in the CSV's annotation takes precedence.
    fn package_property(&self, given: &[Property]) -> Result<Property, Error> {
        if let Some(property) = self
            .annotated_properties()
            .into_iter()
            .rev()
            .find(|property| property.kind == kinds::PACKAGE)
        {
            return package_of(&property);
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
                return package_of(property);
            }
            let (path, field) = match package {
                "" => ("metadata/annotations.yaml", olm_api::labels::bundle::PACKAGE),
                _ => (csv.name.as_str(), "spec.version"),
            };
            return Err(format!("{path}: {field} must be set").into());
        }
        let mut value = json!({"packageName": package, "version": version});
        match &csv.object["spec"]["release"] {
            Value::String(release) if !release.is_empty() => value["release"] = json!(release),
            Value::Number(release) => value["release"] = json!(release.to_string()),
            _ => {}
        }
        Ok(Property::new(kinds::PACKAGE, value))
    }

    /// Returns the properties in the CSV's annotation; a broken annotation counts as none.
    fn annotated_properties(&self) -> Vec<Property> {
        let text = self.csv().object["metadata"]["annotations"][PROPERTIES_ANNOTATION].as_str();
        let list: Option<Vec<Value>> = text.and_then(|text| serde_json::from_str(text).ok());
        let properties = list.iter().flatten().map(super::read_property);
        properties.collect::<Result<_, _>>().unwrap_or_default()
    }

    /// Returns the related images of the CSV, then other images that run or are pulled, without a name; sorted by image.
    fn related_images(&self, image: &str) -> Result<Vec<RelatedImage>, Error> {
        let spec = &self.csv().object["spec"];
        let path = "spec.relatedImages";
        let mut images = Vec::new();
        for (index, related) in self.csv_list(path, &spec["relatedImages"])?.iter().enumerate() {
            let at = format!("{path}[{index}]");
            let fields = Fields::of(related).map_err(|_| self.wrong_csv(&at, "name and image", related))?;
            let text = |field: &str| {
                let found = fields.get(field).unwrap_or(&Value::Null);
                let path = format!("{at}.{field}");
                fields
                    .text(field)
                    .map_err(|_| self.wrong_csv(&path, "text", found))
            };
            images.push(RelatedImage {
                name: text("name")?,
                image: text("image")?,
                ..RelatedImage::default()
            });
        }
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
                    match &container["image"] {
                        Value::Null => {}
                        Value::String(image) => add(image),
                        other => return Err(self.wrong_csv("image of a container", "text", other)),
                    }
                }
            }
        }
        images.sort_by(|a, b| a.image.cmp(&b.image));
        Ok(images)
    }
}

/// Returns the fields of a property's value, which must not be null.
fn fields<'a>(what: &str, property: &'a Property) -> Result<Fields<'a>, Error> {
    if property.value.is_null() {
        return Err(wrong(what, property, "it has no value"));
    }
    Fields::of(&property.value).map_err(|reason| wrong(what, property, &reason))
}

fn wrong(what: &str, property: &Property, reason: &str) -> Error {
    format!("metadata/: {what} of type {:?}: {reason}", property.kind).into()
}

/// Returns the API a property or dependency names.
fn gvk(property: &Property, what: &str) -> Result<Gvk, Error> {
    let wrong = |reason: String| wrong(what, property, &reason);
    let fields = fields(what, property)?;
    Ok(Gvk {
        group: fields.text("group").map_err(wrong)?,
        kind: fields.text("kind").map_err(wrong)?,
        version: fields.text("version").map_err(wrong)?,
    })
}

/// Returns a package property with its fields in canonical form.
fn package_of(property: &Property) -> Result<Property, Error> {
    let wrong = |reason: String| wrong("property", property, &reason);
    let fields = fields("property", property)?;
    let mut value = json!({
        "packageName": fields.text("packageName").map_err(wrong)?,
        "version": fields.text("version").map_err(wrong)?,
    });
    let release = fields.text("release").map_err(wrong)?;
    if !release.is_empty() {
        value["release"] = json!(release);
    }
    Ok(Property::new(kinds::PACKAGE, value))
}

/// Returns the property for a dependency that is not an API.
fn requirement(dependency: &Property) -> Result<Property, Error> {
    if dependency.kind != kinds::PACKAGE {
        return Ok(dependency.clone());
    }
    let wrong = |reason: String| wrong("dependency", dependency, &reason);
    let fields = fields("dependency", dependency)?;
    Ok(Property::new(
        kinds::PACKAGE_REQUIRED,
        json!({
            "packageName": fields.text("packageName").map_err(wrong)?,
            "versionRange": fields.text("version").map_err(wrong)?,
        }),
    ))
}
