//! The files in `src/generated` match `proto/registry.proto`.
//!
//! `OLM_UPDATE=1 cargo test -p olm-registry --test generated` regenerates it. No `protoc` is needed.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the names of the files in `src/generated`, with their content.
fn generated() -> Vec<(&'static str, Vec<u8>)> {
    let dir = tempfile::tempdir().expect("folder");
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let descriptors = protox::compile(["registry.proto"], [&proto]).expect("the contract compiles");
    let mut builder = tonic_prost_build::configure();
    // A bundle in upstream's cache is the message as JSON.
    for message in [
        "GroupVersionKind",
        "Dependency",
        "Property",
        "Bundle",
        "Deprecation",
    ] {
        let path = format!(".api.{message}");
        builder = builder
            .type_attribute(
                &path,
                "#[derive(serde::Serialize)]\n#[serde(rename_all = \"camelCase\")]",
            )
            .field_attribute(&path, "#[serde(skip_serializing_if = \"is_default\")]");
    }
    builder
        .build_client(false)
        .build_server(false)
        .out_dir(dir.path())
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)
        .expect("code");
    let mut compiler = protox::Compiler::new([&proto]).expect("folder");
    compiler.include_imports(true).include_source_info(false);
    compiler
        .open_file("registry.proto")
        .expect("the contract compiles");
    vec![
        (
            "messages.rs",
            fs::read(dir.path().join("api.rs")).expect("messages"),
        ),
        ("descriptors.bin", compiler.encode_file_descriptor_set()),
    ]
}

#[test]
fn generated_code_is_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    for (name, content) in generated() {
        let path: PathBuf = folder.join(name);
        if std::env::var_os("OLM_UPDATE").is_some() {
            fs::write(&path, &content).expect("write");
            continue;
        }
        assert!(
            fs::read(&path).is_ok_and(|committed| committed == content),
            "{} is stale: run OLM_UPDATE=1 cargo test -p olm-registry --test generated",
            path.display()
        );
    }
}
