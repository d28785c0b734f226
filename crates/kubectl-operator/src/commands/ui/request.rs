//! Fields of requests, from query strings and forms. Pure.

use std::collections::BTreeMap;

use olm_api::names::is_dns1123_subdomain;

/// Fields by name; the last value of each counts.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Parses a query string or a form.
    pub(super) fn of(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// Returns a field; empty if it is missing.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Returns the name of an object; `None` if it is invalid. A name becomes part of a path of the API server.
    pub(super) fn name(&self, field: &str) -> Option<&str> {
        Some(self.text(field)).filter(|name| is_dns1123_subdomain(name))
    }

    /// Returns the requested namespace: the field's, `Some(None)` for all if it is empty, and `default` if it is missing. `None`
    /// for an invalid name.
    pub(super) fn namespace(&self, default: Option<&str>) -> Option<Option<String>> {
        match self.0.get("namespace").map(|given| given.trim()) {
            None => Some(default.map(str::to_owned)),
            Some("") => Some(None),
            Some(given) if is_dns1123_subdomain(given) && !given.contains('.') => {
                Some(Some(given.to_owned()))
            }
            Some(_) => None,
        }
    }

    /// Returns the search text.
    pub(super) fn word(&self) -> &str {
        self.text("q").trim()
    }
}

/// Returns an address below the base, with fields.
pub(super) fn href(page: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields);
    format!("{page}?{}", query.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else_in_the_api_server() {
        for (text, expected) in [
            ("name=db", Some("db")),
            ("name=etcd.v1.0.0", Some("etcd.v1.0.0")),
            ("name=", None),
            ("", None),
            ("name=..", None),
            ("name=a/../b", None),
            ("name=a%2Fb", None),
            ("name=a%3Fwatch", None),
            ("name=A", None),
            ("name=a&name=b", Some("b")),
        ] {
            assert_eq!(Fields::of(text.as_bytes()).name("name"), expected, "{text}");
        }
        assert!(!is_dns1123_subdomain(&"a".repeat(254)));
    }

    #[test]
    fn a_namespace_is_one_or_all_or_the_default() {
        let of = |text: &str| Fields::of(text.as_bytes()).namespace(Some("shop"));
        assert_eq!(of(""), Some(Some("shop".to_owned())));
        assert_eq!(of("namespace="), Some(None));
        assert_eq!(of("namespace=ops"), Some(Some("ops".to_owned())));
        for wrong in ["namespace=a.b", "namespace=../x", "namespace=a%20b"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_holds_its_fields_together() {
        let text = href("package", &[("name", "a&b=c d"), ("q", "<\u{202e}>")]);
        assert_eq!(text, "package?name=a%26b%3Dc+d&q=%3C%E2%80%AE%3E");
        let fields = Fields::of(text.split_once('?').unwrap().1.as_bytes());
        assert_eq!(fields.text("name"), "a&b=c d");
    }
}
