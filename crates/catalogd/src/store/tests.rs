//! Contents on disk: what is stored, what survives a restart, and what is removed.

use olm_oci::Digest;
use tempfile::TempDir;

use super::*;

const CATALOG: &str = r#"---
schema: olm.package
name: foo
defaultChannel: beta
---
schema: olm.channel
package: foo
name: beta
entries: [{name: foo.v1, skips: []}]
---
schema: custom
package: foo
weight: 1.0
html: "<b>"
"#;

const LINES: &str = "{\"defaultChannel\":\"beta\",\"name\":\"foo\",\"schema\":\"olm.package\"}\n\
    {\"entries\":[{\"name\":\"foo.v1\",\"skips\":[]}],\"name\":\"beta\",\"package\":\"foo\",\"schema\":\"olm.channel\"}\n\
    {\"html\":\"<b>\",\"package\":\"foo\",\"schema\":\"custom\",\"weight\":1}\n";

fn catalog(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("foo")).unwrap();
    fs::write(folder.path().join("foo/catalog.yaml"), text).unwrap();
    folder
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn digest(number: u8) -> Digest {
    Digest::sha256(&[number])
}

fn put(store: &ContentStore, name: &str, number: u8, text: &str, second: i64) -> Arc<Content> {
    let source = catalog(text);
    let staged = store.stage(&digest(number), source.path(), at(second)).unwrap();
    store.install(name, staged).unwrap()
}

fn text(content: &Content, range: std::ops::Range<u64>) -> String {
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
    content.read(&mut bytes, range.start).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn whole(content: &Content) -> String {
    text(content, 0..content.about.size)
}

/// Returns the paths of all files and folders below the root.
fn files(root: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().display().to_string());
            if path.is_dir() {
                walk(root, &path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort();
    found
}

#[test]
fn a_catalog_is_stored_as_lines_of_json() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let content = put(&store, "a", 1, CATALOG, 7);
    assert_eq!(whole(&content), LINES);
    assert_eq!(content.about.stored, at(7));
    assert_eq!(content.digest, digest(1));
    let channel = Query {
        schema: "olm.channel".into(),
        ..Query::default()
    };
    let found = content.index.find(&channel);
    let lines: Vec<String> = found.into_iter().map(|range| text(&content, range)).collect();
    assert_eq!(lines, [LINES.lines().nth(1).unwrap().to_owned() + "\n"]);
    let folder = format!("a/{}", folder_name(&digest(1)));
    let expected = [ABOUT, DOCUMENTS, INDEX].map(|file| format!("{folder}/{file}"));
    let expected = [vec!["a".to_owned(), folder], expected.to_vec()].concat();
    let mut sorted = expected;
    sorted.sort();
    assert_eq!(files(root.path()), sorted);
}

/// The lists that a user wrote are not checked: upstream accepts every document with a schema.
#[test]
fn documents_without_a_schema_are_refused_and_others_are_not() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let staged = |text: &str| {
        let source = catalog(text);
        store.stage(&digest(1), source.path(), at(1))
    };
    for text in [
        "schema: olm.channel\nentries: [{name: missing}]\n",
        "schema: olm.bundle\nname: x\nproperties: nothing\n",
    ] {
        assert!(staged(text).is_ok(), "{text}");
    }
    for (text, expected) in [
        (
            "name: x\n",
            "error walking FBC root: foo/catalog.yaml, document 1: object '{\"name\":\"x\"}' is missing root schema field",
        ),
        (
            "schema: a\n---\n[]\n",
            "error walking FBC root: foo/catalog.yaml, document 2: expected an object with a schema, found array",
        ),
    ] {
        let error = staged(text).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(files(root.path()), [""; 0], "nothing is left of either");
}

#[test]
fn a_newer_content_takes_the_place_of_the_old_one_which_readers_keep() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let old = put(&store, "a", 1, CATALOG, 1);
    let new = put(&store, "a", 2, "schema: other\n", 2);
    assert_eq!(whole(&new), "{\"schema\":\"other\"}\n");
    assert_eq!(whole(&old), LINES);
    assert_eq!(store.get("a").unwrap().digest, digest(2));
    let left = files(root.path());
    assert!(
        left.iter().all(|path| !path.contains(&folder_name(&digest(1)))),
        "{left:?}"
    );
    // Going back to an image stores it again, with another time.
    let back = put(&store, "a", 1, CATALOG, 3);
    assert_eq!((back.about.stored, &back.digest), (at(3), &digest(1)));
}

#[test]
fn the_same_image_is_not_stored_again() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let first = put(&store, "a", 1, CATALOG, 1);
    let again = put(&store, "a", 1, CATALOG, 9);
    assert_eq!(again.about.stored, first.about.stored);
    assert_eq!(whole(&again), LINES);
}

#[test]
fn contents_survive_a_restart_and_remains_do_not() {
    let root = tempfile::tempdir().unwrap();
    {
        let store = ContentStore::open(root.path()).unwrap();
        put(&store, "a", 1, CATALOG, 1);
        put(&store, "b.c", 2, CATALOG, 2);
        let source = catalog(CATALOG);
        // A process that is killed drops nothing.
        std::mem::forget(store.stage(&digest(3), source.path(), at(3)).unwrap());
    }
    let copy = |number: u8, to: u8, change: fn(&mut About)| {
        let folder = root.path().join("a");
        let (from, to) = (folder_name(&digest(number)), folder_name(&digest(to)));
        let (from, to) = (folder.join(from), folder.join(to));
        fs::create_dir(&to).unwrap();
        for file in [DOCUMENTS, INDEX] {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
        let mut about: About = serde_json::from_slice(&fs::read(from.join(ABOUT)).unwrap()).unwrap();
        change(&mut about);
        fs::write(to.join(ABOUT), serde_json::to_vec(&about).unwrap()).unwrap();
    };
    // Of two complete contents the last is right: the process was killed before it removed the other.
    copy(1, 4, |about| {
        about.stored = at(4);
        about.digest = digest(4).to_string();
    });
    copy(1, 5, |about| (about.stored, about.size) = (at(5), 1));
    copy(1, 6, |about| (about.stored, about.format) = (at(6), FORMAT + 1));
    fs::create_dir(root.path().join("a/empty")).unwrap();
    fs::create_dir(root.path().join("nothing")).unwrap();
    fs::create_dir(root.path().join("lost+found")).unwrap();

    let store = ContentStore::open(root.path()).unwrap();
    assert_eq!(store.names(), ["a", "b.c"]);
    let content = store.get("a").unwrap();
    assert_eq!((&content.digest, content.about.stored), (&digest(4), at(4)));
    assert_eq!(whole(&content), LINES);
    let kept = files(root.path());
    let kept: Vec<&str> = kept
        .iter()
        .map(String::as_str)
        .filter(|path| !path.contains("json"))
        .collect();
    let (a, b) = (folder_name(&digest(4)), folder_name(&digest(2)));
    assert_eq!(
        kept,
        ["a", &format!("a/{a}"), "b.c", &format!("b.c/{b}"), "lost+found"]
    );
}

#[test]
fn a_removed_catalog_leaves_nothing_and_its_readers_finish() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let content = put(&store, "a", 1, CATALOG, 1);
    store.remove("a").unwrap();
    store.remove("never").unwrap();
    assert!(store.get("a").is_none());
    assert_eq!(files(root.path()), [""; 0]);
    assert_eq!(whole(&content), LINES);
    assert_eq!(put(&store, "a", 1, CATALOG, 2).about.stored, at(2));
}

#[test]
fn names_that_are_paths_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(&root.path().join("store")).unwrap();
    for name in ["..", "", "a/b", ".staging-x", "A"] {
        let source = catalog(CATALOG);
        let staged = store.stage(&digest(1), source.path(), at(1)).unwrap();
        assert!(store.install(name, staged).is_err(), "{name}");
        store.remove(name).unwrap();
    }
    assert_eq!(files(root.path()), ["store"]);
}
