//! Variants of the demo operator's bundle under other names, so that tests do not conflict, and with faults.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use xtask::catalog::{Bundle, Entry, Package};
use xtask::oci_layout::{self, ImageConfig};
use xtask::{demo, manifest};

use crate::lab::{Lab, Namespace, catalog_source, operator_group, subscription};

/// File of the bundle with the ClusterServiceVersion.
pub const CSV_FILE: &str = "manifests/demo-operator.clusterserviceversion.yaml";
/// File of the bundle with the CustomResourceDefinition.
pub const DEFINITION_FILE: &str = "manifests/greetings.demo.example.com.crd.yaml";

/// A copy of the demo operator's first bundle with its own names: package, ClusterServiceVersion, group of its kind. The
/// operator's image is the same, so it runs.
#[derive(Debug, Clone)]
pub struct Variant {
    name: String,
    folder: PathBuf,
}

impl Variant {
    /// Creates the variant `name` in `folder`, which must not exist.
    ///
    /// # Errors
    /// If files cannot be copied.
    pub fn new(name: &str, folder: &Path) -> anyhow::Result<Self> {
        demo::write_variant(name, folder)?;
        Ok(Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
        })
    }

    /// Creates the variant `name`, applies `change`, and publishes it in its own catalog. Returns the catalog's image, too.
    ///
    /// # Errors
    /// If `change`, opm or the registry fails.
    pub fn publish(
        name: &str,
        change: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<(Self, String)> {
        let lab = Lab::shared()?;
        // The operator's image is published with the demo.
        lab.demo_catalog()?;
        let variant = Self::new(name, &lab.folder(&format!("{name}-bundle"))?.join("bundle"))?;
        change(&variant)?;
        let catalog = format!("olm.local/{name}-catalog:v1");
        lab.publish(name, &[variant.package(&variant.image("v1"))], &catalog)?;
        Ok((variant, catalog))
    }

    /// Makes it a bundle for all namespaces only.
    ///
    /// # Errors
    /// If its file cannot be read or written.
    pub fn for_all_namespaces_only(&self) -> anyhow::Result<()> {
        self.edit(CSV_FILE, |csv| {
            let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace"];
            modes.iter().fold(csv.to_owned(), |csv, mode| {
                csv.replace(
                    &format!("{mode}\n      supported: true"),
                    &format!("{mode}\n      supported: false"),
                )
            })
        })
    }

    /// Makes it a bundle that may convert: for all namespaces only, and with a second version of its definition, `v1beta1`, which is
    /// the same again and not stored.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn with_older_version(&self) -> anyhow::Result<()> {
        self.for_all_namespaces_only()?;
        self.edit(DEFINITION_FILE, |text| {
            let (head, version) = text.split_once("    - name: v1\n").unwrap_or_default();
            let older = version.replace("storage: true", "storage: false");
            format!("{head}    - name: v1\n{version}    - name: v1beta1\n{older}")
        })
    }

    /// Publishes the variant `name`, after `change`, and writes catalog, group with these `targets` (none: all namespaces) and
    /// Subscription into `namespace`.
    ///
    /// # Errors
    /// The errors of publishing it, and a rejection of an object by the API server.
    pub fn install(
        name: &str,
        namespace: &Namespace<'_>,
        targets: &[&str],
        change: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let (variant, catalog) = Self::publish(name, change)?;
        namespace.apply(&[
            catalog_source("catalog", &catalog),
            operator_group("group", targets),
            subscription("wanted", name, "stable", "catalog", namespace.name()),
        ])?;
        Ok(variant)
    }

    /// Creates a copy in `folder`, to be changed into a faulty bundle.
    ///
    /// # Errors
    /// If files cannot be copied.
    pub fn copy_to(&self, folder: &Path) -> anyhow::Result<Self> {
        demo::copy_texts(&self.folder, folder, &str::to_owned)?;
        Ok(Self {
            name: self.name.clone(),
            folder: folder.to_owned(),
        })
    }

    /// Returns the name of its package, Deployment and ServiceAccount.
    pub fn package_name(&self) -> &str {
        &self.name
    }

    /// Returns the name of its ClusterServiceVersion.
    pub fn csv(&self) -> String {
        format!("{}.v1.0.0", self.name)
    }

    /// Returns the name of its CustomResourceDefinition.
    pub fn definition(&self) -> String {
        format!("greetings.{}.example.com", self.name)
    }

    /// Returns a reference for its image, with `tag`.
    pub fn image(&self, tag: &str) -> String {
        format!("{}{}-bundle:{tag}", manifest::IMAGE_PREFIX, self.name)
    }

    /// Returns the package with this bundle under `image`.
    pub fn package(&self, image: &str) -> Package {
        Package {
            name: self.name.clone(),
            default_channel: "stable".to_owned(),
            channels: vec![(
                "stable".to_owned(),
                vec![Entry {
                    name: self.csv(),
                    ..Entry::default()
                }],
            )],
            bundles: vec![Bundle {
                folder: self.folder.clone(),
                image: image.to_owned(),
            }],
        }
    }

    /// Changes the text of a file.
    ///
    /// # Errors
    /// If the file cannot be read or written, or nothing changes, which is a mistake of the test.
    pub fn edit(&self, file: &str, change: impl FnOnce(&str) -> String) -> anyhow::Result<()> {
        let path = self.folder.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let changed = change(&text);
        ensure!(changed != text, "{} did not change", path.display());
        fs::write(&path, changed).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Adds a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns the text of a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self, file: &str) -> anyhow::Result<String> {
        let path = self.folder.join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Removes a folder.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_folder(&self, folder: &str) -> anyhow::Result<()> {
        let path = self.folder.join(folder);
        fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Writes the image of the folder's content to `tar`, with the labels of every bundle image. `opm` would reject a faulty
    /// bundle; other tools do not.
    ///
    /// # Errors
    /// If a file cannot be read or the tar cannot be written.
    pub fn write_image(&self, tar: &Path) -> anyhow::Result<()> {
        let files = oci_layout::files_below(&self.folder, "")?;
        let prefix = "operators.operatorframework.io.bundle";
        let labels = [
            ("mediatype.v1", "registry+v1"),
            ("manifests.v1", "manifests/"),
            ("metadata.v1", "metadata/"),
            ("package.v1", &self.name),
            ("channels.v1", "stable"),
        ];
        let config = ImageConfig {
            labels: labels
                .map(|(key, value)| (format!("{prefix}.{key}"), value.to_owned()))
                .to_vec(),
            ..ImageConfig::default()
        };
        oci_layout::write(tar, &files, &config)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_shares_no_name_with_the_original_but_the_operators_image() {
        let home = tempfile::tempdir().unwrap();
        let variant = Variant::new("other", &home.path().join("other")).unwrap();
        let csv = variant.read(CSV_FILE).unwrap();
        assert!(csv.contains("name: other.v1.0.0"));
        assert!(csv.contains("image: olm.local/demo-operator:1.0.0"));
        assert_eq!(
            csv.matches("demo-operator").count(),
            csv.matches("olm.local/demo-operator:1.0.0").count()
        );
        let definition = variant.read(DEFINITION_FILE).unwrap();
        assert!(definition.contains(&format!("name: {}", variant.definition())));
        assert!(!definition.contains("demo"));
        let annotations = variant.read("metadata/annotations.yaml").unwrap();
        assert!(annotations.contains("package.v1: other"));
    }

    #[test]
    fn faults_are_made_in_a_copy() {
        let home = tempfile::tempdir().unwrap();
        let good = Variant::new("v", &home.path().join("good")).unwrap();
        let bad = good.copy_to(&home.path().join("bad")).unwrap();
        bad.edit(CSV_FILE, |text| text.replace("kind:", "kind")).unwrap();
        assert!(bad.edit(CSV_FILE, str::to_owned).is_err(), "nothing changed");
        assert_ne!(good.read(CSV_FILE).unwrap(), bad.read(CSV_FILE).unwrap());
        let tar = home.path().join("bad.tar");
        bad.write_image(&tar).unwrap();
        bad.remove_folder("manifests").unwrap();
        bad.write_image(&tar).unwrap();
    }
}
