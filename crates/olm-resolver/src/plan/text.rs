//! A plan for people.

use std::fmt;

use super::{Install, Plan, Step};
use crate::enumeration::list;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "namespace {}", self.namespace)?;
        for (place, step) in self.steps.iter().enumerate() {
            writeln!(f, "\nstep {}", place + 1)?;
            write!(f, "{step}")?;
        }
        if self.more_steps {
            writeln!(
                f,
                "\nmore steps follow: they are shown without --steps, or with a higher number"
            )?;
        }
        if self.steps.is_empty() && self.unsatisfiable.is_empty() {
            writeln!(f, "\nnothing to install")?;
        }
        for failure in &self.unsatisfiable {
            let names = failure.concerned().iter().map(String::as_str);
            writeln!(f, "\ncannot be resolved: {}", list(names))?;
            for line in failure.lines(&self.namespace) {
                writeln!(f, "  {line}")?;
            }
        }
        for held in &self.held_back {
            writeln!(f, "\nheld back: {}", held.message)?;
            for line in held.lines() {
                writeln!(f, "  {line}")?;
            }
        }
        if !self.excluded.is_empty() {
            writeln!(f, "\nset aside as malformed")?;
        }
        for text in &self.excluded {
            writeln!(f, "  {text}")?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            writeln!(f, "  change   {}", change.text())?;
        }
        for install in &self.install {
            write_install(f, install)?;
        }
        for subscription in &self.approvals {
            writeln!(
                f,
                "  approve  the InstallPlan of subscription {subscription}, which asks for manual approval"
            )?;
        }
        Ok(())
    }
}

fn write_install(f: &mut fmt::Formatter<'_>, install: &Install) -> fmt::Result {
    let Install {
        name,
        package,
        channel,
        catalog,
        replaces,
        for_subscription,
        required_by,
        ..
    } = install;
    if replaces.is_empty() {
        write!(f, "  install  {name}")?;
    } else {
        write!(f, "  upgrade  {replaces} to {name}")?;
    }
    write!(
        f,
        " (package {package}, channel {channel}, catalog {catalog}) for subscription {for_subscription}"
    )?;
    if !required_by.is_empty() {
        write!(f, ", required by {}", required_by.join(", "))?;
    }
    writeln!(f)
}
