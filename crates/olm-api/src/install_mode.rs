//! Check that an operator supports the namespaces its OperatorGroup selects.
//!
//! Rules: `docs/reference/operator-groups.md`. The texts are status messages that users know.

use std::collections::BTreeMap;

use crate::v1alpha1::{InstallMode, InstallModeType};

/// The one target namespace that means the whole cluster.
pub const NAMESPACE_ALL: &str = "";

/// Error: the selected namespaces are not supported. The text is the status message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallModeError {
    /// A mode is listed twice.
    #[error("InstallMode list contains duplicates, cannot make set: {modes}")]
    Duplicate {
        /// The list, as `[{Type supported} …]`.
        modes: String,
    },
    /// No namespace is selected.
    #[error("operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces")]
    NoTarget,
    /// All namespaces are selected among others.
    #[error(
        "operatorgroup has invalid selected namespaces, NamespaceAll found when |selected namespaces| > 1"
    )]
    AllAmongOthers,
    /// The needed mode is not supported.
    #[error("{mode} InstallModeType not supported, cannot configure to watch {what}")]
    NotSupported {
        /// The mode that would be needed.
        mode: InstallModeType,
        /// Description of the unsupported namespaces: "own namespace", "3 namespaces".
        what: String,
    },
}

/// Checks that the install modes of an operator in `operator_namespace` allow it to watch `targets`.
///
/// `targets` is what the OperatorGroup selects, [`NAMESPACE_ALL`] for the whole cluster. A mode that is not listed counts
/// as unsupported.
///
/// # Errors
/// The first rule that is broken, in the order upstream checks them.
pub fn check_install_modes(
    modes: &[InstallMode],
    operator_namespace: &str,
    targets: &[String],
) -> Result<(), InstallModeError> {
    let supported = mode_set(modes)?;
    let needs = |mode: InstallModeType, what: String| {
        if supported.get(&mode).copied().unwrap_or(false) {
            Ok(())
        } else {
            Err(InstallModeError::NotSupported { mode, what })
        }
    };
    let needs_own = || needs(InstallModeType::OwnNamespace, "own namespace".to_owned());
    match targets {
        [] => Err(InstallModeError::NoTarget),
        [one] if one == operator_namespace => needs_own(),
        [one] if one == NAMESPACE_ALL => needs(InstallModeType::AllNamespaces, "all namespaces".to_owned()),
        [_] => needs(InstallModeType::SingleNamespace, "one namespace".to_owned()),
        several => {
            needs(
                InstallModeType::MultiNamespace,
                format!("{} namespaces", several.len()),
            )?;
            several.iter().try_for_each(|target| match target.as_str() {
                target if target == operator_namespace => needs_own(),
                NAMESPACE_ALL => Err(InstallModeError::AllAmongOthers),
                _ => Ok(()),
            })
        }
    }
}

/// Returns the modes as a map from type to support.
///
/// # Errors
/// [`InstallModeError::Duplicate`] if a type is listed twice, even with the same value.
pub fn mode_set(modes: &[InstallMode]) -> Result<BTreeMap<InstallModeType, bool>, InstallModeError> {
    let set: BTreeMap<_, _> = modes
        .iter()
        .map(|mode| (mode.type_.clone(), mode.supported))
        .collect();
    if set.len() < modes.len() {
        let modes: Vec<String> = modes
            .iter()
            .map(|mode| format!("{{{} {}}}", mode.type_, mode.supported))
            .collect();
        return Err(InstallModeError::Duplicate {
            modes: format!("[{}]", modes.join(" ")),
        });
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn modes(supported: &[&str]) -> Vec<InstallMode> {
        [
            "OwnNamespace",
            "SingleNamespace",
            "MultiNamespace",
            "AllNamespaces",
        ]
        .into_iter()
        .map(|mode| InstallMode {
            type_: mode.into(),
            supported: supported.contains(&mode),
            ..InstallMode::default()
        })
        .collect()
    }

    #[test]
    fn og_004_a_mode_is_a_type_and_whether_it_is_supported() {
        let listed = serde_json::json!([
            {"type": "OwnNamespace", "supported": true},
            {"type": "SingleNamespace", "supported": false},
            {"type": "MultiNamespace", "supported": false},
            {"type": "AllNamespaces", "supported": true},
        ]);
        let read: Vec<InstallMode> = serde_json::from_value(listed.clone()).expect("install modes");
        let found: Vec<_> = read.iter().map(|mode| (&mode.type_, mode.supported)).collect();
        assert_eq!(
            found,
            [
                (&InstallModeType::OwnNamespace, true),
                (&InstallModeType::SingleNamespace, false),
                (&InstallModeType::MultiNamespace, false),
                (&InstallModeType::AllNamespaces, true),
            ]
        );
        assert_eq!(serde_json::to_value(&read).expect("JSON"), listed);
    }

    #[test]
    fn rules_and_texts() {
        let all = [
            "OwnNamespace",
            "SingleNamespace",
            "MultiNamespace",
            "AllNamespaces",
        ];
        let zero = "operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces";
        let mixed = "operatorgroup has invalid selected namespaces, NamespaceAll found when |selected namespaces| > 1";
        let own = "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace";
        let single = "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace";
        let multi = "MultiNamespace InstallModeType not supported, cannot configure to watch 2 namespaces";
        let every = "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces";
        let rows: &[(&[&str], &[&str], Option<&str>)] = &[
            (&all, &[], Some(zero)),
            (&all, &[""], None),
            (
                &["OwnNamespace", "SingleNamespace", "MultiNamespace"],
                &[""],
                Some(every),
            ),
            (&["OwnNamespace"], &["own"], None),
            (
                &["SingleNamespace", "MultiNamespace", "AllNamespaces"],
                &["own"],
                Some(own),
            ),
            (&["SingleNamespace"], &["a"], None),
            (
                &["OwnNamespace", "MultiNamespace", "AllNamespaces"],
                &["a"],
                Some(single),
            ),
            (&["MultiNamespace"], &["a", "b"], None),
            (&["SingleNamespace", "AllNamespaces"], &["a", "b"], Some(multi)),
            (&["MultiNamespace"], &["a", "own"], Some(own)),
            (&["MultiNamespace", "OwnNamespace"], &["a", "own"], None),
            (&all, &["", "a"], Some(mixed)),
        ];
        for (supported, targets, expected) in rows {
            let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
            let error = check_install_modes(&modes(supported), "own", &targets).err();
            assert_eq!(
                error.map(|error| error.to_string()).as_deref(),
                *expected,
                "{supported:?} {targets:?}"
            );
        }
    }

    #[test]
    fn og_009_unlisted_mode_is_unsupported() {
        assert!(check_install_modes(&[], "own", &["own".into()]).is_err());
    }

    #[test]
    fn repeated_mode_is_an_error_on_its_own() {
        let mut twice = modes(&["OwnNamespace"]);
        twice.truncate(1);
        twice.push(InstallMode {
            supported: false,
            ..twice[0].clone()
        });
        assert_eq!(
            check_install_modes(&twice, "own", &["own".into()])
                .unwrap_err()
                .to_string(),
            "InstallMode list contains duplicates, cannot make set: [{OwnNamespace true} {OwnNamespace false}]"
        );
    }

    proptest! {
        #[test]
        fn supporting_more_never_refuses_more(mask in 0_u8..16, extra in 0_u8..16, targets in prop::collection::vec("[a-c]?|own", 0..4)) {
            let names = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
            let select = |mask: u8| -> Vec<&str> {
                names.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0).map(|(_, name)| *name).collect()
            };
            let less = check_install_modes(&modes(&select(mask)), "own", &targets);
            let more = check_install_modes(&modes(&select(mask | extra)), "own", &targets);
            prop_assert!(less.is_err() || more.is_ok());
        }
    }
}
