use super::*;

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("folder");
    for (path, content) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        fs::write(path, content).expect("file");
    }
    dir
}

fn listed(files_in: &[(&str, &str)]) -> Vec<String> {
    let dir = tree(files_in);
    files(dir.path())
        .expect("files")
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}

#[test]
fn files_are_found_in_lexical_order() {
    assert_eq!(
        listed(&[
            ("b.yaml", ""),
            ("a/z.json", ""),
            ("a.txt", ""),
            ("..data/x", ""),
            ("a/b/c", "")
        ]),
        ["a/b/c", "a/z.json", "a.txt", "b.yaml"]
    );
}

#[test]
fn ignore_files_rule_out() {
    let all = [
        ("a.yaml", ""),
        ("b.json", ""),
        ("c.clusterserviceversion.yaml", ""),
        ("d/e.yaml", ""),
        ("d/f.txt", ""),
    ];
    for (pattern, expected) in [
        (
            "# nothing\n\n",
            "a.yaml b.json c.clusterserviceversion.yaml d/e.yaml d/f.txt",
        ),
        ("*\n!*.yaml\n*.clusterserviceversion.yaml", "a.yaml d/e.yaml"),
        ("*.json\n  d/  ", "a.yaml c.clusterserviceversion.yaml"),
        (
            "d\n!d/e.yaml",
            "a.yaml b.json c.clusterserviceversion.yaml d/e.yaml",
        ),
        (
            "/a.yaml\n/e.yaml",
            "b.json c.clusterserviceversion.yaml d/e.yaml d/f.txt",
        ),
        ("**/e.yaml\n[bc]*", "a.yaml d/f.txt"),
        ("?.yaml", "b.json c.clusterserviceversion.yaml d/f.txt"),
        ("[!a].yaml", "a.yaml b.json c.clusterserviceversion.yaml d/f.txt"),
        // The later pattern decides, even if it names the folder and the earlier one the file itself.
        ("!e.yaml\nd/", "a.yaml b.json c.clusterserviceversion.yaml"),
        ("!d/e.yaml\nd", "a.yaml b.json c.clusterserviceversion.yaml"),
    ] {
        let mut files = all.to_vec();
        files.push((IGNORE_FILE, pattern));
        assert_eq!(listed(&files).join(" "), expected, "{pattern:?}");
    }
    assert_eq!(
        listed(&[("d/.indexignore", "x"), ("x", ""), ("d/x", ""), ("d/y", "")]),
        ["d/y", "x"]
    );
}

#[test]
fn blobs_come_with_their_place() {
    let dir = tree(&[
        (
            "a.yaml",
            "---\nschema: olm.package\nname: p\n---\nschema: custom\npackage: p\n",
        ),
        (
            "b.json",
            "{\"schema\": \"olm.channel\", \"name\": \"c\", \"package\": \"p\"}",
        ),
    ]);
    let mut seen = Vec::new();
    read(dir.path(), |blob, origin| -> Result<(), LoadError> {
        seen.push(format!("{} at {origin}", blob?.schema()));
        Ok(())
    })
    .expect("catalog");
    assert_eq!(
        seen,
        [
            "olm.package at a.yaml, document 1",
            "custom at a.yaml, document 2",
            "olm.channel at b.json, document 1"
        ]
    );
    assert_eq!(load(dir.path()).expect("catalog").len(), 3);
}

#[test]
fn every_broken_file_is_reported() {
    let dir = tree(&[
        ("a.yaml", "schema: olm.package\nname: p\n---\nname: [x\n"),
        ("b.json", "{\"name\": \"x\"}"),
        ("c.yaml", "# nothing\n"),
        ("d.json", "[1]"),
        ("e.yaml", "schema: olm.package\nname: q\n"),
    ]);
    let mut good = 0;
    let mut errors = Vec::new();
    read(dir.path(), |blob, _| -> Result<(), LoadError> {
        match blob {
            Ok(_) => good += 1,
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                errors.push(format!("{error}: {}", source.unwrap_or_default()));
            }
        }
        Ok(())
    })
    .expect("directory");
    assert_eq!(good, 2);
    insta::assert_snapshot!(errors.join("\n"), @r#"
    a.yaml, document 2: invalid YAML: line 4: unclosed bracket '['
    b.json, document 1: object '{"name":"x"}' is missing root schema field
    c.yaml, document 1: object '' is missing root schema field
    d.json, document 1: expected an object with a schema, found array
    "#);
    assert!(load(dir.path()).is_err());
    assert!(matches!(
        files(&dir.path().join("b.json")),
        Err(LoadError::NotADirectory { .. })
    ));
}

#[cfg(unix)]
/// The error names the user and the fix, because the user of a pod is not the author of the image.
#[test]
fn an_unreadable_folder_is_reported_with_the_user_and_the_way_out() {
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    let error = read_error(Path::new("/configs"), Path::new(""), denied());
    assert_eq!(error.to_string(), "read /configs");
    let hint = error.hint().expect("hint");
    assert!(
        hint.starts_with("user ") && hint.contains(" cannot read it; "),
        "{hint}"
    );
    assert!(
        hint.ends_with("in an image with \"chmod -R a+rX /configs\""),
        "{hint}"
    );
    let error = read_error(Path::new("/configs"), Path::new("a.yaml"), denied());
    assert_eq!(error.to_string(), "read /configs/a.yaml");
    let other = read_error(
        Path::new("/configs"),
        Path::new(""),
        io::ErrorKind::NotFound.into(),
    );
    assert_eq!(other.hint(), None);
}

/// Upstream's stream decoder terminates every line.
#[test]
fn a_block_scalar_at_the_end_of_a_file_keeps_its_line_break() {
    let dir = tempfile::tempdir().expect("folder");
    for (text, expected) in [
        ("schema: x\na: |\n  text", "text\n"),
        ("schema: x\na: |\n  text\n", "text\n"),
        ("schema: x\na: |-\n  text", "text"),
        ("schema: x\na: text", "text"),
        ("schema: x\na: |\n  text\n---\nschema: z\n", "text\n"),
    ] {
        fs::write(dir.path().join("a.yaml"), text).expect("file");
        let blobs = load(dir.path()).expect("catalog");
        assert_eq!(blobs[0].to_value()["a"], expected, "{text}");
        let (value, _) = yaml::parse_first(text.as_bytes()).expect("manifest");
        assert_eq!(value["a"], expected, "{text}");
    }
}

/// YAML may read an unquoted name as a number, which prints differently.
#[test]
fn a_name_without_quotes_is_shown_as_it_is_written() {
    let dir = tempfile::tempdir().expect("folder");
    for (text, expected) in [
        (
            "schema: olm.package\nname: p\ndefaultChannel: 4.20\n",
            "put quotes around 4.20: defaultChannel: \"4.20\"",
        ),
        (
            "schema: olm.channel\npackage: p\nname: 4.20 # next\n",
            "put quotes around 4.20: name: \"4.20\"",
        ),
        (
            "schema: olm.channel\npackage: 010\nname: a\n",
            "put quotes around 010: package: \"010\"",
        ),
        (
            "{schema: olm.channel, package: p, name: yes}\n",
            "put quotes around yes: name: \"yes\"",
        ),
        (
            "schema: olm.channel\npackage: p\nname: a\nentries:\n- name: 1.10\n  replaces: x\n",
            "put quotes around 1.10: name: \"1.10\"",
        ),
        (
            "{\"schema\": \"olm.package\", \"name\": 4.20}",
            "put quotes around 4.20: name: \"4.20\"",
        ),
        (
            "schema: olm.channel\npackage: p\nname: a\nentries:\n- {name: a, skips: [1.10]}\n",
            "put quotes around 1.1: skips[0]: \"1.1\"",
        ),
    ] {
        fs::write(dir.path().join("a.yaml"), text).expect("file");
        let error = load(dir.path()).expect_err(text);
        assert_eq!(error.hint().as_deref(), Some(expected), "{error}");
    }
}

#[test]
fn links_to_files_are_followed_and_links_to_folders_refused() {
    let dir = tree(&[("..data/a.yaml", "schema: custom\n")]);
    std::os::unix::fs::symlink("..data/a.yaml", dir.path().join("a.yaml")).expect("link");
    assert_eq!(load(dir.path()).expect("catalog").len(), 1);
    std::os::unix::fs::symlink(".", dir.path().join("loop")).expect("link");
    assert_eq!(
        load(dir.path()).expect_err("link").to_string(),
        "loop is a symbolic link to a directory"
    );
}
