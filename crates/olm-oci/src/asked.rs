//! The files and helpers that were asked for a user's credentials, reported when a registry refuses.

use std::collections::BTreeMap;

/// Files and helpers, with the answer of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Each file with its answer for each registry, in order.
    answers: Vec<(String, BTreeMap<String, String>)>,
    missing: Vec<String>,
}

impl Asked {
    /// Records a file's answers by registry.
    pub(crate) fn note(&mut self, file: String, said: BTreeMap<String, String>) {
        self.answers.push((file, said));
    }

    /// Records a file that does not exist.
    pub(crate) fn note_missing(&mut self, file: String) {
        self.missing.push(file);
    }

    /// Describes the sources asked for a registry's credentials and their answers. `None` if there were none.
    pub(crate) fn of(&self, registry: &str) -> Option<String> {
        let answers = self
            .answers
            .iter()
            .filter_map(|(file, said)| Some(format!("{file}: {}", said.get(registry)?)));
        let missing = (!self.missing.is_empty()).then(|| format!("not found: {}", self.missing.join(", ")));
        let texts: Vec<String> = answers.chain(missing).collect();
        (!texts.is_empty()).then(|| format!("credentials looked up for {registry}: {}", texts.join("; ")))
    }
}
