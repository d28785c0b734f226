//! A plan as text for people.

use std::fmt;

use super::{Install, Plan, Step};
use crate::enumeration::list;
use crate::one_line::OneLine;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "namespace {}", OneLine(&self.namespace))?;
        for step in &self.steps {
            writeln!(f, "\nstep {}", step.step)?;
            write!(f, "{step}")?;
        }
        if self.more_steps {
            writeln!(
                f,
                "\nmore steps follow; to show them omit --steps, or use a higher number"
            )?;
        }
        if self.steps.is_empty() && self.unsatisfiable.is_empty() {
            writeln!(f, "\nnothing to install")?;
        }
        for failure in &self.unsatisfiable {
            let names = failure.concerned().iter().map(String::as_str);
            writeln!(f, "\n{}: {}", OneLine(failure.kind()), OneLine(list(names)))?;
            for line in failure.lines(&self.namespace) {
                writeln!(f, "  {}", OneLine(line))?;
            }
        }
        for held in &self.held_back {
            writeln!(f, "\nheld back: {}", OneLine(&held.message))?;
            for line in held.lines() {
                writeln!(f, "  {}", OneLine(line))?;
            }
        }
        if !self.excluded.is_empty() {
            writeln!(f, "\nexcluded as malformed")?;
        }
        for text in &self.excluded {
            writeln!(f, "  {}", OneLine(text))?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {}", OneLine(note))?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.change {
            writeln!(f, "  change   {}", OneLine(&change.text))?;
        }
        for install in &self.install {
            writeln!(f, "  {}", OneLine(install_text(install)))?;
        }
        for subscription in &self.approvals {
            writeln!(
                f,
                "  approve  the InstallPlan of subscription {}, which requires approval",
                OneLine(subscription)
            )?;
        }
        Ok(())
    }
}

fn install_text(install: &Install) -> String {
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
    let what = match replaces.is_empty() {
        true => format!("install  {name}"),
        false => format!("upgrade  {replaces} to {name}"),
    };
    let by = match required_by.is_empty() {
        true => String::new(),
        false => format!(", required by {}", required_by.join(", ")),
    };
    format!(
        "{what} (package {package}, channel {channel}, catalog {catalog}) for subscription {for_subscription}{by}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::CatalogKey;
    use crate::plan::{Edit, Explained, HeldBack, NotSucceeded, Standing, Unsatisfiable};

    /// Names come from Subscriptions and catalogs. A line in such a name must not look like a line of the
    /// plan.
    #[test]
    fn no_name_begins_a_line_of_its_own() {
        let evil = || "x\nstep 9\r\n  approve  nothing".to_owned();
        let install = Install {
            name: evil(),
            package: evil(),
            channel: evil(),
            catalog: CatalogKey {
                name: evil(),
                namespace: evil(),
            },
            version: evil(),
            replaces: evil(),
            for_subscription: evil(),
            required_by: vec![evil()],
        };
        let first = Install {
            replaces: String::new(),
            ..install.clone()
        };
        let unsatisfiable = Unsatisfiable {
            subscriptions: vec![evil()],
            summary: evil(),
            ..Unsatisfiable::default()
        };
        let held = HeldBack {
            message: evil(),
            ..HeldBack::default()
        };
        let plan = Plan {
            namespace: evil(),
            steps: vec![Step {
                step: 1,
                change: vec![Edit {
                    text: evil(),
                    ..Edit::default()
                }],
                install: vec![install, first],
                approvals: vec![evil()],
            }],
            unsatisfiable: vec![unsatisfiable.clone()],
            held_back: vec![held.clone()],
            excluded: vec![evil()],
            notes: vec![evil()],
            ..Plan::default()
        };
        let explained = Explained {
            unsatisfiable: vec![unsatisfiable],
            standings: vec![Standing {
                subscription: evil(),
                state: evil(),
                way_out: Some(evil()),
                held_back: Some(held),
                ..Standing::default()
            }],
            not_succeeded: vec![NotSucceeded {
                csv: evil(),
                message: evil(),
                ..NotSucceeded::default()
            }],
            excluded: vec![evil()],
            ..Explained::default()
        };
        for text in [plan.to_string(), explained.to_string()] {
            let is_made_up =
                |line: &str| line.starts_with("step 9") || line.starts_with("  approve  nothing");
            assert!(!text.lines().any(is_made_up), "{text}");
            assert!(!text.contains('\r'), "{text}");
        }
    }
}
