//! What is wrong with a catalog, as text for its author.

use std::error::Error as _;
use std::fmt;

use go_compat::error_chain;

use crate::load::{LoadError, Origin};

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where in the model, outermost first (`invalid package "p"`); empty for faults of single blobs.
    pub path: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// The document.
    pub origin: Option<Origin>,
}

/// All faults of a catalog. Prints faults of blobs first, one a line, then those of the model as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    faults: Vec<Fault>,
    /// Faults beyond [`MAX_FAULTS`].
    more: usize,
}

/// So many faults are kept: nobody reads more, and a hostile catalog could have millions.
const MAX_FAULTS: usize = 1000;
/// Longest message; what catalogs say about themselves is quoted in them.
const MESSAGE_BYTES: usize = 8 << 10;

impl Faults {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// The faults in the order they are printed.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter()
    }

    pub(super) fn add(&mut self, message: String, origin: &Origin) {
        self.push(Fault {
            path: Vec::new(),
            message,
            origin: Some(origin.clone()),
        });
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
        // Its place is shown apart from the message, so of a document only the cause is told.
        let (origin, message) = match (error, error.source()) {
            (LoadError::Document { origin, .. } | LoadError::Blob { origin, .. }, Some(cause)) => {
                (Some(origin.clone()), error_chain(cause))
            }
            _ => (None, error_chain(error)),
        };
        self.push(Fault {
            path: Vec::new(),
            message,
            origin,
        });
    }

    pub(super) fn add_at(&mut self, path: &[String], message: String, origin: Option<&Origin>) {
        self.push(Fault {
            path: path.to_vec(),
            message,
            origin: origin.cloned(),
        });
    }
}

impl std::error::Error for Faults {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.origin {
            Some(origin) => write!(f, " ({origin})"),
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
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} faults more"),
        }
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
