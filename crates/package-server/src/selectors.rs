//! Label and field selectors of lists, in the syntax of Kubernetes.

use std::collections::BTreeMap;

use olm_api::selector::{Requirement, parse};

use crate::limits::SELECTOR_REQUIREMENTS;

fn too_many() -> String {
    format!("the selector has more than {SELECTOR_REQUIREMENTS} requirements")
}

fn broken(error: &str) -> String {
    format!("unable to parse requirement: {error}")
}

/// Requirements on the labels of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Parses a selector; the empty one selects everything.
    ///
    /// # Errors
    /// The text is not a valid selector. The error is for its author.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = parse(text, SELECTOR_REQUIREMENTS).map_err(|error| broken(&error))?;
        parsed.map(Self).ok_or_else(too_many)
    }

    /// Returns whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether these labels meet all requirements.
    pub fn matches(&self, labels: &BTreeMap<&str, &str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(requirement.key.as_str()).copied();
            requirement.test.is_passed_by(value)
        })
    }
}

/// Requirements on name and namespace of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldRequirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldRequirement {
    /// Of the name, else of the namespace.
    is_of_name: bool,
    is_equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses a selector; the empty one selects everything.
    ///
    /// # Errors
    /// The text is not a valid selector, or has other fields than `metadata.name` and `metadata.namespace`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let terms = text.split(',').filter(|term| !term.is_empty());
        if terms.clone().count() > SELECTOR_REQUIREMENTS {
            return Err(too_many());
        }
        terms.map(term).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether an object of this name in this namespace is selected.
    pub fn matches(&self, name: &str, namespace: &str) -> bool {
        self.0.iter().all(|requirement| {
            let value = if requirement.is_of_name { name } else { namespace };
            (requirement.value == value) == requirement.is_equal
        })
    }

    /// Returns the one selected name, if there is one. The permission is then checked for that name.
    pub fn name(&self) -> Option<&str> {
        let of_name = |requirement: &&FieldRequirement| requirement.is_of_name && requirement.is_equal;
        self.0
            .iter()
            .find(of_name)
            .map(|requirement| requirement.value.as_str())
    }
}

fn term(term: &str) -> Result<FieldRequirement, String> {
    let broken = || broken(&format!("invalid selector: {term:?}; can't understand {term:?}"));
    let at = term.find(['=', '!']).ok_or_else(broken)?;
    let (field, rest) = term.split_at(at);
    let (is_equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else {
        let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='));
        (true, value.ok_or_else(broken)?)
    };
    if !matches!(field, "metadata.name" | "metadata.namespace") {
        return Err(format!("field label not supported: {field}"));
    }
    Ok(FieldRequirement {
        is_of_name: field == "metadata.name",
        is_equal,
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str) -> Result<bool, String> {
        let labels = BTreeMap::from([
            ("catalog", "cat"),
            ("provider", "Red Hat"),
            ("operatorframework.io/os.linux", "supported"),
            ("rank", "7"),
            ("empty", ""),
        ]);
        LabelSelector::parse(selector).map(|selector| selector.matches(&labels))
    }

    #[test]
    fn labels_are_selected_as_kubernetes_does() {
        let rows = [
            ("", true),
            ("catalog", true),
            ("!catalog", false),
            ("absent", false),
            ("!absent", true),
            ("catalog=cat", true),
            ("catalog == cat", true),
            ("catalog=dog", false),
            ("catalog!=dog", true),
            ("absent!=dog", true),
            ("catalog in (dog, cat)", true),
            ("catalog in (dog)", false),
            ("catalog notin (dog,cat)", false),
            ("absent notin (x)", true),
            ("empty=", true),
            ("catalog=", false),
            ("empty in (,x)", true),
            ("rank>6", true),
            ("rank > 7", false),
            ("rank<8", true),
            ("catalog>1", false),
            ("operatorframework.io/os.linux=supported,catalog=cat", true),
            ("catalog=cat,rank=8", false),
            ("in in (x)", false),
        ];
        for (selector, expected) in rows {
            assert_eq!(selects(selector), Ok(expected), "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_reported() {
        for selector in [
            "provider=Red Hat",
            "=cat",
            "catalog=cat,",
            "catalog in cat",
            "catalog in (cat",
            "catalog in (cat dog)",
            "!",
            "catalog cat",
            "a b",
            "-a=b",
            "A/b/c=d",
            "UPPER.example/x",
            "catalog=-x",
            "catalog=ä",
            "rank>x",
            "!catalog=cat",
            ",",
            "()",
        ] {
            assert!(selects(selector).is_err(), "{selector}");
        }
    }

    /// Each requirement is compared with each package.
    #[test]
    fn a_selector_of_too_many_requirements_is_refused() {
        let most = vec!["!z"; SELECTOR_REQUIREMENTS].join(",");
        assert!(LabelSelector::parse(&most).is_ok());
        let more = format!("{most},a");
        assert_eq!(LabelSelector::parse(&more), Err(too_many()));
        let most = vec!["metadata.name!=z"; SELECTOR_REQUIREMENTS].join(",");
        assert!(FieldSelector::parse(&most).is_ok());
        let more = format!("{most},metadata.name!=z");
        assert_eq!(FieldSelector::parse(&more), Err(too_many()));
    }

    #[test]
    fn fields_are_name_and_namespace() {
        let rows = [
            ("", true),
            ("metadata.name=demo", true),
            ("metadata.name==demo", true),
            ("metadata.name=other", false),
            ("metadata.name!=other", true),
            ("metadata.name=demo,metadata.namespace=ns", true),
            ("metadata.namespace=elsewhere", false),
        ];
        for (selector, expected) in rows {
            let parsed = FieldSelector::parse(selector).unwrap();
            assert_eq!(parsed.matches("demo", "ns"), expected, "{selector}");
        }
        let refused = |text: &str| FieldSelector::parse(text).unwrap_err();
        assert_eq!(refused("spec.x=1"), "field label not supported: spec.x");
        assert!(refused("metadata.name").starts_with("unable to parse"));
        assert!(refused("metadata.name!demo").starts_with("unable to parse"));
    }

    #[test]
    fn the_name_that_is_selected_is_known() {
        let name = |text: &str| FieldSelector::parse(text).unwrap().name().map(str::to_owned);
        assert_eq!(name("metadata.namespace=a,metadata.name=b").as_deref(), Some("b"));
        assert_eq!(name("metadata.name!=b"), None);
    }
}
