use super::*;
use std::io::{Cursor, Write};

enum E<'a> {
    File(&'a str, &'a [u8]),
    Folder(&'a str),
    Symlink(&'a str, &'a str),
    Hardlink(&'a str, &'a str),
}
use E::{File, Folder, Hardlink, Symlink};

/// Writes names unchecked, as an attacker would.
fn archive(entries: &[E]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        let (path, kind, link, body): (&str, _, &str, &[u8]) = match entry {
            File(path, body) => (path, EntryType::Regular, "", body),
            Folder(path) => (path, EntryType::Directory, "", b""),
            Symlink(path, link) => (path, EntryType::Symlink, link, b""),
            Hardlink(path, link) => (path, EntryType::Link, link, b""),
        };
        let raw = header.as_old_mut();
        raw.name[..path.len()].copy_from_slice(path.as_bytes());
        raw.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_size(body.len() as u64);
        header.set_cksum();
        builder.append(&header, body).expect("entry");
    }
    builder.into_inner().expect("archive")
}

/// The result is the same wherever the files are kept.
fn flatten_with(limits: Limits, wanted: &[&str], layers: &[Vec<u8>]) -> Result<Vec<String>, LayerError> {
    let wanted: Vec<String> = wanted.iter().map(|path| (*path).to_owned()).collect();
    let folder = tempfile::tempdir().expect("folder");
    let on_disk = FileStore::on_disk(folder.path()).expect("file");
    let [memory, disk] = [FileStore::Memory, on_disk].map(|store| -> Result<Vec<String>, LayerError> {
        let mut flattened = Flattened::new(&wanted, limits).kept_in(store);
        for layer in layers {
            flattened.add_layer(Cursor::new(layer))?;
        }
        let files = flattened.into_files()?;
        Ok(files
            .iter()
            .map(|(path, body)| format!("{path}={}", String::from_utf8_lossy(body)))
            .collect())
    });
    assert_eq!(memory, disk);
    memory
}

fn flatten(wanted: &[&str], layers: &[&[E]]) -> Result<Vec<String>, LayerError> {
    let layers: Vec<_> = layers.iter().map(|layer| archive(layer)).collect();
    flatten_with(Limits::BUNDLE, wanted, &layers)
}

#[test]
fn only_wanted_files_are_kept_and_names_are_normalised() {
    let layer: &[E] = &[
        Folder("manifests/"),
        File("./manifests/a.yaml", b"1"),
        File("/manifests/sub/b.yaml", b"2"),
        File("manifests2/c.yaml", b"3"),
        File("bin/sh", b"4"),
    ];
    assert_eq!(
        flatten(&["/manifests/"], &[layer]).expect("files"),
        ["manifests/a.yaml=1", "manifests/sub/b.yaml=2"]
    );
    assert_eq!(flatten(&[""], &[layer]).expect("files").len(), 4);
    assert_eq!(flatten(&["bin/sh"], &[layer]).expect("files"), ["bin/sh=4"]);
}

#[test]
fn higher_layers_replace_and_remove() {
    let low: &[E] = &[
        File("m/a", b"1"),
        File("m/b", b"1"),
        File("m/d/x", b"1"),
        File("n/y", b"1"),
        File("m/f", b"1"),
    ];
    let high: &[E] = &[
        File("m/a", b"2"),
        File("m/.wh.b", b""),
        File("m/d", b"file now"),
        File("n/.wh..wh..opq", b""),
        File("n/z", b"2"),
        Folder("m/f"),
    ];
    assert_eq!(
        flatten(&["m", "n"], &[low, high]).expect("files"),
        ["m/a=2", "m/d=file now", "n/z=2"]
    );
    let gone: &[E] = &[File(".wh.m", b"")];
    assert_eq!(flatten(&["m", "n"], &[low, gone]).expect("files"), ["n/y=1"]);
}

#[test]
fn whiteouts_concern_only_the_layers_below() {
    let layer: &[E] = &[
        File("m/a", b"1"),
        File("m/.wh.a", b""),
        File("m/.wh..wh..opq", b""),
    ];
    assert_eq!(flatten(&["m"], &[layer]).expect("files"), ["m/a=1"]);
}

#[test]
fn links_among_the_files_are_followed() {
    let layer: &[E] = &[
        File("m/real", b"1"),
        Symlink("m/near", "real"),
        Symlink("m/up", "../m/near"),
        Symlink("m/absolute", "/m/real"),
        Hardlink("m/hard", "m/real"),
    ];
    assert_eq!(
        flatten(&["m"], &[layer]).expect("files"),
        ["m/absolute=1", "m/hard=1", "m/near=1", "m/real=1", "m/up=1"]
    );
}

#[test]
fn links_and_paths_that_lead_away_are_refused() {
    let cases: &[(&[E], &str)] = &[
        (
            &[File("../etc/passwd", b"x")],
            "path `../etc/passwd` points outside the image",
        ),
        (
            &[File("m/../../x", b"x")],
            "path `m/../../x` points outside the image",
        ),
        // The meaning depends on whether `x` is a folder or a link in a layer below.
        (
            &[File("m/x/../a", b"x")],
            "path `m/x/../a` points outside the image",
        ),
        (
            &[Symlink("m/a", "../../../etc/passwd")],
            "link `m/a` points to `../../../etc/passwd`, outside the image",
        ),
        (
            &[Symlink("m/a", "/etc/passwd")],
            "link `m/a` points to `etc/passwd`, which is not one of the extracted files",
        ),
        (
            &[Hardlink("m/a", "bin/sh")],
            "link `m/a` points to `bin/sh`, which is not one of the extracted files",
        ),
        (
            &[Symlink("m/a", "b"), Symlink("m/b", "a")],
            "link `m/a` is part of a loop",
        ),
        (
            &[Symlink("m", "other"), File("other/x", b"1")],
            "link `m` points to `other`, which is not one of the extracted files",
        ),
    ];
    for (layer, expected) in cases {
        let error = flatten(&["m"], &[layer]).expect_err(expected);
        assert_eq!(error, LayerError::Malformed((*expected).to_owned()));
    }
    let error = flatten(&["m/n"], &[&[Symlink("m", "o")]]).expect_err("parent is a link");
    assert_eq!(
        error.to_string(),
        "folder `m` is a link; links to folders are not supported"
    );
}

#[test]
fn links_one_after_the_other_have_a_bound() {
    let chain = |links: usize| {
        let names: Vec<String> = (0..=links).map(|at| format!("{at:04}")).collect();
        let paths: Vec<String> = names.iter().map(|name| format!("m/{name}")).collect();
        let mut entries = vec![File(&paths[links], b"1")];
        entries.extend((0..links).map(|at| Symlink(&paths[at], &names[at + 1])));
        flatten(&["m"], &[&entries])
    };
    assert_eq!(chain(LINKS).expect("files").len(), LINKS + 1);
    let error = chain(LINKS + 1).expect_err("too many");
    assert_eq!(error.to_string(), "link `m/0000` is part of a loop");
}

#[test]
fn sockets_and_devices_are_ignored_unless_wanted() {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(EntryType::Fifo);
    header.set_size(0);
    builder
        .append_data(&mut header, "m/pipe", &b""[..])
        .expect("entry");
    let layer = builder.into_inner().expect("archive");
    assert!(
        flatten_with(Limits::BUNDLE, &["n"], std::slice::from_ref(&layer))
            .expect("files")
            .is_empty()
    );
    let error = flatten_with(Limits::BUNDLE, &["m"], &[layer]).expect_err("fifo");
    assert_eq!(
        error.to_string(),
        "`m/pipe` is not a regular file, folder or link"
    );
}

/// A decoder takes as much memory as the window that a layer asks for: 128 MiB with `--long=27`.
#[test]
fn windows_of_zstd_are_bounded() {
    let with_window = |log| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("encoder");
        encoder.window_log(log).expect("window");
        // Without the size in the header, as for an archive that is piped through.
        encoder
            .write_all(&archive(&[File("m/a", b"content")]))
            .expect("compressed");
        encoder.finish().expect("compressed")
    };
    let read =
        |layer: Vec<u8>| Flattened::new(&["m".to_owned()], Limits::BUNDLE).add_layer(Cursor::new(layer));
    assert_eq!(read(with_window(ZSTD_WINDOW_LOG)), Ok(()));
    for log in [ZSTD_WINDOW_LOG + 1, 27] {
        let error = read(with_window(log)).expect_err("refused");
        assert_eq!(error.class(), PullErrorClass::TooLarge, "{error}");
        assert!(
            error.to_string().contains("zstd window exceeds 32 MiB"),
            "{error}"
        );
    }
}

#[test]
fn compression_is_recognised_by_content() {
    let plain = archive(&[File("m/a", b"1")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).expect("gzip");
    let zstd = zstd::encode_all(&plain[..], 1).expect("zstd");
    for layer in [plain, gzip.finish().expect("gzip"), zstd] {
        assert_eq!(
            flatten_with(Limits::BUNDLE, &["m"], &[layer]).expect("files"),
            ["m/a=1"]
        );
    }
    let error = flatten_with(Limits::BUNDLE, &["m"], &[b"no archive".repeat(100)]).expect_err("text");
    assert_eq!(error.class(), PullErrorClass::Malformed);
}

#[test]
fn bombs_hit_the_bounds() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0u8; 4 << 20];
    bomb.write_all(&archive(&[File("other/zeros", &zeros)]))
        .expect("gzip");
    let bomb = bomb.finish().expect("gzip");
    assert!(bomb.len() < 16 << 10, "a bomb of {} bytes is none", bomb.len());
    let limits = Limits {
        unpacked: 1 << 20,
        ..Limits::BUNDLE
    };
    let error = flatten_with(limits, &["m"], std::slice::from_ref(&bomb)).expect_err("bomb");
    assert_eq!(
        error,
        LayerError::TooLarge("unpacked layers are larger than the limit".into())
    );
    let limits = Limits {
        file: 1 << 20,
        ..Limits::BUNDLE
    };
    let error = flatten_with(limits, &["other"], std::slice::from_ref(&bomb)).expect_err("file");
    assert_eq!(
        error,
        LayerError::TooLarge("file `other/zeros` has 4194304 bytes, the limit is 1048576".into())
    );
    let limits = Limits {
        content: 1 << 20,
        ..Limits::BUNDLE
    };
    let error = flatten_with(limits, &["other"], &[bomb]).expect_err("content");
    assert_eq!(error.class(), PullErrorClass::TooLarge);
}

#[test]
fn links_count_as_the_copies_they_become() {
    let names: Vec<String> = (0..40).map(|number| format!("m/{number}")).collect();
    let body = vec![0_u8; 100];
    let mut entries = vec![File("m/a", &body)];
    entries.extend(names.iter().map(|name| Symlink(name, "a")));
    let layer = archive(&entries);
    let limits = |content| Limits {
        content,
        ..Limits::BUNDLE
    };
    assert!(flatten_with(limits(4000), &["m"], std::slice::from_ref(&layer)).is_ok());
    let error = flatten_with(limits(3999), &["m"], &[layer]).expect_err("too many");
    assert_eq!(
        error,
        LayerError::TooLarge("links refer to more than 3999 bytes of files".into())
    );
}

#[test]
fn bounds_count_over_all_layers() {
    let layer = archive(&[File("m/a", b"1"), File("m/b", b"1")]);
    let limits = Limits {
        entries: 3,
        ..Limits::BUNDLE
    };
    assert!(flatten_with(limits, &["m"], std::slice::from_ref(&layer)).is_ok());
    let error = flatten_with(limits, &["m"], &[layer.clone(), layer.clone()]).expect_err("entries");
    assert_eq!(error, LayerError::TooLarge("more than 3 entries".into()));
    let limits = Limits {
        unpacked: layer.len() as u64 + 10,
        ..Limits::BUNDLE
    };
    assert!(flatten_with(limits, &["m"], std::slice::from_ref(&layer)).is_ok());
    assert!(flatten_with(limits, &["m"], &[layer.clone(), layer]).is_err());
}

#[test]
fn an_endless_name_is_no_way_around_the_bounds() {
    let mut builder = tar::Builder::new(Vec::new());
    let name = vec![b'a'; 3 << 20];
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(name.len() as u64);
    builder
        .append_data(&mut header, "././@LongLink", &name[..])
        .expect("entry");
    let error = flatten_with(Limits::BUNDLE, &["m"], &[builder.into_inner().expect("archive")]);
    assert_eq!(
        error.expect_err("name"),
        LayerError::TooLarge("an entry's headers are larger than the limit".into())
    );
}

/// Each entry of a layer may name something to remove. Visiting all files for each of them took most of a
/// minute here.
#[test]
fn as_many_removals_as_files_take_no_longer_than_the_files() {
    let layer = |part: &str| {
        let mut builder = tar::Builder::new(Vec::new());
        for number in 0..9_900 {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            let path = format!("m/{}{part}{number}", format!("{}/", "d".repeat(199)).repeat(20));
            builder.append_data(&mut header, path, &b""[..]).expect("entry");
        }
        builder.into_inner().expect("archive")
    };
    let mut flattened = Flattened::new(&["m".to_owned()], Limits::BUNDLE);
    let mut time_of = |part: &str| {
        let layer = Cursor::new(layer(part));
        let started = std::time::Instant::now();
        flattened.add_layer(layer).expect("read");
        started.elapsed()
    };
    // Both have as many bytes, so that a busy machine slows both.
    let (files, removals) = (time_of(""), time_of(".wh."));
    assert!(removals < files * 10, "{removals:?} after {files:?}");
    assert!(flattened.into_files().expect("files").is_empty());
}

/// Names that sort between a folder and its files are not below it.
#[test]
fn names_that_begin_alike_are_not_removed_with_a_folder() {
    let low: &[E] = &[
        File("m/a", b"1"),
        File("m/a!/x", b"1"),
        File("m/a.d/x", b"1"),
        File("m/a/x", b"1"),
        File("m/a/y/z", b"1"),
        File("m/a0", b"1"),
    ];
    let kept = ["m/a!/x=1", "m/a.d/x=1", "m/a0=1"];
    assert_eq!(
        flatten(&["m"], &[low, &[File("m/.wh.a", b"")]]).expect("files"),
        kept
    );
    let opaque: &[E] = &[File("m/a/.wh..wh..opq", b"")];
    assert_eq!(
        flatten(&["m"], &[low, opaque]).expect("files"),
        ["m/a=1", "m/a!/x=1", "m/a.d/x=1", "m/a0=1"]
    );
    let all: &[E] = &[File(".wh..wh..opq", b"")];
    assert_eq!(flatten(&[""], &[low, all]).expect("files"), [""; 0]);
}

#[test]
fn truncated_archives_are_malformed() {
    let layer = archive(&[File("m/a", &[7u8; 4096])]);
    let error = flatten_with(Limits::BUNDLE, &["m"], &[layer[..2000].to_vec()]).expect_err("truncated");
    assert_eq!(
        error,
        LayerError::Malformed("file `m/a` is truncated: 1488 of 4096 bytes".into())
    );
}

#[test]
fn files_below_a_folder_are_written_with_links_as_copies() {
    let long = vec![b'x'; 200_000];
    let layers = [
        archive(&[
            File("configs/a/catalog.yaml", b"old"),
            File("configs/gone.yaml", b"1"),
            File("configs/b.yaml", &long),
            File("other", b"2"),
        ]),
        archive(&[
            File("configs/a/catalog.yaml", b"new"),
            File("configs/.wh.gone.yaml", b""),
            Symlink("configs/link.yaml", "a/catalog.yaml"),
        ]),
    ];
    for folder in ["/configs", "configs/", "./configs"] {
        let root = tempfile::tempdir().expect("folder");
        let store = FileStore::on_disk(root.path()).expect("file");
        let mut flattened = Flattened::new(&[folder.to_owned()], Limits::BUNDLE).kept_in(store);
        for layer in &layers {
            flattened.add_layer(Cursor::new(layer)).expect("layer");
        }
        let count = flattened.write_below(folder, root.path(), || true);
        assert_eq!(count.expect("written"), 3);
        let read = |name: &str| std::fs::read(root.path().join(name)).expect("file");
        assert_eq!(read("a/catalog.yaml"), b"new");
        assert_eq!(read("link.yaml"), b"new");
        assert_eq!(read("b.yaml"), long);
        let mut names: Vec<_> = std::fs::read_dir(root.path())
            .expect("folder")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["a", "b.yaml", "link.yaml"]);
    }
}

/// The caller of a pull that ends removes the folder, while a thread may write into it.
#[test]
fn files_that_nobody_waits_for_are_removed_with_their_folder() {
    let layer = archive(&[File("configs/a", b"1"), File("configs/b", b"2")]);
    for wanted in 0..3 {
        let root = tempfile::tempdir().expect("folder");
        let folder = root.path().join("destination");
        let mut flattened = Flattened::new(&["configs".to_owned()], Limits::BUNDLE);
        flattened.add_layer(Cursor::new(&layer)).expect("layer");
        let asked = std::cell::Cell::new(0);
        let is_wanted = || {
            asked.set(asked.get() + 1);
            asked.get() <= wanted
        };
        let count = flattened.write_below("configs", &folder, is_wanted);
        assert_eq!(count.expect("stopped"), wanted.min(2));
        assert!(!folder.exists(), "{wanted}");
    }
}
