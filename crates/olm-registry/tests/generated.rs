//! The files in `src/generated` match `proto/registry.proto`.
//!
//! `OLM_UPDATE=1 cargo test -p olm-registry --test generated` regenerates it. No `protoc` is needed.

use std::fs;
use std::path::{Path, PathBuf};

use tonic_prost_build::Builder;

fn generate(builder: Builder, out: &Path) {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let descriptors = protox::compile(["registry.proto"], [&proto]).expect("the contract compiles");
    fs::create_dir_all(out).expect("folder");
    builder
        .out_dir(out)
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)
        .expect("code");
}

/// Returns the names of the files in `src/generated`, with their content.
fn generated() -> Vec<(&'static str, Vec<u8>)> {
    let dir = tempfile::tempdir().expect("folder");
    let messages = dir.path().join("messages");
    // Messages that decode into much memory are refused.
    generate(
        tonic_prost_build::configure()
            .build_server(false)
            .codec_path("crate::receive::BoundedCodec"),
        &messages,
    );
    // The server sends bundles and custom blobs as stored bytes.
    let server = dir.path().join("server");
    generate(
        tonic_prost_build::configure()
            .build_client(false)
            .extern_path(".api", "crate::proto")
            .extern_path(".api.Bundle", "crate::frame::Frame")
            .extern_path(".google.protobuf.Struct", "crate::frame::Frame")
            .codec_path("crate::codec::ResponseCodec"),
        &server,
    );
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let mut compiler = protox::Compiler::new([&proto]).expect("folder");
    compiler.include_imports(true).include_source_info(false);
    compiler
        .open_file("registry.proto")
        .expect("the contract compiles");
    vec![
        (
            "messages.rs",
            fs::read(messages.join("api.rs")).expect("messages"),
        ),
        ("server.rs", fs::read(server.join("api.rs")).expect("server")),
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
