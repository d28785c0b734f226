//! Reads the objects of a bundle from its files.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::labels;
use olm_api::manifest::mend_rbac_manifest;
pub use olm_fbc::bundle_files::BundleFile;
use olm_fbc::bundle_files::{read_file, unite};
use olm_fbc::manifest::CRD_KIND;
use olm_fbc::yaml;
use olm_oci::{ImageContent, View};
use serde_json::Value;

use super::error::{UnpackClass, UnpackError};
use crate::object;
use crate::step_kind::StepKind;

/// Folder of the manifests without labels and annotations.
const DEFAULT_MANIFESTS: &str = "manifests";
/// Folder of `annotations.yaml` without labels.
const DEFAULT_METADATA: &str = "metadata";
/// File that names the manifests folder.
const ANNOTATIONS: &str = "annotations.yaml";

/// The files of a bundle image that are read: manifests and metadata. An image without labels is read
/// completely, because only its `annotations.yaml` names the manifests folder.
pub(crate) const VIEW: View = |image_labels| match image_labels.get(labels::bundle::MANIFESTS) {
    Some(manifests) => {
        let metadata = image_labels
            .get(labels::bundle::METADATA)
            .map_or(DEFAULT_METADATA, String::as_str);
        vec![manifests.clone(), metadata.to_owned()]
    }
    None => vec![String::new()],
};

/// The objects of a bundle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnpackedBundle {
    /// The image, by digest.
    pub image: String,
    /// The ClusterServiceVersion.
    pub csv: Value,
    /// All other objects, sorted by file name.
    pub objects: Vec<BundleFile>,
    /// Files and documents that were left out, and why, one line each. Of many the first few.
    pub left_out: Vec<String>,
}

/// Reads the bundle in an image.
///
/// # Errors
/// There are no manifests, or a file is invalid; the error names the file.
pub(crate) fn read_image(pinned: &str, content: &ImageContent) -> Result<UnpackedBundle, UnpackError> {
    let in_image = |error: UnpackError| UnpackError {
        cause: format!("image `{pinned}`: {}", error.cause),
        ..error
    };
    let folder = manifests_folder(content).map_err(in_image)?;
    let files: BTreeMap<&str, &[u8]> = content
        .below(&folder)
        // Only the folder itself, without hidden files, as upstream's tools do.
        .filter(|(name, _)| !name.contains('/') && !name.starts_with('.'))
        .map(|(name, bytes)| (name, bytes.as_ref()))
        .collect();
    if files.is_empty() {
        let error = UnpackError::new(
            UnpackClass::NoManifests,
            format!("no manifests in folder `/{}`", folder.trim_matches('/')),
        );
        return Err(in_image(error));
    }
    read_files(pinned, files.into_iter()).map_err(in_image)
}

/// Reads a bundle from its files. What is no object is skipped and named in the result ([`olm_fbc::bundle_files`]).
///
/// # Errors
/// An object is invalid, or there is not exactly one ClusterServiceVersion.
pub fn read_files<'a>(
    image: &str,
    files: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Result<UnpackedBundle, UnpackError> {
    let invalid = |cause: String| UnpackError::new(UnpackClass::InvalidManifest, cause);
    let (mut objects, mut left_out, mut is_one_broken) = (Vec::new(), Vec::new(), false);
    let mut further = Vec::new();
    for (name, bytes) in files {
        let mut object = match read_file(name, bytes) {
            Ok(read) => {
                if read.has_more {
                    further.push(format!("file `{name}`: only the first document is used"));
                }
                read.object
            }
            Err(reason) => {
                is_one_broken |= reason.is_broken_manifest(name);
                left_out.push(format!("file `{name}` skipped: {reason}"));
                continue;
            }
        };
        complete_type(&mut object);
        mend_rbac_manifest(&mut object);
        check_object(name, &object).map_err(invalid)?;
        objects.push(BundleFile {
            name: name.to_owned(),
            object,
        });
    }
    objects.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut csvs, objects): (Vec<_>, Vec<_>) = unite(objects)
        .into_iter()
        .partition(|file| object::kind(&file.object) == labels::OWNER_KIND_CSV);
    if let [first, second, ..] = csvs.as_slice() {
        return Err(invalid(format!(
            "files `{}` and `{}` both contain a ClusterServiceVersion, only one is allowed",
            first.name, second.name
        )));
    }
    let lacking = |what: String| {
        let texts: Vec<String> = [what].into_iter().chain(first(&left_out)).collect();
        invalid(texts.join("; "))
    };
    let csv = csvs
        .pop()
        .ok_or_else(|| lacking("no file contains a ClusterServiceVersion".to_owned()))?;
    // The unreadable file was probably this one, and the operator would wait for it forever.
    if is_one_broken && let Some(name) = missing_definition(&csv.object, &objects) {
        return Err(lacking(format!(
            "no file contains CustomResourceDefinition {name}, which the ClusterServiceVersion owns"
        )));
    }
    Ok(UnpackedBundle {
        image: image.to_owned(),
        csv: csv.object,
        objects,
        left_out: first(&[left_out, further].concat()),
    })
}

/// The first few of these texts, and the number of the others.
fn first(texts: &[String]) -> Vec<String> {
    let more = texts.len().saturating_sub(MOST_TOLD);
    let rest = (more > 0).then(|| format!("{more} more skipped"));
    texts.iter().take(MOST_TOLD).cloned().chain(rest).collect()
}

/// So many of the files that were skipped are named in a message: it goes into conditions and events.
const MOST_TOLD: usize = 5;

/// Returns the first CustomResourceDefinition that a ClusterServiceVersion owns and that is not among the
/// objects.
fn missing_definition<'a>(csv: &'a Value, objects: &[BundleFile]) -> Option<&'a str> {
    let owned = csv.pointer("/spec/customresourcedefinitions/owned")?.as_array()?;
    let definitions = objects
        .iter()
        .filter(|file| object::kind(&file.object) == CRD_KIND);
    let there: BTreeSet<&str> = definitions.map(|file| object::name(&file.object)).collect();
    owned
        .iter()
        .filter_map(|owned| owned.get("name")?.as_str())
        .find(|name| !there.contains(name))
}

/// Adds `apiVersion` to kinds with only one version, as upstream's typed clients do. For a
/// ClusterServiceVersion upstream requires it.
fn complete_type(object: &mut Value) {
    if object::kind(object) == labels::OWNER_KIND_CSV {
        return;
    }
    let known = StepKind::of(object::kind(object)).and_then(StepKind::api_resource);
    if let (Some(api), Value::Object(map)) = (known, &mut *object)
        && map.get("apiVersion").is_none_or(object::is_empty)
    {
        map.insert("apiVersion".to_owned(), api.api_version.into());
    }
}

/// Checks the fields that every API object needs. The API server would refuse the object anyway; this error
/// names the file.
fn check_object(file: &str, object: &Value) -> Result<(), String> {
    for (field, value) in [
        ("apiVersion", object::api_version(object)),
        ("kind", object::kind(object)),
    ] {
        if value.is_empty() && object::kind(object) == labels::OWNER_KIND_CSV {
            // Upstream's text.
            return Err(format!(
                "file `{file}`: bundle CSV {} missing APIVersion",
                object::name(object)
            ));
        }
        if value.is_empty() {
            return Err(format!("file `{file}`: has no `{field}`"));
        }
    }
    if !object.get("metadata").is_some_and(Value::is_object)
        || object::metadata_text(object, "name").is_none()
    {
        return Err(format!(
            "file `{file}`: {} has no `metadata.name`",
            object::kind(object)
        ));
    }
    for field in ["labels", "annotations"] {
        let map = object.pointer(&format!("/metadata/{field}"));
        let is_text_map = |value: &Value| {
            value
                .as_object()
                .is_some_and(|map| map.values().all(|value| value.is_string() || value.is_null()))
        };
        if map.is_some_and(|map| !map.is_null() && !is_text_map(map)) {
            return Err(format!(
                "file `{file}`: `metadata.{field}` is not a map of strings; quote its values"
            ));
        }
    }
    Ok(())
}

/// Returns the manifests folder: from `annotations.yaml`, else from the image's labels, else the default.
fn manifests_folder(content: &ImageContent) -> Result<String, UnpackError> {
    let metadata = content
        .labels
        .get(labels::bundle::METADATA)
        .map_or(DEFAULT_METADATA, String::as_str);
    let annotations = content.below(metadata).find(|(name, _)| *name == ANNOTATIONS);
    let annotated = match annotations {
        None => None,
        Some((name, bytes)) => {
            let (value, _) = yaml::parse_first(bytes).map_err(|error| {
                UnpackError::new(
                    UnpackClass::InvalidManifest,
                    format!("file `{}/{name}`: {error}", metadata.trim_matches('/')),
                )
            })?;
            value
                .get("annotations")
                .and_then(|map| map.get(labels::bundle::MANIFESTS))
                .and_then(Value::as_str)
                .map(str::to_owned)
        }
    };
    let labelled = content.labels.get(labels::bundle::MANIFESTS).cloned();
    // A folder that does not exist is skipped; if none exists, the error names the default.
    let candidates = annotated
        .into_iter()
        .chain(labelled)
        .chain([DEFAULT_MANIFESTS.to_owned()]);
    let mut first = None;
    for folder in candidates {
        if content.below(&folder).next().is_some() {
            return Ok(folder);
        }
        first.get_or_insert(folder);
    }
    Ok(first.unwrap_or_else(|| DEFAULT_MANIFESTS.to_owned()))
}

#[cfg(test)]
mod tests {
    mod corpus;

    use olm_oci::Digest;

    use super::*;

    const CSV: &str =
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\n";
    const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: svc}\n";

    fn image(labels: &[(&str, &str)], files: &[(&str, &str)]) -> ImageContent {
        ImageContent {
            digest: Digest::sha256(b""),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            files: files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec().into()))
                .collect(),
        }
    }

    fn read(labels: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let bundle = read_image("r/b@sha256:00", &image(labels, files))
            .map_err(|error| format!("{:?}: {}", error.class, error.cause))?;
        assert_eq!(object::name(&bundle.csv), "a.v1");
        Ok(bundle.objects.into_iter().map(|file| file.name).collect())
    }

    #[test]
    fn bundle_is_found_by_labels_annotations_or_habit() {
        let labelled = [
            (labels::bundle::MANIFESTS, "m/"),
            (labels::bundle::METADATA, "meta/"),
        ];
        assert_eq!(
            read(
                &labelled,
                &[
                    ("m/z.yaml", CSV),
                    ("m/b.yaml", SERVICE),
                    ("m/sub/x.yaml", "!"),
                    ("m/.hidden", "!")
                ]
            ),
            Ok(vec!["b.yaml".into()])
        );
        let annotated = "annotations: {operators.operatorframework.io.bundle.manifests.v1: elsewhere/}";
        assert_eq!(
            read(
                &[],
                &[
                    ("metadata/annotations.yaml", annotated),
                    ("elsewhere/csv.yaml", CSV)
                ]
            ),
            Ok(vec![])
        );
        assert_eq!(read(&[], &[("manifests/csv.yaml", CSV)]), Ok(vec![]));
    }

    /// Published bundles contain such files; upstream installs them.
    #[test]
    fn stray_files_are_skipped_and_twins_that_agree_are_one() {
        let role = "kind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\nrules: [{verbs: [get]}]\nmetadata: {name: r";
        let (one, other) = (format!("{role}}}"), format!("{role}, labels: {{a: b}}}}"));
        let files = [
            ("manifests/a.yaml", CSV),
            ("manifests/README.md", "# Demo\n\nHow to: build, then push.\n"),
            ("manifests/dependencies.yaml", "dependencies: []"),
            ("manifests/broken.yaml", "a: [1"),
            ("manifests/r1.yaml", &one),
            ("manifests/r2.yaml", &other),
            ("manifests/s.yaml", SERVICE),
        ];
        assert_eq!(
            read(&[], &files),
            Ok(vec!["r1.yaml".to_owned(), "s.yaml".to_owned()])
        );
    }

    /// It goes into events and conditions.
    #[test]
    fn what_is_left_out_is_named_and_of_much_of_it_the_beginning() {
        let services = format!("{SERVICE}---\n{SERVICE}");
        let mut files = vec![
            ("manifests/a.yaml".to_owned(), CSV),
            ("manifests/s.yaml".to_owned(), &services),
        ];
        files.push(("manifests/README.md".to_owned(), "# Demo"));
        let left_out = |files: &[(String, &str)]| {
            let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
            read_image("r/b@sha256:00", &image(&[], &files)).map(|bundle| bundle.left_out)
        };
        assert_eq!(
            left_out(&files).unwrap(),
            [
                "file `README.md` skipped: it contains no object with a kind",
                "file `s.yaml`: only the first document is used"
            ]
        );
        files.extend((0..9).map(|number| (format!("manifests/{number}.txt"), "# Demo")));
        let many = left_out(&files).unwrap();
        assert_eq!((many.len(), many[5].as_str()), (6, "6 more skipped"));
        files.remove(0);
        let error = left_out(&files).unwrap_err().cause;
        let told = error.matches(" skipped: ").count();
        assert!(told == 5 && error.ends_with("; 5 more skipped"), "{error}");
    }

    /// The operator would wait for it for good.
    #[test]
    fn a_broken_definition_that_is_owned_is_reported() {
        let csv =
            format!("{CSV}spec: {{customresourcedefinitions: {{owned: [{{name: as.example.com}}]}}}}\n");
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\n";
        let with = |text: &str| read(&[], &[("manifests/csv.yaml", &csv), ("manifests/crd.yaml", text)]);
        assert_eq!(with(crd), Ok(vec!["crd.yaml".to_owned()]));
        assert_eq!(with("kind: 1"), Ok(vec![]), "another bundle may bring it");
        let error = with("kind: [").unwrap_err();
        assert!(
            error.starts_with(
                "InvalidManifest: image `r/b@sha256:00`: no file contains CustomResourceDefinition as.example.com, which the ClusterServiceVersion owns; file `crd.yaml` skipped: invalid YAML: line 1"
            ),
            "{error}"
        );
    }

    /// So a plan grants exactly the rules that it shows.
    #[test]
    fn roles_have_the_fields_that_are_meant() {
        let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\nrules: [{apigroups: [a]}]\n";
        let files = [("csv.yaml", CSV), ("role.yaml", role)];
        let files = files.iter().map(|(name, text)| (*name, text.as_bytes()));
        let bundle = read_files("r/b@sha256:00", files).unwrap();
        assert_eq!(bundle.objects[0].object["rules"][0]["apiGroups"][0], "a");
    }

    #[test]
    fn the_view_fetches_what_the_labels_name() {
        let content = image(&[(labels::bundle::MANIFESTS, "m/")], &[]);
        assert_eq!(VIEW(&content.labels), ["m/", "metadata"]);
        assert_eq!(VIEW(&BTreeMap::new()), [""]);
    }

    #[test]
    fn every_defect_names_image_and_file() {
        let other_csv = format!("{CSV}spec: {{version: 2.0.0}}\n");
        let rows = [
            (
                vec![("metadata/annotations.yaml", "annotations: {}")],
                "NoManifests: image `r/b@sha256:00`: no manifests in folder `/manifests`",
            ),
            (
                vec![("manifests/a.yaml", SERVICE)],
                "InvalidManifest: image `r/b@sha256:00`: no file contains a ClusterServiceVersion",
            ),
            (
                vec![("manifests/a.yaml", CSV), ("manifests/b.yaml", &other_csv)],
                "InvalidManifest: image `r/b@sha256:00`: files `a.yaml` and `b.yaml` both contain a ClusterServiceVersion, only one is allowed",
            ),
            (
                vec![("manifests/a.yaml", "- 1")],
                "InvalidManifest: image `r/b@sha256:00`: no file contains a ClusterServiceVersion; file `a.yaml` skipped: it contains no object with a kind",
            ),
            (
                vec![("manifests/a.yaml", "kind: X")],
                "InvalidManifest: image `r/b@sha256:00`: file `a.yaml`: has no `apiVersion`",
            ),
            (
                vec![(
                    "manifests/a.yaml",
                    "{kind: ClusterServiceVersion, metadata: {name: a.v1}}",
                )],
                "InvalidManifest: image `r/b@sha256:00`: file `a.yaml`: bundle CSV a.v1 missing APIVersion",
            ),
            (
                vec![("manifests/a.yaml", "{apiVersion: v1, kind: X, metadata: y}")],
                "InvalidManifest: image `r/b@sha256:00`: file `a.yaml`: X has no `metadata.name`",
            ),
            (
                vec![(
                    "manifests/a.yaml",
                    "{apiVersion: v1, kind: X, metadata: {name: x1, labels: {a: 1}}}",
                )],
                "InvalidManifest: image `r/b@sha256:00`: file `a.yaml`: `metadata.labels` is not a map of strings; quote its values",
            ),
        ];
        for (files, expected) in rows {
            assert_eq!(read(&[], &files), Err(expected.to_owned()));
        }
        let broken = read(&[], &[("manifests/a.yaml", "a: [1\nb: 2")]).unwrap_err();
        assert!(
            broken.starts_with("InvalidManifest: image `r/b@sha256:00`: no file contains a ClusterServiceVersion; file `a.yaml` skipped: invalid YAML: line "),
            "{broken}"
        );
    }
}
