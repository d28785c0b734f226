//! The plan for a ClusterExtension as text. As a document it has the same content. Pure.

use std::fmt::Write as _;

use operator_controller::resolve::{Candidate, Chosen, UnusedCatalog, parse_version};
use serde::Serialize;

use super::changes::Changes;
use crate::preview::name;
use crate::table::Table;
use crate::terminal::{line, plain};

/// Maximum number of candidates in the text.
const MAX_CANDIDATES: usize = 10;
/// Maximum length of a problem, which may list the fields of definitions.
const MAX_TEXT: usize = 4000;
/// Maximum number of changes in the text.
const MAX_CHANGES: usize = 60;

/// What OLM would do with a ClusterExtension.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands::olmv1) struct Plan {
    /// Name of the ClusterExtension.
    pub extension: String,
    /// Namespace that it installs in.
    pub namespace: String,
    /// Name of its package.
    pub package: String,
    /// The installed bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed: Option<Chosen>,
    /// The bundle that OLM would install or keep; `None` if it cannot choose one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
    /// True if the chosen bundle is being rolled out, which is finished before catalogs are asked.
    pub is_rollout: bool,
    /// Bundles of the package, the chosen one first, then by version.
    pub candidates: Vec<Candidate>,
    /// Catalogs that were not used.
    pub unused_catalogs: Vec<UnusedCatalog>,
    /// Changes of the installation; `None` if they are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Why OLM could not do it.
    pub problems: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// Sorts candidates in the order of preference: the chosen one, then the newest first.
pub(super) fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by_cached_key(|candidate| {
        let version = parse_version(&candidate.version).ok();
        std::cmp::Reverse((candidate.is_chosen, version))
    });
}

impl Plan {
    /// Returns the summary. Names and texts are of catalogs and other users, so each stays in its line.
    pub(super) fn text(&self) -> String {
        let [extension, namespace, package] =
            [&self.extension, &self.namespace, &self.package].map(|text| name(&plain(text)));
        let mut text = format!(
            "ClusterExtension {extension} in namespace {namespace}, package {package}\n  {}\n",
            self.headline()
        );
        self.add_candidates(&mut text);
        self.add_changes(&mut text);
        for problem in &self.problems {
            let _ = writeln!(text, "\ncannot be done: {}", line(problem, MAX_TEXT));
        }
        for note in &self.notes {
            let _ = writeln!(text, "\nnote: {}", line(note, MAX_TEXT));
        }
        text
    }

    fn headline(&self) -> String {
        let told = |bundle: &Chosen| name(&plain(&bundle.name));
        let from = |bundle: &Chosen| match bundle.catalog.as_str() {
            "" => String::new(),
            catalog => format!(" from ClusterCatalog {}", name(&plain(catalog))),
        };
        match (&self.installed, &self.chosen) {
            (None, None) => "nothing to install".to_owned(),
            (Some(installed), None) => format!("keep     {}", told(installed)),
            (_, Some(chosen)) if self.is_rollout => format!("finish   the rollout of {}", told(chosen)),
            (Some(installed), Some(chosen)) if installed.name == chosen.name => {
                format!("keep     {}{}", told(chosen), from(chosen))
            }
            (Some(installed), Some(chosen)) => {
                format!("upgrade  {} to {}{}", told(installed), told(chosen), from(chosen))
            }
            (None, Some(chosen)) => format!("install  {}{}", told(chosen), from(chosen)),
        }
    }

    fn add_candidates(&self, text: &mut String) {
        if !self.candidates.is_empty() {
            let mut table = Table::new(["CANDIDATE", "VERSION", "CATALOG", "RESULT"]);
            let installed = self.installed.as_ref().map(|installed| installed.name.as_str());
            for candidate in self.candidates.iter().take(MAX_CANDIDATES) {
                let is_installed = installed == Some(candidate.bundle.as_str());
                let words = [(candidate.is_chosen, "chosen"), (is_installed, "installed")];
                let words = words.into_iter().filter(|(holds, _)| *holds);
                let words = words.map(|(_, word)| word.to_owned());
                let result: Vec<String> = words.chain(candidate.ruled_out.iter().cloned()).collect();
                table.row([
                    name(&candidate.bundle),
                    candidate.version.clone(),
                    name(&candidate.catalog),
                    result.join("; "),
                ]);
            }
            let _ = write!(text, "\n{}", table.text());
            let more = self.candidates.len().saturating_sub(MAX_CANDIDATES);
            if more > 0 {
                let _ = writeln!(text, "… and {more} more candidates, see -o yaml");
            }
        }
        for catalog in &self.unused_catalogs {
            let _ = writeln!(
                text,
                "\ncatalog {} {}",
                name(&plain(&catalog.name)),
                catalog.reason
            );
        }
    }

    fn add_changes(&self, text: &mut String) {
        let Some(changes) = &self.changes else {
            return;
        };
        let lines = changes.lines();
        let against = changes.against.as_deref();
        let against = against.map(|against| format!(" against ClusterObjectSet {}", name(&plain(against))));
        let against = against.unwrap_or_default();
        if lines.is_empty() {
            let _ = writeln!(text, "\nno object changes{against}");
            return;
        }
        let _ = writeln!(text, "\nchanges{against}");
        for change in lines.iter().take(MAX_CHANGES) {
            let _ = writeln!(text, "  {}", plain(change));
        }
        let more = lines.len().saturating_sub(MAX_CHANGES);
        if more > 0 {
            let _ = writeln!(text, "  … and {more} more changes, see -o yaml");
        }
    }
}
