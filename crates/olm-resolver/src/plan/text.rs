//! A plan for people.

use std::fmt;

use super::{Install, Plan};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "namespace {}", self.namespace)?;
        for step in 1..=self.steps() {
            self.write_step(f, step)?;
        }
        if self.install.is_empty() && self.unsatisfiable.is_empty() {
            writeln!(f, "\nnothing to install")?;
        }
        for failure in &self.unsatisfiable {
            writeln!(f, "\ncannot be resolved: {}", failure.subscriptions.join(", "))?;
            writeln!(f, "  {}", failure.message)?;
            for line in failure.tree.iter().flat_map(super::Tree::lines) {
                writeln!(f, "  {line}")?;
            }
        }
        for held in &self.held {
            writeln!(f, "\nheld back: {}", held.message)?;
            for line in held.tree.iter().flat_map(super::Tree::lines) {
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

impl Plan {
    fn write_step(&self, f: &mut fmt::Formatter<'_>, step: usize) -> fmt::Result {
        writeln!(f, "\nstep {step}")?;
        for change in self.changes.get(&step).into_iter().flatten() {
            writeln!(f, "  change   {change}")?;
        }
        let installs: Vec<&Install> = self
            .install
            .iter()
            .filter(|install| install.step == step)
            .collect();
        for install in &installs {
            write_install(f, install)?;
        }
        let mut approvals: Vec<&String> = installs.iter().flat_map(|install| &install.approval).collect();
        approvals.sort();
        approvals.dedup();
        for subscription in approvals {
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
