//! What the uninstallation of an operator deletes and keeps, as text. Pure.

use std::fmt;

use kube::ResourceExt as _;

use super::leftovers::{self, refs};
use super::removal::{Definition, Objects, Removal};
use crate::terminal::plain;
use crate::writer::subject;

/// Maximum number of operands listed.
const MAX_OPERANDS: usize = 50;
/// Maximum number of objects listed per kind.
const MAX_NAMED: usize = 5;

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(subscription) = &self.subscription {
            writeln!(f, "deletes  {}", subject(subscription))?;
        }
        for open in &self.plans {
            let installs = open.plan.spec.cluster_service_version_names.join(", ");
            let state = match open.is_approved() {
                true => "is in progress",
                false => "is waiting for approval",
            };
            writeln!(
                f,
                "deletes  {}, which {state} and installs {}",
                subject(&open.plan),
                plain(&installs)
            )?;
        }
        for csv in &self.csvs {
            writeln!(
                f,
                "deletes  {}, with its Deployments, ServiceAccounts and permissions",
                subject(csv)
            )?;
        }
        for definition in &self.definitions {
            write!(f, "{definition}")?;
        }
        if self.deletes_operands {
            for operand in self.operands.iter().take(MAX_OPERANDS) {
                writeln!(
                    f,
                    "deletes  {} {}, before the operator",
                    plain(&operand.resource.kind),
                    plain(&operand.name())
                )?;
            }
            let more = self.operands.len().saturating_sub(MAX_OPERANDS);
            if more > 0 {
                writeln!(f, "deletes  {more} more of these kinds, before the operator")?;
            }
        }
        if let Some(operator) = &self.operator {
            for reference in &self.listed {
                writeln!(
                    f,
                    "deletes  {}, which Operator {} lists",
                    leftovers::subject(reference),
                    operator.name_any()
                )?;
            }
            let kept = refs(operator).filter(|reference| !self.deletes(reference));
            let kept: Vec<String> = kept.map(leftovers::subject).collect();
            let unless = match kept.is_empty() {
                true => String::new(),
                false => format!("; it is kept while it lists {}", kept.join(", ")),
            };
            writeln!(f, "deletes  {}{unless}", subject(operator))?;
        }
        for group in &self.groups {
            writeln!(f, "deletes  {}, if no Subscription is left there", subject(group))?;
        }
        if let Some(operator) = &self.kept_operator {
            writeln!(
                f,
                "leaves   {}, which lists what is left; --delete-operator deletes both",
                subject(operator)
            )?;
        }
        for group in &self.unused_groups {
            writeln!(
                f,
                "leaves   {}, which no operator uses then; --delete-operator-groups deletes it, too",
                subject(group)
            )?;
        }
        let left = self.definitions.iter();
        let left = left.filter(|definition| !definition.is_deleted && definition.deleted == 0);
        let (owned, lone): (Vec<&Definition>, Vec<&Definition>) = left.partition(|left| left.is_owned());
        if !lone.is_empty() {
            let what = match owned.is_empty() {
                true => "what is left",
                false => "what is left and not owned by another operator",
            };
            writeln!(
                f,
                "note: no operator manages {what}; a later install adopts it again"
            )?;
        }
        for note in &self.notes {
            writeln!(f, "note: {}", plain(note))?;
        }
        Ok(())
    }
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = plain(&self.name);
        let (verb, one_lost, lost) = match self.is_deleted {
            true => ("deletes", "which is lost", "which are lost"),
            false => ("leaves ", "which is kept", "which are kept"),
        };
        let others: String = self.others.iter().map(|other| format!("; {other}")).collect();
        match &self.objects {
            Objects::NoDefinition => writeln!(
                f,
                "leaves   nothing of CustomResourceDefinition {name}: it does not exist"
            )?,
            Objects::Unknown(cause) => writeln!(
                f,
                "{verb}  CustomResourceDefinition {name} with unknown objects ({}), {lost}{others}",
                plain(cause)
            )?,
            Objects::Known { count: 0, .. } => {
                writeln!(
                    f,
                    "{verb}  CustomResourceDefinition {name}, which has no objects{others}"
                )?;
            }
            Objects::Known {
                count,
                at_least,
                names,
                with_finalizers,
            } => {
                let more = if *at_least { "at least " } else { "" };
                let named = names.iter().take(MAX_NAMED);
                let named: Vec<String> = named.map(|name| plain(name)).collect();
                let kept = count.saturating_sub(self.deleted);
                let dots = if kept > named.len() { ", …" } else { "" };
                let (objects, lost) = match count {
                    1 => ("object", one_lost),
                    _ => ("objects", lost),
                };
                let parts = match self.deleted {
                    0 => lost.to_owned(),
                    _ if kept == 0 => "deleted as listed below".to_owned(),
                    deleted => format!("{deleted} deleted as listed below, {kept} kept"),
                };
                let named = match named.is_empty() {
                    true => String::new(),
                    false => format!(": {}{dots}", named.join(", ")),
                };
                writeln!(
                    f,
                    "{verb}  CustomResourceDefinition {name} with {more}{count} {objects}, {parts}{named}{others}"
                )?;
                if *with_finalizers > 0 && !self.is_deleted && self.deleted == 0 {
                    writeln!(
                        f,
                        "note: {}; without the operator they cannot be deleted properly",
                        match with_finalizers {
                            1 => "one has finalizers".to_owned(),
                            _ => format!("{with_finalizers} of them have finalizers"),
                        }
                    )?;
                }
            }
        }
        Ok(())
    }
}
