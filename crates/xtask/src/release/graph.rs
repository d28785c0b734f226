//! What a program is made of: the packages that were compiled for it, and who needs whom.
//!
//! `cargo metadata` knows who needs whom, but for all features that anyone in the workspace asks for. The messages of the build
//! say which packages were compiled; together they are what is in a program.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use super::supply;

/// Packages that were compiled, by cargo's id of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Units {
    /// For the target: what is in programs.
    target: BTreeSet<String>,
    /// For this machine: procedural macros, build scripts and what they need.
    host: BTreeSet<String>,
}

impl Units {
    /// Takes in a line of cargo's messages of a build for `target`.
    pub(super) fn note(&mut self, line: &str, target: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let (Some(id), Some(file)) = (message["package_id"].as_str(), message["filenames"][0].as_str())
        else {
            return;
        };
        let is_for_target = file.split('/').any(|part| part == target);
        let units = if is_for_target {
            &mut self.target
        } else {
            &mut self.host
        };
        units.insert(id.to_owned());
    }
}

/// How a package got into what is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// Its code is in the program.
    Linked,
    /// It ran while the program was built: a build script, a procedural macro, or what these need.
    BuildOnly,
}

/// A package of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) name: String,
    pub(super) version: String,
    /// SPDX expression as its author wrote it.
    pub(super) licence: Option<String>,
    pub(super) repository: Option<String>,
    /// SHA-256 of its archive in the registry; none for packages of this workspace.
    pub(super) checksum: Option<String>,
    pub(super) scope: Scope,
    /// Whom its manifest names as authors.
    pub(super) authors: Vec<String>,
    /// The folder of its sources on this machine.
    pub(super) folder: PathBuf,
    /// What it needs among the components: names and versions.
    pub(super) needs: BTreeSet<(String, String)>,
}

impl Component {
    /// Whether it is a package of this workspace.
    pub(super) fn is_ours(&self) -> bool {
        self.checksum.is_none()
    }
}

/// The packages of the workspace and all they need.
#[derive(Debug)]
pub(super) struct Graph {
    packages: BTreeMap<String, Package>,
    needs: BTreeMap<String, Vec<Need>>,
    checksums: BTreeMap<(String, String), String>,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
    #[serde(default)]
    authors: Vec<String>,
    #[serde(default)]
    dependencies: Vec<Dependency>,
}

/// What a manifest asks for.
#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    #[serde(default)]
    optional: bool,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Need {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `build`, `dev`, or none for what is linked.
    kind: Option<String>,
}

impl Graph {
    /// Reads what `cargo metadata` printed for one target, and the text of `Cargo.lock`.
    ///
    /// # Errors
    /// When either is not what cargo writes.
    pub(super) fn read(metadata: &str, lock: &str) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Metadata {
            packages: Vec<Package>,
            resolve: Resolve,
        }
        #[derive(Deserialize)]
        struct Resolve {
            nodes: Vec<Node>,
        }
        #[derive(Deserialize)]
        struct Node {
            id: String,
            deps: Vec<Need>,
        }
        let metadata: Metadata =
            serde_json::from_str(metadata).context("`cargo metadata` printed something else")?;
        Ok(Self {
            packages: metadata
                .packages
                .into_iter()
                .map(|package| (package.id.clone(), package))
                .collect(),
            needs: metadata
                .resolve
                .nodes
                .into_iter()
                .map(|node| (node.id, node.deps))
                .collect(),
            checksums: checksums(lock)?,
        })
    }

    /// The packages of `program`, itself among them, by name and version. Without `units` those of features that others in the workspace ask
    /// for are among them.
    ///
    /// # Errors
    /// When the workspace has no such package, one from a registry has no checksum, or what was compiled is not all that it needs: such a list
    /// would be of something else.
    pub(super) fn of_program(&self, program: &str, units: Option<&Units>) -> anyhow::Result<Vec<Component>> {
        let root = self
            .packages
            .values()
            .find(|package| package.name == program && package.source.is_none())
            .with_context(|| format!("there is no package {program}"))?;
        anyhow::ensure!(
            units.is_none_or(|units| units.target.contains(&root.id)),
            "cargo's messages of the build say nothing of {program}"
        );
        let reached = self.reach(&root.id, units);
        self.is_whole(&reached)?;
        let mut found = reached
            .iter()
            .filter_map(|(id, scope)| Some((self.packages.get(id)?, *scope)))
            .map(|(package, scope)| self.component(package, scope, &reached))
            .collect::<anyhow::Result<Vec<_>>>()?;
        found.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        Ok(found)
    }

    /// What is reached from a package, each in the closest scope.
    fn reach(&self, root: &str, units: Option<&Units>) -> BTreeMap<String, Scope> {
        let mut reached: BTreeMap<String, Scope> = BTreeMap::new();
        let mut queue = VecDeque::from([(root.to_owned(), Scope::Linked)]);
        while let Some((id, scope)) = queue.pop_front() {
            if reached.get(&id).is_some_and(|known| *known <= scope) {
                continue;
            }
            for (need, scope) in self.edges(&id, scope) {
                let is_compiled = units.is_none_or(|units| match scope {
                    Scope::Linked => units.target.contains(need),
                    Scope::BuildOnly => units.host.contains(need),
                });
                if is_compiled {
                    queue.push_back((need.to_owned(), scope));
                }
            }
            reached.insert(id, scope);
        }
        reached
    }

    /// # Errors
    /// When a package of this workspace is without one that its manifest asks for in any case, or cargo says of none what it needs.
    fn is_whole(&self, reached: &BTreeMap<String, Scope>) -> anyhow::Result<()> {
        let mut edges = 0;
        for (id, scope) in reached {
            let Some(package) = self.packages.get(id).filter(|package| package.source.is_none()) else {
                continue;
            };
            for (need, scope) in self.edges(id, *scope) {
                edges += 1;
                let name = self.packages.get(need).map_or(need, |need| need.name.as_str());
                let mut asked = package.dependencies.iter().filter(|it| it.name == name);
                anyhow::ensure!(
                    reached.get(need).is_some_and(|known| *known <= scope) || asked.any(|it| it.optional),
                    "{} needs {name}, which was not compiled for it by cargo's messages",
                    package.name
                );
            }
        }
        anyhow::ensure!(
            edges > 0,
            "cargo metadata names no package that the program needs"
        );
        Ok(())
    }

    /// What a package needs, and in which scope where it is itself in `scope`. What only its tests need is left out.
    fn edges(&self, id: &str, scope: Scope) -> impl Iterator<Item = (&str, Scope)> {
        let needs = self.needs.get(id).map(Vec::as_slice).unwrap_or_default();
        needs.iter().filter_map(move |need| {
            let has = |wanted: Option<&str>| need.dep_kinds.iter().any(|kind| kind.kind.as_deref() == wanted);
            if has(None) {
                let runs_here = self.is_macro(&need.pkg);
                Some((
                    need.pkg.as_str(),
                    if runs_here { Scope::BuildOnly } else { scope },
                ))
            } else {
                has(Some("build")).then_some((need.pkg.as_str(), Scope::BuildOnly))
            }
        })
    }

    fn is_macro(&self, id: &str) -> bool {
        self.packages.get(id).is_some_and(|package| {
            let mut kinds = package.targets.iter().flat_map(|target| &target.kind);
            kinds.any(|kind| kind == "proc-macro")
        })
    }

    fn component(
        &self,
        package: &Package,
        scope: Scope,
        reached: &BTreeMap<String, Scope>,
    ) -> anyhow::Result<Component> {
        let key = |package: &Package| (package.name.clone(), package.version.clone());
        let checksum = self.checksums.get(&key(package)).cloned();
        anyhow::ensure!(
            package.source.is_none() || checksum.is_some(),
            "Cargo.lock has no checksum of {} {}",
            package.name,
            package.version
        );
        Ok(Component {
            name: package.name.clone(),
            version: package.version.clone(),
            licence: package.license.clone(),
            repository: package.repository.clone(),
            checksum: checksum.filter(|_| package.source.is_some()),
            scope,
            authors: package.authors.clone(),
            folder: package.manifest_path.parent().map(Into::into).unwrap_or_default(),
            needs: self
                .edges(&package.id, scope)
                .filter(|(need, _)| reached.contains_key(*need))
                .filter_map(|(need, _)| self.packages.get(need))
                .map(key)
                .collect(),
        })
    }
}

/// SHA-256 of the archives of packages, by name and version, from the text of `Cargo.lock`.
fn checksums(lock: &str) -> anyhow::Result<BTreeMap<(String, String), String>> {
    Ok(supply::packages(lock)?
        .into_iter()
        .filter_map(|package| Some(((package.name, package.version), package.checksum?)))
        .collect())
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// `a` is a program: it links `b` and `d`, has its code made by the macro `m`, which needs `b`, and its build script needs `s`; its
    /// tests need `t`. `b` links `c` where somebody asks for that.
    pub(in crate::release) fn graph() -> Graph {
        let package = |name: &str, version: &str, kind: &str| {
            let ours = name == "a";
            json!({
                "id": if ours { "path+file:///w/a#1.0.0".to_owned() } else { format!("r#{name}@{version}") },
                "name": name, "version": version, "license": if name == "d" { "MIT/Apache-2.0" } else { "MIT" },
                "repository": null, "source": if ours { Value::Null } else { json!("registry+r") },
                "manifest_path": format!("/src/{name}-{version}/Cargo.toml"), "targets": [{"kind": [kind]}, {"kind": ["test"]}],
            })
        };
        let need = |id: &str, kinds: &[Option<&str>]| {
            let kinds: Vec<Value> = kinds
                .iter()
                .map(|kind| json!({"kind": kind, "target": null}))
                .collect();
            json!({"name": "x", "pkg": id, "dep_kinds": kinds})
        };
        let metadata = json!({
            "packages": [
                package("a", "1.0.0", "bin"), package("b", "2.0.0", "lib"), package("c", "3.0.0", "lib"), package("d", "4.0.0", "lib"),
                package("m", "5.0.0", "proc-macro"), package("s", "6.0.0", "lib"), package("t", "7.0.0", "lib"),
                package("b", "1.0.0", "lib"),
            ],
            "resolve": {"nodes": [
                {"id": "path+file:///w/a#1.0.0", "deps": [
                    need("r#b@2.0.0", &[None]), need("r#d@4.0.0", &[None, Some("dev")]), need("r#m@5.0.0", &[None]),
                    need("r#s@6.0.0", &[Some("build")]), need("r#t@7.0.0", &[Some("dev")]),
                ]},
                {"id": "r#b@2.0.0", "deps": [need("r#c@3.0.0", &[None])]},
                {"id": "r#m@5.0.0", "deps": [need("r#b@2.0.0", &[None]), need("r#b@1.0.0", &[None])]},
            ]},
        });
        let lock: String = [
            "b 2.0.0", "c 3.0.0", "d 4.0.0", "m 5.0.0", "s 6.0.0", "t 7.0.0", "b 1.0.0",
        ]
        .iter()
        .filter_map(|package| package.split_once(' '))
        .map(|(name, version)| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nchecksum = \"{}\"\n",
                name.repeat(64)
            )
        })
        .collect();
        Graph::read(&metadata.to_string(), &lock).unwrap()
    }

    fn shown(components: &[Component]) -> Vec<String> {
        components
            .iter()
            .map(|it| {
                let needs: Vec<String> = it
                    .needs
                    .iter()
                    .map(|(name, version)| format!("{name}{version}"))
                    .collect();
                format!("{} {} {:?} {}", it.name, it.version, it.scope, needs.join(","))
            })
            .collect()
    }

    /// Messages of a build without the feature that brings `c`.
    pub(in crate::release) fn units() -> Units {
        let mut units = Units::default();
        let message = |id: &str, file: &str| {
            json!({"reason": "compiler-artifact", "package_id": id, "filenames": [file]}).to_string()
        };
        for id in ["path+file:///w/a#1.0.0", "r#b@2.0.0", "r#d@4.0.0"] {
            units.note(&message(id, "/w/target/x86-gnu/release/deps/x.rlib"), "x86-gnu");
        }
        for id in [
            "r#m@5.0.0",
            "r#s@6.0.0",
            "r#b@2.0.0",
            "r#b@1.0.0",
            "path+file:///w/a#1.0.0",
        ] {
            units.note(&message(id, "/w/target/release/deps/x.so"), "x86-gnu");
        }
        units.note("warning: talk", "x86-gnu");
        units.note(
            r#"{"reason":"build-script-executed","package_id":"r#c@3.0.0"}"#,
            "x86-gnu",
        );
        units
    }

    #[test]
    fn a_program_has_what_was_compiled_for_it_and_what_ran_meanwhile_is_told_apart() {
        let components = graph().of_program("a", Some(&units())).unwrap();
        assert_eq!(
            shown(&components),
            [
                "a 1.0.0 Linked b2.0.0,d4.0.0,m5.0.0,s6.0.0",
                "b 1.0.0 BuildOnly ",
                "b 2.0.0 Linked ",
                "d 4.0.0 Linked ",
                "m 5.0.0 BuildOnly b1.0.0,b2.0.0",
                "s 6.0.0 BuildOnly ",
            ]
        );
        assert!(components[0].is_ours() && !components[1].is_ours());
        assert_eq!(components[3].checksum, Some("d".repeat(64)));
    }

    #[test]
    fn without_a_build_all_features_of_the_workspace_are_taken_for_there() {
        let components = graph().of_program("a", None).unwrap();
        assert!(shown(&components).contains(&"c 3.0.0 Linked ".to_owned()));
        assert!(
            shown(&components).iter().all(|it| !it.starts_with("t ")),
            "tests are left out"
        );
    }

    #[test]
    fn a_list_that_is_not_whole_is_an_error() {
        let graph = graph();
        let of = |units: &Units| {
            graph
                .of_program("a", Some(units))
                .map_err(|error| error.to_string())
        };
        assert!(of(&units()).is_ok());
        let error = of(&Units::default()).unwrap_err();
        assert!(error.contains("nothing of a"), "{error}");
        for (id, name) in [("r#d@4.0.0", "d"), ("r#b@2.0.0", "b")] {
            let mut fewer = units();
            fewer.target.remove(id);
            let error = of(&fewer).unwrap_err();
            assert_eq!(
                error,
                format!("a needs {name}, which was not compiled for it by cargo's messages")
            );
        }
        let mut fewer = units();
        fewer.host.remove("r#s@6.0.0");
        assert!(of(&fewer).unwrap_err().starts_with("a needs s"));
        let mut bare = graph;
        let of_a = bare.packages.get_mut("path+file:///w/a#1.0.0").unwrap();
        of_a.dependencies.push(Dependency {
            name: "s".into(),
            optional: true,
        });
        assert!(
            bare.of_program("a", Some(&fewer)).is_ok(),
            "what no feature asks for"
        );
        bare.needs.clear();
        let error = bare.of_program("a", None).unwrap_err().to_string();
        assert!(error.contains("names no package"), "{error}");
    }

    #[test]
    fn what_cannot_be_vouched_for_is_an_error() {
        let mut graph = graph();
        graph.checksums.remove(&("d".to_owned(), "4.0.0".to_owned()));
        let error = graph.of_program("a", None).unwrap_err().to_string();
        assert!(error.contains("checksum of d 4.0.0"), "{error}");
        assert!(
            graph.of_program("b", None).is_err(),
            "no package of this workspace"
        );
    }
}
