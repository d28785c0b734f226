//! Names that may not be used in some modules: what an answer follows from there is given, and not fetched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::circles;

/// A rule of `crates/structure.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    /// What it holds up, for whoever runs into it.
    pub(super) why: String,
    pub(super) packages: BTreeSet<String>,
    /// The modules of these names with what is in them; all when empty.
    #[serde(default)]
    modules: BTreeSet<String>,
    /// But for these.
    #[serde(default)]
    except: BTreeSet<String>,
    /// Names of modules, types and functions, as a path or an import writes them.
    without: BTreeSet<String>,
}

impl Rule {
    fn is_about(&self, module: &[String]) -> bool {
        let is_in = |names: &BTreeSet<String>| module.iter().any(|name| names.contains(name));
        (self.modules.is_empty() || is_in(&self.modules)) && !is_in(&self.except)
    }
}

/// Where the crate whose sources are in `folder` breaks `rule`, tests left out.
///
/// # Errors
/// When a file cannot be read or is not Rust.
pub(super) fn of_crate(folder: &Path, rule: &Rule) -> anyhow::Result<Vec<String>> {
    Ok(broken(&circles::paths(folder)?, rule))
}

fn broken(paths: &BTreeMap<Vec<String>, Vec<Vec<String>>>, rule: &Rule) -> Vec<String> {
    let mut faults = Vec::new();
    for (module, paths) in paths.iter().filter(|(module, _)| rule.is_about(module)) {
        let used = paths.iter().filter(|path| {
            // A path of one name in lower case is a variable.
            let is_variable = matches!(&path[..], [name] if name.starts_with(|c: char| c.is_lowercase()));
            !is_variable && path.iter().any(|name| rule.without.contains(name))
        });
        let used: BTreeSet<String> = used.map(|path| path.join("::")).collect();
        faults.extend(
            used.iter()
                .map(|path| format!("{}: {path} ({})", module.join("::"), rule.why)),
        );
    }
    faults
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_are_found_where_the_rule_says_whether_imported_or_written_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("decide")).unwrap();
        let source = r#"
            use crate::stores::{Other, Stores};
            /// Of a clock: `clock::now`.
            fn f(clock: u8, stores: &super::Store<Pod>) -> u8 { std::env::var("A"); clock }
            #[cfg(test)]
            mod tests { use crate::clock; }
        "#;
        for file in ["decide/deep.rs", "observe.rs"] {
            fs::write(folder.path().join(file), source).unwrap();
        }
        let rule = |modules: &str| -> Rule {
            let rule =
                format!("{{why: pure, packages: [p], {modules}, without: [Store, Stores, clock, env]}}");
            serde_saphyr::from_str(&rule).unwrap()
        };
        let found = |modules: &str| of_crate(folder.path(), &rule(modules)).unwrap();
        let expected = [
            "decide::deep: crate::stores::Stores (pure)",
            "decide::deep: std::env::var (pure)",
            "decide::deep: super::Store (pure)",
        ];
        assert_eq!(found("modules: [decide]"), expected);
        assert_eq!(found("except: [observe]"), expected);
        assert_eq!(found("modules: []").len(), 6);
    }
}
