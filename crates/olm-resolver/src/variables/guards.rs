//! Rules for one provider per API and one operator per package.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Builder, Cause, Subject};
use crate::bundle_id::BundleId;
use crate::solver::{Constraint, VariableId};
use olm_fbc::property::Gvk;

impl Builder<'_, '_> {
    /// Adds a guard for every API and package with two or more bundles. Upstream's guards are mandatory as well, but
    /// as their rule holds whether or not they are selected, that only adds to the work.
    pub(super) fn add_guards(&mut self) {
        let mut apis: BTreeMap<Gvk, Vec<(BundleId, VariableId)>> = BTreeMap::new();
        let mut packages: BTreeMap<Arc<str>, Vec<(BundleId, VariableId)>> = BTreeMap::new();
        for (&reference, &variable) in &self.bundles {
            let entry = self.universe.entry(reference);
            let identifier = self.universe.identifier(reference);
            for api in entry.apis() {
                apis.entry(api.clone())
                    .or_default()
                    .push((identifier.clone(), variable));
            }
            let mut names: Vec<&Arc<str>> = entry.packages().iter().map(|p| &p.name).collect();
            names.sort();
            names.dedup();
            for name in names {
                packages
                    .entry(Arc::clone(name))
                    .or_default()
                    .push((identifier.clone(), variable));
            }
        }
        for (api, members) in apis {
            self.add_guard(Subject::Api(api), members);
        }
        for (package, members) in packages {
            self.add_guard(Subject::Package(package), members);
        }
    }

    fn add_guard(&mut self, subject: Subject<'static>, mut members: Vec<(BundleId, VariableId)>) {
        if members.len() < 2 {
            return;
        }
        members.sort();
        let members = members.into_iter().map(|(_, variable)| variable).collect();
        let guard = self.add(subject);
        self.constrain(guard, Constraint::AtMostOne(members), Cause::Guard);
    }
}
