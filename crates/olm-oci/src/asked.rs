//! The files and helpers that were asked for a user's credentials, reported when a registry refuses.

/// Files and helpers, with the answer of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Registry, and the file or helper with its answer, in order.
    answers: Vec<(String, String)>,
    /// Files that do not exist.
    pub(crate) missing: Vec<String>,
}

impl Asked {
    /// Records a file's answer for a registry.
    pub(crate) fn note(&mut self, file: &str, registry: &str, said: &str) {
        self.answers
            .push((registry.to_owned(), format!("{file}: {said}")));
    }

    /// Describes the sources asked for a registry's credentials and their answers. `None` if there were none.
    pub(crate) fn of(&self, registry: &str) -> Option<String> {
        let answers = self.answers.iter().filter(|(of, _)| of == registry);
        let missing = (!self.missing.is_empty()).then(|| format!("not found: {}", self.missing.join(", ")));
        let texts: Vec<String> = answers.map(|(_, said)| said.clone()).chain(missing).collect();
        (!texts.is_empty()).then(|| format!("credentials looked up for {registry}: {}", texts.join("; ")))
    }
}
