//! Faults of a catalog, as text for its author.

use std::error::Error as _;
use std::fmt;

use go_compat::error_chain;

use crate::did_you_mean::did_you_mean;
use crate::load::{LoadError, Origin};
use crate::misspelling::Misspelling;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Position in the model, outermost first (`invalid package "p"`); empty for faults of single blobs.
    pub path: Vec<String>,
    /// Description of the fault.
    pub message: String,
    /// Document of the fault.
    pub origin: Option<Origin>,
    /// Suggestion or other help; printed last, because `message` is upstream's text.
    pub hint: Option<String>,
}

/// All faults of a catalog. Prints faults of blobs first, one per line, then those of the model as a tree, then possible causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    faults: Vec<Fault>,
    /// Number of faults beyond [`MAX_FAULTS`].
    more: usize,
    /// Misspelt names with their origin: not faults, but often the cause of some, so they are reported after the faults.
    pub(super) misspellings: Vec<(Misspelling, Origin)>,
    /// Number of names compared so far for suggestions.
    compared: usize,
}

/// Message in upstream's words, and a hint.
pub(super) struct Message {
    text: String,
    hint: Option<String>,
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self { text, hint: None }
    }
}

/// Creates a message with a hint, if there is one.
pub(super) fn hinted(text: String, hint: Option<String>) -> Message {
    Message { text, hint }
}

/// Maximum number of faults that are kept: no reader needs more, and a hostile catalog could have millions.
const MAX_FAULTS: usize = 1000;
/// Maximum length of a message, in bytes; messages quote texts of the catalog.
const MESSAGE_BYTES: usize = 8 << 10;
/// Maximum number of names compared for one catalog: enough for any reader, and a hostile catalog could cause millions.
const MAX_COMPARISONS: usize = 20_000;

impl Faults {
    /// Returns true if there are no faults.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns the faults in the order they are printed.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter()
    }

    pub(super) fn add(&mut self, message: impl Into<Message>, origin: &Origin) {
        self.add_at(&[], message, Some(origin));
    }

    /// Returns the known name that was probably meant by `word`; `None` also if the limit of comparisons is reached.
    pub(super) fn meant<'a>(
        &mut self,
        word: &str,
        known: impl IntoIterator<Item = &'a String>,
    ) -> Option<&'a str> {
        let left = MAX_COMPARISONS.saturating_sub(self.compared);
        let compared = &mut self.compared;
        let known = known.into_iter().take(left).inspect(|_| *compared += 1);
        let meant = did_you_mean(word, known.map(String::as_str));
        // The nearest of a part may not be the nearest of all.
        meant.filter(|_| self.compared < MAX_COMPARISONS)
    }

    /// Returns [`Faults::meant`] as a question.
    pub(super) fn did_you_mean<'a>(
        &mut self,
        word: &str,
        known: impl IntoIterator<Item = &'a String>,
    ) -> Option<String> {
        self.meant(word, known)
            .map(|meant| format!("did you mean {meant:?}?"))
    }

    fn push(&mut self, mut fault: Fault) {
        if self.faults.len() >= MAX_FAULTS {
            self.more += 1;
            return;
        }
        if fault.message.len() > MESSAGE_BYTES {
            let end = fault.message.floor_char_boundary(MESSAGE_BYTES);
            fault.message.truncate(end);
            fault.message.push('…');
        }
        self.faults.push(fault);
    }

    pub(super) fn add_error(&mut self, error: &LoadError) {
        // The origin is printed separately, so for a document only the cause is reported.
        let (origin, text) = match (error, error.source()) {
            (LoadError::Document { origin, .. } | LoadError::Blob { origin, .. }, Some(cause)) => {
                (Some(origin), error_chain(cause))
            }
            _ => (None, error_chain(error)),
        };
        // A folder of manifests gives each file the same hint, so only the first fault has it.
        let is_new = |hint: &String| !self.faults.iter().any(|fault| fault.hint.as_ref() == Some(hint));
        let hint = error.hint().filter(is_new);
        self.add_at(&[], hinted(text, hint), origin);
    }

    pub(super) fn add_at(&mut self, path: &[String], message: impl Into<Message>, origin: Option<&Origin>) {
        let Message { text, hint } = message.into();
        self.push(Fault {
            path: path.to_vec(),
            message: text,
            origin: origin.cloned(),
            hint,
        });
    }
}

impl std::error::Error for Faults {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(origin) = &self.origin {
            write!(f, " ({origin})")?;
        }
        match &self.hint {
            Some(hint) => write!(f, ": {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (model, blobs): (Vec<&Fault>, Vec<&Fault>) =
            self.faults.iter().partition(|fault| !fault.path.is_empty());
        let mut first = true;
        for fault in blobs {
            if !first {
                f.write_str("\n")?;
            }
            first = false;
            write!(f, "{fault}")?;
        }
        if !model.is_empty() {
            if !first {
                f.write_str("\n")?;
            }
            f.write_str("invalid index:")?;
            write_level(f, &model, 0, "")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} faults more", self.more)?;
        }
        for (misspelling, origin) in &self.misspellings {
            write!(f, "\n{misspelling} ({origin})")?;
        }
        Ok(())
    }
}

/// Writes faults that share the first `depth` path parts: those ending here, then one branch for each next part.
fn write_level(f: &mut fmt::Formatter<'_>, faults: &[&Fault], depth: usize, indent: &str) -> fmt::Result {
    let mut branches: Vec<(Option<&str>, Vec<&Fault>)> = Vec::new();
    for fault in faults {
        let part = fault.path.get(depth).map(String::as_str);
        match branches
            .iter_mut()
            .find(|(known, _)| part.is_some() && *known == part)
        {
            Some((_, members)) => members.push(fault),
            None => branches.push((part, vec![fault])),
        }
    }
    let count = branches.len();
    for (position, (part, members)) in branches.into_iter().enumerate() {
        let is_last = position + 1 == count;
        write!(f, "\n{indent}{}", if is_last { "└── " } else { "├── " })?;
        match part {
            Some(part) => {
                write!(f, "{part}:")?;
                let deeper = format!("{indent}{}", if is_last { "    " } else { "│   " });
                write_level(f, &members, depth + 1, &deeper)?;
            }
            None => {
                for fault in members {
                    write!(f, "{fault}")?;
                }
            }
        }
    }
    Ok(())
}
