//! The sources of a release, taken out of git: nothing that lies in the checkout beside them, and nothing that changes there meanwhile,
//! gets into a release.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Largest file of the sources, in bytes, and how many there may be.
const MAX_FILE: u64 = 64 << 20;
const MAX_FILES: usize = 100_000;
/// By these git would look at another repository than that of the folder.
const ELSEWHERE: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
];

/// Git in the checkout at `root`; a commit is what its name says, whatever stands in for it on this machine (`git replace`).
pub(super) fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .arg("--no-replace-objects")
        .arg("-C")
        .arg(root)
        .stdin(Stdio::null());
    for name in ELSEWHERE {
        command.env_remove(name);
    }
    command
}

/// Writes the files of `commit` to the folder `to`, byte by byte as they were committed: no attribute and no filter of this machine
/// changes them.
///
/// # Errors
/// When git does not know the commit, or it has what is no file or link (a submodule).
pub(super) fn of_commit(root: &Path, commit: &str, to: &Path) -> anyhow::Result<()> {
    let mut list = git(root);
    list.args(["ls-tree", "-r", "-z", "--full-tree", commit]);
    let entries = entries(&bytes(list, "git ls-tree")?)?;
    // What is asked for is a file, as a pipe could fill up in both directions.
    let mut wanted = tempfile::tempfile().context("cannot make a file")?;
    for entry in &entries {
        writeln!(wanted, "{}", entry.object)?;
    }
    wanted.seek(SeekFrom::Start(0))?;
    let mut child = git(root)
        .args(["cat-file", "--batch"])
        .stdin(wanted)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run `git cat-file`")?;
    let mut answers = BufReader::new(child.stdout.take().context("git's output was not captured")?);
    for entry in &entries {
        let content = content(&mut answers, entry)?;
        entry.write(&content, to)?;
    }
    if !child.wait().context("lost `git cat-file`")?.success() {
        bail!("`git cat-file` failed");
    }
    Ok(())
}

/// Copies the files that git knows, as they are in the checkout: changed ones too, new ones only when they were added.
///
/// # Errors
/// When a file cannot be copied.
pub(super) fn of_checkout(root: &Path, to: &Path) -> anyhow::Result<()> {
    let mut list = git(root);
    list.args(["ls-files", "-z", "--cached"]);
    let listed = bytes(list, "git ls-files")?;
    for name in listed.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let name = std::str::from_utf8(name).context("a file name is no text")?;
        let source = root.join(name);
        // What was deleted and not committed is still listed.
        if !source.is_file() {
            continue;
        }
        let target = below(to, name)?;
        fs::copy(&source, &target).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    Ok(())
}

/// A file of a commit.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    kind: Kind,
    object: String,
    path: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    File { is_program: bool },
    Link,
}

impl Entry {
    fn write(&self, content: &[u8], to: &Path) -> anyhow::Result<()> {
        let target = below(to, &self.path)?;
        let written = match self.kind {
            Kind::Link => {
                let leads = std::str::from_utf8(content).context("a link leads to what is no text")?;
                symlink(leads, &target)
            }
            Kind::File { is_program } => fs::write(&target, content).and_then(|()| {
                let mode = if is_program { 0o755 } else { 0o644 };
                fs::set_permissions(&target, fs::Permissions::from_mode(mode))
            }),
        };
        written.with_context(|| format!("cannot write {}", target.display()))
    }
}

/// A file's place below a folder, which then has the folders it needs.
fn below(folder: &Path, path: &str) -> anyhow::Result<PathBuf> {
    if path
        .split('/')
        .any(|part| matches!(part, "" | "." | ".." | ".git"))
    {
        bail!("{path:?} is no path of a source");
    }
    let target = folder.join(path);
    let parent = target.parent().unwrap_or(folder);
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    Ok(target)
}

/// Reads `MODE KIND OBJECT<tab>PATH`, each ended by a zero.
fn entries(listed: &[u8]) -> anyhow::Result<Vec<Entry>> {
    let listed = std::str::from_utf8(listed).context("a file name of the commit is no text")?;
    let mut found = Vec::new();
    for line in listed.split('\0').filter(|line| !line.is_empty()) {
        let (about, path) = line
            .split_once('\t')
            .with_context(|| format!("`git ls-tree` said {line:?}"))?;
        let kind = match about.split(' ').next() {
            Some("100644") => Kind::File { is_program: false },
            Some("100755") => Kind::File { is_program: true },
            Some("120000") => Kind::Link,
            _ => bail!("{path} is a submodule or the like, which a release cannot be made of"),
        };
        let object = about.rsplit(' ').next().unwrap_or_default().to_owned();
        found.push(Entry {
            kind,
            object,
            path: path.to_owned(),
        });
        if found.len() > MAX_FILES {
            bail!("the commit has more than {MAX_FILES} files");
        }
    }
    Ok(found)
}

/// The next answer: `OBJECT blob SIZE`, the content, a new line.
fn content(answers: &mut impl std::io::BufRead, entry: &Entry) -> anyhow::Result<Vec<u8>> {
    let mut head = String::new();
    answers
        .take(256)
        .read_line(&mut head)
        .context("git's answer broke off")?;
    let size = head
        .trim_end()
        .strip_prefix(&format!("{} blob ", entry.object))
        .and_then(|size| size.parse::<u64>().ok())
        .with_context(|| format!("git has no content of {}: {head:?}", entry.path))?;
    if size > MAX_FILE {
        bail!("{} has {size} bytes; a source has {MAX_FILE} at most", entry.path);
    }
    let mut content = Vec::new();
    let read = answers.take(size + 1).read_to_end(&mut content)?;
    if read as u64 != size + 1 || content.pop() != Some(b'\n') {
        bail!("git's answer broke off in {}", entry.path);
    }
    Ok(content)
}

fn bytes(mut command: Command, shown: &str) -> anyhow::Result<Vec<u8>> {
    let output = command
        .output()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!(
            "`{shown}` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Runs git in a folder as somebody.
    pub(in crate::release) fn run(folder: &Path, arguments: &[&str]) -> String {
        let output = git(folder)
            .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
            .args(arguments)
            .env("GIT_COMMITTER_DATE", "1700000000 +0100")
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A checkout with a commit of `src/a.rs`, a program, a link and an empty file.
    fn checkout() -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        run(root, &["init", "--quiet"]);
        fs::create_dir(root.join("src")).unwrap();
        for (name, text) in [
            ("src/a.rs", "one\r\n$Id$\0\n"),
            ("configure", "#!/bin/sh"),
            ("empty", ""),
        ] {
            fs::write(root.join(name), text).unwrap();
        }
        fs::set_permissions(root.join("configure"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink("src/a.rs", root.join("link")).unwrap();
        run(root, &["add", "."]);
        run(root, &["commit", "--quiet", "-m", "one"]);
        let commit = run(root, &["rev-parse", "HEAD"]);
        (folder, commit)
    }

    #[test]
    fn the_sources_are_those_of_the_commit_whatever_lies_in_the_checkout() {
        let (folder, commit) = checkout();
        let root = folder.path();
        fs::write(root.join("src/a.rs"), "edited").unwrap();
        fs::write(root.join("src/a.rs~"), "backup").unwrap();
        fs::write(
            root.join(".git/info/attributes"),
            "* ident eol=crlf export-ignore\n",
        )
        .unwrap();
        run(root, &["add", "."]);
        run(root, &["commit", "--quiet", "-m", "two"]);
        let later = run(root, &["rev-parse", "HEAD"]);
        run(root, &["replace", &commit, &later]);
        let to = folder.path().join("to");
        of_commit(root, &commit, &to).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(fs::read(to.join("src/a.rs")).unwrap(), b"one\r\n$Id$\0\n");
        assert_eq!(fs::read(to.join("empty")).unwrap(), b"");
        assert!(!to.join("src/a.rs~").exists() && !to.join(".git").exists());
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("src/a.rs"));
        let mode = |name: &str| fs::metadata(to.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("configure"), mode("src/a.rs")), (0o755, 0o644));
        assert!(of_commit(root, "0000000", &to).is_err());
    }

    #[test]
    fn a_changed_checkout_gives_what_git_knows() {
        let (folder, _) = checkout();
        let root = folder.path();
        fs::write(root.join("src/a.rs"), "edited").unwrap();
        fs::write(root.join("src/.a.rs.swp"), "backup").unwrap();
        fs::remove_file(root.join("empty")).unwrap();
        fs::write(root.join("added"), "new").unwrap();
        run(root, &["add", "added"]);
        let to = folder.path().join("to");
        of_checkout(root, &to).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(fs::read_to_string(to.join("src/a.rs")).unwrap(), "edited");
        assert!(to.join("added").is_file());
        assert!(!to.join("src/.a.rs.swp").exists() && !to.join("empty").exists());
    }

    #[test]
    fn what_is_no_source_is_refused() {
        let error = entries(b"160000 commit 0123\tlibrary\0").unwrap_err().to_string();
        assert!(error.starts_with("library is a submodule"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        for path in ["../x", "a/../x", "/x", "a//x", ".git/config", ""] {
            assert!(below(folder.path(), path).is_err(), "{path}");
        }
        let entry = Entry {
            kind: Kind::Link,
            object: "0123".into(),
            path: "a".into(),
        };
        let read = |answer: &str| content(&mut answer.as_bytes(), &entry).map_err(|error| error.to_string());
        assert_eq!(read("0123 blob 2\nab\n").unwrap(), b"ab");
        assert!(read("0123 missing\n").unwrap_err().contains("no content of a"));
        assert!(read("0123 blob 3\nab\n").unwrap_err().contains("broke off"));
        let error = read(&format!("0123 blob {}\n", MAX_FILE + 1)).unwrap_err();
        assert!(error.starts_with("a has 67108865 bytes"), "{error}");
    }
}
