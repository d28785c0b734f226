//! Circles of modules inside a crate.
//!
//! Looked at level by level: the modules below one parent, each with all that is in it. Between parent and child there may be
//! references both ways, that is what a module's own children are for; between siblings they go one way only, so that one
//! can be read, tested and moved without the other. What a parent re-exports counts as what it is, not as the parent's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree};

/// A module: the names on the way to it from the crate's root, which is the empty one.
type Module = Vec<String>;

/// Modules below one parent that need each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Circle {
    /// Their names from the crate's root, in alphabetical order.
    pub(super) modules: BTreeSet<String>,
    /// For each reference between them one place: who, whom, and the path as it is written.
    references: Vec<(String, String, String)>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.modules.iter().map(String::as_str).collect();
        write!(f, "{}", names.join(", "))?;
        for (from, to, path) in &self.references {
            write!(f, "\n    {from} -> {to}: {path}")?;
        }
        Ok(())
    }
}

/// The circles of the crate whose sources are in `folder`, tests left out.
///
/// # Errors
/// When a file cannot be read or is not Rust.
pub(super) fn of_crate(folder: &Path) -> anyhow::Result<Vec<Circle>> {
    circles(&sources(folder)?)
}

/// The modules of the crate whose sources are in `folder`, parsed, those for tests left out.
///
/// # Errors
/// When a file cannot be read or is not Rust.
pub(super) fn parsed_modules(folder: &Path) -> anyhow::Result<BTreeMap<Vec<String>, syn::File>> {
    parse(&sources(folder)?)
}

/// What each module of the crate whose sources are in `folder` refers to: paths as they are written, tests left out.
///
/// # Errors
/// When a file cannot be read or is not Rust.
pub(super) fn paths(folder: &Path) -> anyhow::Result<BTreeMap<Vec<String>, Vec<Vec<String>>>> {
    let mut paths = BTreeMap::new();
    for (module, file) in parsed_modules(folder)? {
        let mut finder = Finder::default();
        finder.visit_file(&file);
        paths.insert(module, finder.paths);
    }
    Ok(paths)
}

fn sources(folder: &Path) -> anyhow::Result<BTreeMap<Module, String>> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    let mut sources = BTreeMap::new();
    for file in files {
        let Some(module) = module_of(folder, &file) else {
            continue;
        };
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        sources.insert(module, text);
    }
    Ok(sources)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Nothing for programs beside the crate's own.
fn module_of(folder: &Path, file: &Path) -> Option<Module> {
    let relative = file.strip_prefix(folder).ok()?.with_extension("");
    // A program beside a library is a crate of its own.
    if relative == Path::new("main") && folder.join("lib.rs").exists() {
        return None;
    }
    let mut names: Module = relative
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    if names.first().is_some_and(|name| name == "bin") {
        return None;
    }
    if names.last().is_some_and(|name| name == "mod") || names == ["lib"] || names == ["main"] {
        names.pop();
    }
    Some(names)
}

fn parse(sources: &BTreeMap<Module, String>) -> anyhow::Result<BTreeMap<Module, syn::File>> {
    let mut parsed = BTreeMap::new();
    let mut of_tests: BTreeSet<Module> = BTreeSet::new();
    for (module, text) in sources {
        let file = syn::parse_file(text).map_err(|error| anyhow!("{}: {error}", module.join("::")))?;
        of_tests.extend(file.items.iter().filter_map(|item| match item {
            Item::Mod(item) if is_for_tests(&item.attrs) => {
                Some(module.iter().cloned().chain([item.ident.to_string()]).collect())
            }
            _ => None,
        }));
        parsed.insert(module.clone(), file);
    }
    parsed.retain(|module, _| {
        !(1..=module.len()).any(|length| module.get(..length).is_some_and(|start| of_tests.contains(start)))
    });
    Ok(parsed)
}

fn circles(sources: &BTreeMap<Module, String>) -> anyhow::Result<Vec<Circle>> {
    let parsed = parse(sources)?;
    let mut references = BTreeMap::new();
    let mut imports = BTreeMap::new();
    for (module, file) in &parsed {
        let mut finder = Finder::default();
        finder.visit_file(file);
        for (name, path) in finder.imported {
            if let Some(path) = absolute(module, &path) {
                imports.insert((module.clone(), name), path);
            }
        }
        let paths: BTreeSet<Vec<String>> = finder
            .paths
            .iter()
            .filter_map(|path| absolute(module, path))
            .collect();
        references.insert(module.clone(), paths);
    }

    let known: BTreeSet<&Module> = parsed.keys().collect();
    // Below each parent: from, to, and the path that says so.
    let mut levels: BTreeMap<Module, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (from, paths) in &references {
        for path in paths {
            let to = target(path, &known, &imports);
            let common = from
                .iter()
                .zip(&to)
                .take_while(|(one, other)| one == other)
                .count();
            let (Some(one), Some(other)) = (from.get(common), to.get(common)) else {
                continue;
            };
            let level = from.get(..common).unwrap_or_default().to_vec();
            levels
                .entry(level)
                .or_default()
                .entry((one.clone(), other.clone()))
                .or_insert_with(|| format!("{} in {}", path.join("::"), from.join("::")));
        }
    }
    let mut found = Vec::new();
    for (level, edges) in &levels {
        found.extend(strongly_connected(edges).into_iter().map(|names| {
            let full = |name: &str| {
                level
                    .iter()
                    .map(String::as_str)
                    .chain([name])
                    .collect::<Vec<_>>()
                    .join("::")
            };
            Circle {
                references: edges
                    .iter()
                    .filter(|((from, to), _)| names.contains(from) && names.contains(to))
                    .map(|((from, to), path)| (full(from), full(to), path.clone()))
                    .collect(),
                modules: names.iter().map(|name| full(name)).collect(),
            }
        }));
    }
    found.sort();
    Ok(found)
}

/// The module that `path` is in, followed through what modules import for others.
fn target(
    path: &[String],
    known: &BTreeSet<&Module>,
    imports: &BTreeMap<(Module, String), Vec<String>>,
) -> Module {
    let mut path = path.to_vec();
    // Each step follows one import; a name that is imported in a circle compiles nowhere.
    for _ in 0..8 {
        let length = (0..=path.len())
            .rev()
            .find(|length| {
                path.get(..*length)
                    .is_some_and(|start| known.contains(&start.to_vec()))
            })
            .unwrap_or_default();
        let (module, rest) = path.split_at(length);
        let imported = rest
            .split_first()
            .and_then(|(name, rest)| Some((imports.get(&(module.to_vec(), name.clone()))?, rest)));
        let Some((start, rest)) = imported else {
            return module.to_vec();
        };
        path = start.iter().chain(rest).cloned().collect();
    }
    path
}

/// The path from the crate's root, if it begins within the crate.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let first = path.first()?;
    let above = path.iter().take_while(|name| *name == "super").count();
    let start = match first.as_str() {
        "crate" => return Some(path.iter().skip(1).cloned().collect()),
        "self" => return Some(module.iter().chain(path.iter().skip(1)).cloned().collect()),
        _ if above > 0 => module.get(..module.len().checked_sub(above)?)?,
        _ => return None,
    };
    Some(start.iter().chain(path.iter().skip(above)).cloned().collect())
}

pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

/// Collects what a file refers to.
#[derive(Default)]
struct Finder {
    /// Paths as they are written, those of inline modules as if they stood outside of them.
    paths: Vec<Vec<String>>,
    /// What `use` brings in: its name here, and where it is from.
    imported: Vec<(String, Vec<String>)>,
    depth: usize,
}

impl Finder {
    /// Without the `super`s that only lead out of inline modules.
    fn outside(&self, path: Vec<String>) -> Vec<String> {
        let above = path.iter().take_while(|name| *name == "super").count();
        let inner = above.min(self.depth);
        if inner > 0 && above == inner {
            return ["self".to_owned()]
                .into_iter()
                .chain(path.into_iter().skip(inner))
                .collect();
        }
        path.into_iter().skip(inner).collect()
    }

    fn take(&mut self, start: &[String], tree: &UseTree) {
        let with = |name: &dyn ToString| -> Vec<String> {
            start.iter().cloned().chain([name.to_string()]).collect()
        };
        let (name, path) = match tree {
            UseTree::Path(tree) => return self.take(&with(&tree.ident), &tree.tree),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.take(start, tree);
                }
                return;
            }
            UseTree::Name(name) if name.ident == "self" => (start.last().cloned(), start.to_vec()),
            UseTree::Name(name) => (Some(name.ident.to_string()), with(&name.ident)),
            UseTree::Rename(name) => (Some(name.rename.to_string()), with(&name.ident)),
            UseTree::Glob(_) => (None, start.to_vec()),
        };
        let path = self.outside(path);
        // A module that imports from its own child begins with the child's name.
        let path = match path.first().map(String::as_str) {
            Some("crate" | "self" | "super") | None => path,
            Some(_) => ["self".to_owned()].into_iter().chain(path).collect(),
        };
        if let Some(name) = name.filter(|_| self.depth == 0) {
            self.imported.push((name, path.clone()));
        }
        self.paths.push(path);
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.depth += 1;
        visit::visit_item_mod(self, item);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.take(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if path.leading_colon.is_none() {
            let names = self.outside(names);
            self.paths.push(names);
        }
        visit::visit_path(self, path);
    }

    // `pub(in crate::a)` says who may see something, not what it needs.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// Sets of more than one name that all reach each other.
fn strongly_connected(edges: &BTreeMap<(String, String), String>) -> Vec<BTreeSet<String>> {
    let names: BTreeSet<&String> = edges.keys().flat_map(|(from, to)| [from, to]).collect();
    let reached: BTreeMap<&String, BTreeSet<&String>> = names
        .iter()
        .map(|name| {
            let mut seen = BTreeSet::new();
            let mut open = vec![*name];
            while let Some(next) = open.pop() {
                for (_, to) in edges.keys().filter(|(from, _)| from == next) {
                    if seen.insert(to) {
                        open.push(to);
                    }
                }
            }
            (*name, seen)
        })
        .collect();
    let reaches = |from: &String, to: &String| reached.get(from).is_some_and(|seen| seen.contains(to));
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for name in &names {
        if found.iter().any(|set| set.contains(*name)) {
            continue;
        }
        let set: BTreeSet<String> = names
            .iter()
            .filter(|other| **other == *name || (reaches(name, other) && reaches(other, name)))
            .map(|other| (*other).clone())
            .collect();
        if set.len() > 1 {
            found.push(set);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let sources = sources
            .iter()
            .map(|(module, text)| {
                let names = module.split("::").filter(|name| !name.is_empty());
                (names.map(str::to_owned).collect(), (*text).to_owned())
            })
            .collect();
        circles(&sources)
            .unwrap()
            .into_iter()
            .map(|circle| circle.modules.into_iter().collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn siblings_that_need_each_other_are_a_circle() {
        let root = ("", "mod a; mod b; mod c;");
        assert_eq!(
            found(&[
                root,
                ("a", "use crate::b::B;"),
                ("b", "fn f() { crate::a::g() }"),
                ("c", "use crate::a;")
            ]),
            ["a b"]
        );
        assert_eq!(
            found(&[
                root,
                ("a", "use super::b::{self, B};"),
                ("b", "type T = super::c::C;"),
                ("c", "use crate::a::inner::X;"),
                ("a::inner", "")
            ]),
            ["a b c"]
        );
        assert!(
            found(&[
                root,
                ("a", "use crate::b::B;"),
                ("b", ""),
                ("c", "use crate::{a, b};")
            ])
            .is_empty()
        );
    }

    #[test]
    fn parents_and_children_are_none() {
        assert!(
            found(&[
                ("", "mod a; use a::A;"),
                ("a", "mod b; use b::B; use crate::R;"),
                ("a::b", "use super::A;")
            ])
            .is_empty()
        );
    }

    #[test]
    fn what_a_parent_hands_on_is_where_it_is_written() {
        assert_eq!(
            found(&[
                (
                    "a",
                    "mod b; mod c; pub(crate) use b::B; pub(crate) use self::c::C as Other;"
                ),
                ("a::b", "use super::Other;"),
                ("a::c", "use crate::a::B;")
            ]),
            ["a::b a::c"]
        );
    }

    #[test]
    fn tests_may_use_what_they_like() {
        assert!(
            found(&[
                ("", "mod a; mod b; #[cfg(test)] mod world;"),
                (
                    "a",
                    "use crate::b::B; #[cfg(test)] mod tests { use super::*; use crate::world::W; }"
                ),
                ("b", "#[cfg(test)] mod tests;"),
                ("b::tests", "use crate::a::A;"),
                ("world", "use crate::{a, b};")
            ])
            .is_empty()
        );
        assert_eq!(
            found(&[
                ("a", "mod inner { use super::super::b::B; }"),
                ("b", "mod inner { use crate::a::A; }")
            ]),
            ["a b"]
        );
    }

    #[test]
    fn paths_of_other_crates_are_none_of_ours() {
        assert!(found(&[("a", "use b::B; use ::a::X;"), ("b", "use crate::a::A;")]).is_empty());
    }
}
