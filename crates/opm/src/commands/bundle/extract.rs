//! `opm alpha bundle extract`: writes a bundle's files to a ConfigMap, from which the catalog operator reads them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use olm_api::labels::{CONTENT_ENCODING, CONTENT_ENCODING_GZIP_BASE64, SOURCE_IMAGE, bundle as annotations};
use olm_api::unpacked_bundle::{PROOF, TERMINATION_LOG, TOO_LARGE, content_hash};
use olm_fbc::yaml;
use serde_json::{Map, Value, json};

use crate::args::BundleExtractArgs;
use crate::cluster::Cluster;
use crate::printer;
use crate::source::{entries, read};

/// Environment variable with the image of the files.
const IMAGE_VARIABLE: &str = "CONTAINER_IMAGE";
const ANNOTATIONS_FILE: &str = "annotations.yaml";

pub(crate) async fn run(args: &BundleExtractArgs) -> anyhow::Result<()> {
    let cluster = Cluster::connect(args.kubeconfig.as_deref())?;
    let path = format!(
        "/api/v1/namespaces/{}/configmaps/{}",
        args.namespace, args.configmapname
    );
    let loading = "error loading manifests from directory";
    let mut config_map = cluster.get(&path).await.context(loading)?;
    let content = Content::read(&args.manifestsdir, args.gzip, args.datalimit).context(loading)?;
    content.fill(&mut config_map, std::env::var(IMAGE_VARIABLE).ok().as_deref());
    cluster.replace(&path, &config_map).await.context(loading)?;
    prove(&config_map, Path::new(TERMINATION_LOG));
    Ok(())
}

/// Writes the hash of the ConfigMap to the termination log, which the catalog operator reads and no other user can write. Outside
/// of a pod the file does not exist, and nothing is written.
fn prove(config_map: &Value, termination_log: &Path) {
    if !termination_log.exists() {
        return;
    }
    let proof = format!("{PROOF}{}", content_hash(config_map));
    if let Err(error) = std::fs::write(termination_log, proof) {
        printer::warning(&format!("cannot write {}: {error}", termination_log.display()));
    }
}

/// Content for the ConfigMap.
struct Content {
    /// Files by key.
    files: BTreeMap<String, Vec<u8>>,
    /// Annotations; `None` if the bundle has no annotations file.
    annotations: Option<BTreeMap<&'static str, String>>,
    gzip: bool,
}

impl Content {
    /// Reads `manifests/` and `metadata/` below a prefix, which is prepended unchanged.
    fn read(prefix: &str, gzip: bool, limit: u64) -> anyhow::Result<Self> {
        let mut content = Self {
            files: BTreeMap::new(),
            annotations: None,
            gzip,
        };
        let mut total = 0;
        for folder in ["manifests/", "metadata/"] {
            let folder = PathBuf::from(format!("{prefix}{folder}"));
            for path in entries(&folder)? {
                let bytes = read(&path)?;
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                if name == ANNOTATIONS_FILE {
                    content.annotations =
                        Some(read_annotations(&bytes).with_context(|| path.display().to_string())?);
                    continue;
                }
                let bytes = if gzip { compress(&bytes)? } else { bytes };
                total += bytes.len() as u64;
                if total > limit {
                    bail!("bundle files exceeded {limit} {TOO_LARGE}");
                }
                content.files.insert(key(&name), bytes);
            }
        }
        Ok(content)
    }

    /// Replaces data. As upstream does, the bundle's annotations replace all existing ones.
    fn fill(&self, config_map: &mut Value, image: Option<&str>) {
        let (mut data, mut binary) = (Map::new(), Map::new());
        for (key, bytes) in &self.files {
            match std::str::from_utf8(bytes) {
                Ok(text) if !self.gzip => data.insert(key.clone(), json!(text)),
                // Binary data is base64 in JSON, in addition to base64 of the content encoding.
                _ => binary.insert(key.clone(), json!(olm_fbc::base64::encode(bytes))),
            };
        }
        config_map["data"] = Value::Object(data);
        config_map["binaryData"] = Value::Object(binary);
        if !config_map["metadata"]["annotations"].is_object() {
            config_map["metadata"]["annotations"] = json!({});
        }
        if let Some(annotations) = &self.annotations {
            config_map["metadata"]["annotations"] = json!(annotations);
        }
        let annotations = &mut config_map["metadata"]["annotations"];
        if let Some(image) = image.filter(|image| !image.is_empty()) {
            annotations[SOURCE_IMAGE] = json!(image);
        }
        if self.gzip {
            annotations[CONTENT_ENCODING] = json!(CONTENT_ENCODING_GZIP_BASE64);
        }
    }
}

fn read_annotations(bytes: &[u8]) -> anyhow::Result<BTreeMap<&'static str, String>> {
    let document = yaml::parse(bytes)?;
    Ok([
        annotations::MANIFESTS,
        annotations::MEDIATYPE,
        annotations::METADATA,
        annotations::PACKAGE,
        annotations::CHANNELS,
        annotations::DEFAULT_CHANNEL,
    ]
    .into_iter()
    .map(|key| {
        let value = document["annotations"][key].as_str().unwrap_or_default();
        (key, value.to_owned())
    })
    .collect())
}

fn compress(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).context("cannot compress")?;
    let compressed = encoder.finish().context("cannot compress")?;
    Ok(olm_fbc::base64::encode(compressed).into_bytes())
}

/// Returns a valid ConfigMap key; keys have a small alphabet.
fn key(name: &str) -> String {
    name.chars()
        .map(|char| match char {
            '-' | '_' | '.' => char,
            char if char.is_ascii_alphanumeric() => char,
            _ => '-',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("folder");
        for (file, text) in [
            ("manifests/a b.yaml", "kind: ClusterServiceVersion\n"),
            ("manifests/c.yaml", "kind: Service\n"),
            (
                "metadata/annotations.yaml",
                "annotations: {operators.operatorframework.io.bundle.package.v1: p}\n",
            ),
            ("metadata/dependencies.yaml", "dependencies: []\n"),
        ] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
            std::fs::write(path, text).expect("file");
        }
        dir
    }

    fn prefix(dir: &tempfile::TempDir) -> String {
        format!("{}/", dir.path().display())
    }

    #[test]
    fn files_become_keys_and_annotations_annotations() {
        let dir = bundle();
        let content = Content::read(&prefix(&dir), false, 1 << 20).expect("content");
        let mut map = json!({"metadata": {"name": "m", "annotations": {"old": "x"}}, "data": {"old": "x"}});
        content.fill(&mut map, Some("img"));
        assert_eq!(
            map["data"],
            json!({"a-b.yaml": "kind: ClusterServiceVersion\n", "c.yaml": "kind: Service\n", "dependencies.yaml": "dependencies: []\n"})
        );
        let annotations = &map["metadata"]["annotations"];
        assert_eq!(annotations[annotations::PACKAGE], "p");
        assert_eq!(annotations[SOURCE_IMAGE], "img");
        assert!(annotations.get("old").is_none() && annotations.get(CONTENT_ENCODING).is_none());
    }

    #[test]
    fn compressed_files_are_binary_and_marked() {
        use std::io::Read as _;
        let dir = bundle();
        let content = Content::read(&prefix(&dir), true, 1 << 20).expect("content");
        let mut map = json!({});
        content.fill(&mut map, None);
        assert_eq!(
            map["metadata"]["annotations"][CONTENT_ENCODING],
            CONTENT_ENCODING_GZIP_BASE64
        );
        let decode = |text: &str| olm_fbc::base64::decode(text).expect("base64");
        let binary = map["binaryData"]["c.yaml"].as_str().expect("text");
        let compressed = decode(std::str::from_utf8(&decode(binary)).expect("text"));
        let mut text = String::new();
        flate2::read::GzDecoder::new(compressed.as_slice())
            .read_to_string(&mut text)
            .expect("gzip");
        assert_eq!(text, "kind: Service\n");
    }

    #[test]
    fn the_word_of_what_was_written_is_left_for_the_node() {
        let dir = bundle();
        let content = Content::read(&prefix(&dir), true, 1 << 20).expect("content");
        let mut map = json!({"metadata": {"name": "m"}});
        content.fill(&mut map, Some("img"));
        let log = dir.path().join("termination-log");
        prove(&map, &log);
        assert!(!log.exists(), "none is made where there is no pod");
        std::fs::write(&log, "").expect("file");
        prove(&map, &log);
        let text = std::fs::read_to_string(&log).expect("text");
        assert_eq!(
            olm_api::unpacked_bundle::proven_hash(&text),
            Some(&*content_hash(&map))
        );
    }

    #[test]
    fn too_much_is_refused() {
        let dir = bundle();
        let error = Content::read(&prefix(&dir), false, 30).err().expect("too much");
        assert_eq!(error.to_string(), "bundle files exceeded 30 bytes limit");
        assert!(Content::read("/nonexistent/", false, 30).is_err());
    }
}
