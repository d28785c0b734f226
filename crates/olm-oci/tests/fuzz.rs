//! No bytes make the readers of image archives and layers panic, hang or write outside their folder. No
//! answers of a registry make its client panic, hang, fill memory or disk, or leak secrets.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

mod fuzz_registry;
#[path = "../../olm-fbc/tests/fuzzing/mod.rs"]
mod fuzzing;

use std::io::Write as _;
use std::path::Path;

use fuzzing::{Fuzz, Random};
use olm_oci::{Digest, ImageArchive, ImageSpec, LayerSpec, Limits, Reference, RunConfig};
use serde_json::json;

/// Small limits, so that they are met.
const LIMITS: Limits = Limits {
    document: 1 << 16,
    layers: 4,
    layer: 1 << 18,
    unpacked: 1 << 20,
    entries: 200,
    file: 1 << 16,
    content: 1 << 18,
    ..Limits::BUNDLE
};

fn archive() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("image.tar");
    let mut layer = LayerSpec::new();
    layer
        .file("manifests/csv.yaml", "kind: ClusterServiceVersion\n", 0o644, 0)
        .expect("file");
    layer.link("manifests/link.yaml", "csv.yaml").expect("link");
    let image = ImageSpec {
        base: None,
        layers: vec![layer],
        config: RunConfig::default(),
    };
    let image = image.build().expect("image");
    let name: Reference = "quay.io/x/y:v1".parse().expect("reference");
    image.write(&path, Some(&name)).expect("written");
    std::fs::read(&path).expect("archive")
}

const WORDS: [&str; 9] = [
    "\0\0\0\0",
    "ustar",
    "index.json",
    "oci-layout",
    "../",
    "7777777",
    "sha256:",
    "{}",
    "[]",
];

#[test]
fn archives_of_any_kind() {
    let fuzz = Fuzz {
        name: "archive",
        seeds: vec![archive(), b"no archive".to_vec()],
        words: &WORDS,
        structured: None,
    };
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("image.tar");
    fuzz.run(|input| {
        std::fs::write(&path, input).expect("file");
        let Ok(archive) = ImageArchive::read(&path) else {
            return false;
        };
        let _ = archive.config();
        assert!(archive.blobs().values().map(bytes::Bytes::len).sum::<usize>() < 1 << 24);
        archive.files(&[String::new()], LIMITS).is_ok()
    });
}

/// Names an attacker would try, and ordinary ones.
const NAMES: [&str; 24] = [
    "manifests/csv.yaml",
    "manifests/a.yaml",
    "manifests",
    "metadata/annotations.yaml",
    "./manifests/b.yaml",
    "/manifests/c.yaml",
    "../outside",
    "manifests/../../outside",
    "/../../outside",
    "..",
    ".",
    "",
    "/",
    "manifests/.wh.a.yaml",
    "manifests/.wh..wh..opq",
    ".wh.manifests",
    ".wh.",
    ".wh...",
    "a//b",
    "a/./b",
    "dir",
    "dir/file",
    "manifests/\u{e9}",
    "manifests/a b",
];

fn entry(random: &mut Random, out: &mut Vec<u8>) {
    let kinds = *random.of(b"000000005555221134670LKxgS");
    let (name, link) = (*random.of(&NAMES), *random.of(&NAMES));
    let most = *random.of(&[1_usize, 16, 600, 70_000]);
    let body = vec![b'x'; random.below(most)];
    let mut header = if random.below(2) == 0 {
        tar::Header::new_gnu()
    } else {
        tar::Header::new_ustar()
    };
    let raw = header.as_old_mut();
    raw.name[..name.len()].copy_from_slice(name.as_bytes());
    if matches!(kinds, b'1' | b'2') || random.below(20) == 0 {
        raw.linkname[..link.len()].copy_from_slice(link.as_bytes());
    }
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::new(kinds));
    let size = match random.below(30) {
        0 => body.len() as u64 + 513,
        1 => u64::MAX >> random.below(40),
        _ => body.len() as u64,
    };
    header.set_size(size);
    header.set_cksum();
    if random.below(60) == 0 {
        header.as_mut_bytes()[random.below(512)] ^= 1;
    }
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(&body);
    out.resize(out.len().next_multiple_of(512), 0);
}

/// Writes one to three layers of entries of all kinds, some compressed, each with its length in front.
fn layers(_: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for _ in 0..=random.below(3) {
        let mut layer = Vec::new();
        for _ in 0..random.below(8) {
            entry(random, &mut layer);
        }
        if random.below(4) > 0 {
            layer.resize(layer.len() + 1024, 0);
        }
        let layer = match random.below(4) {
            0 => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(&layer).expect("compressed");
                encoder.finish().expect("compressed")
            }
            1 => zstd::encode_all(layer.as_slice(), 1).expect("compressed"),
            _ => layer,
        };
        out.extend_from_slice(&u32::try_from(layer.len()).ok()?.to_be_bytes());
        out.extend_from_slice(&layer);
    }
    Some(out)
}

/// Builds an image with the layers of an input and correct digests, so that the content of the layers is
/// reached.
fn image_of(input: &[u8]) -> Vec<u8> {
    let mut rest = input;
    let mut blobs = Vec::new();
    while blobs.len() < 6
        && let Some((length, after)) = rest.split_first_chunk::<4>()
    {
        let length = usize::try_from(u32::from_be_bytes(*length))
            .unwrap_or(0)
            .min(after.len());
        blobs.push(after[..length].to_vec());
        rest = &after[length..];
    }
    let descriptor = |kind: &str, blob: &[u8]| json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": Digest::sha256(blob).to_string(), "size": blob.len()});
    let config = json!({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}})
        .to_string()
        .into_bytes();
    let layers: Vec<_> = blobs
        .iter()
        .map(|blob| descriptor("layer.v1.tar", blob))
        .collect();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", &config), "layers": layers,
    })
    .to_string()
    .into_bytes();
    let index =
        json!({"schemaVersion": 2, "manifests": [descriptor("manifest.v1+json", &manifest)]}).to_string();
    blobs.extend([config, manifest]);
    let mut files = vec![
        (
            "oci-layout".to_owned(),
            br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
        ),
        ("index.json".to_owned(), index.into_bytes()),
    ];
    for blob in blobs {
        files.push((
            format!("blobs/{}", Digest::sha256(&blob).to_string().replace(':', "/")),
            blob,
        ));
    }
    files.sort();
    files.dedup();
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        builder
            .append_data(&mut header, name, bytes.as_slice())
            .expect("entry");
    }
    builder.into_inner().expect("archive")
}

/// Returns the names below a folder that the test did not write.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn layers_of_any_kind() {
    let mut random = Random::new(7);
    let seeds = (0..20).filter_map(|_| layers(&[], &mut random)).collect();
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("image.tar");
    let fuzz = Fuzz {
        name: "layers",
        seeds,
        words: &WORDS,
        structured: Some(layers),
    };
    fuzz.run(|input| {
        std::fs::write(&path, image_of(input)).expect("file");
        let archive = ImageArchive::read(&path).expect("the frame is right");
        let Ok(content) = archive.files(&[String::new()], LIMITS) else {
            return false;
        };
        let total: usize = content.files.values().map(bytes::Bytes::len).sum();
        for (name, bytes) in &content.files {
            assert!(bytes.len() as u64 <= LIMITS.file, "{name}");
        }
        // Links share bytes, so the files at their ends may add up to more than was read.
        assert!(total <= content.files.len() * (1 << 16));
        let outer = dir.path().join("sandbox");
        let inner = outer.join("root");
        std::fs::create_dir_all(&inner).expect("folder");
        let written = content.write_below("/", &inner);
        assert_eq!(names_in(&outer), ["root"], "written outside of the root");
        assert_eq!(
            names_in(dir.path()),
            ["image.tar", "sandbox"],
            "written outside of the root"
        );
        if written.is_ok() {
            for (name, bytes) in &content.files {
                let path = inner.join(name);
                let metadata = std::fs::symlink_metadata(&path).expect("written");
                assert!(metadata.is_file(), "{name} is no plain file");
                assert_eq!(metadata.len(), bytes.len() as u64, "{name}");
            }
        }
        std::fs::remove_dir_all(&outer).expect("removed");
        written.is_ok() && !content.files.is_empty()
    });
}

#[test]
fn registry_answers_of_any_kind() {
    let known = fuzz_registry::Known::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("runtime");
    let fuzz = Fuzz {
        name: "registry",
        seeds: fuzz_registry::Known::seeds(),
        words: &REGISTRY_WORDS,
        structured: Some(fuzz_registry::script),
    };
    fuzz.run(|input| runtime.block_on(fuzz_registry::pull(&known, input)));
}

/// Pieces of answers.
const REGISTRY_WORDS: [&str; 16] = [
    "\r\n",
    "\r\n\r\n",
    "\u{1e}",
    "HTTP/1.1 200 X\r\n",
    "HTTP/1.1 401 X\r\n",
    "HTTP/1.1 307 X\r\n",
    "location: {other}/\r\n",
    "content-length: 7\r\n",
    "transfer-encoding: chunked\r\n",
    "www-authenticate: Bearer realm=\"{tokens}\"\r\n",
    "www-authenticate: Basic\r\n",
    "{\"token\":\"the-ticket\"}",
    "{manifest}",
    "{layer}",
    "18446744073709551616",
    "sha256:",
];
