//! What was asked for a user's credentials, for whoever a registry refuses.

use std::collections::BTreeMap;

/// Files and helpers, and what each said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// What each file said of each registry, in order.
    answers: Vec<(String, BTreeMap<String, String>)>,
    missing: Vec<String>,
}

impl Asked {
    /// Notes what a file said of registries.
    pub(crate) fn note(&mut self, file: String, said: BTreeMap<String, String>) {
        self.answers.push((file, said));
    }

    /// Notes a file that is not there.
    pub(crate) fn note_missing(&mut self, file: String) {
        self.missing.push(file);
    }

    /// What was asked for a registry's credentials, and what each said. `None` when nobody was.
    pub(crate) fn of(&self, registry: &str) -> Option<String> {
        let answers = self
            .answers
            .iter()
            .filter_map(|(file, said)| Some(format!("{file}: {}", said.get(registry)?)));
        let missing = (!self.missing.is_empty()).then(|| format!("not there: {}", self.missing.join(", ")));
        let texts: Vec<String> = answers.chain(missing).collect();
        (!texts.is_empty()).then(|| format!("asked for credentials for {registry}: {}", texts.join("; ")))
    }
}
