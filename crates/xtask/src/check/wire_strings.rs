//! Strings of the wire outside olm-api: API groups and versions, keys of labels and annotations, condition types and reasons.
//! Whose kinds Kubernetes' own types stand for is asked of the type.
//!
//! What users and other programs see has one spelling, and that stands in olm-api. A string literal elsewhere that repeats it,
//! tests left out, is a fault: a typo in it would compile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Item, ItemConst, ItemMod, Lit, LitStr, Macro, Visibility};

use super::circles;

/// Parts of literals that are of the wire whatever stands around them.
const PATTERNS: [&str; 4] = [
    "operators.coreos.com",
    "operatorframework.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
];

/// The wire's own words: the values of the constants of olm-api that cannot be mistaken for anything else.
pub(super) struct Words(BTreeMap<String, String>);

impl Words {
    /// Reads the constants below `folder`, olm-api's sources.
    ///
    /// # Errors
    /// When a file cannot be read or is not Rust.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut words = BTreeMap::new();
        for file in circles::parsed_modules(folder)?.values() {
            Constants(&mut words).visit_file(file);
        }
        Ok(Self(words))
    }

    /// The constant or pattern that a literal repeats.
    fn repeated(&self, literal: &str) -> Option<&str> {
        let pattern = PATTERNS.into_iter().find(|pattern| literal.contains(pattern));
        pattern.or_else(|| self.0.get(literal).map(String::as_str))
    }
}

/// Whether a value is so particular that it means nothing else: a key, a word of several words, or a version before the first.
fn is_particular(value: &str) -> bool {
    let humps = value
        .as_bytes()
        .windows(2)
        .filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let is_early = value.starts_with('v') && (value.contains("alpha") || value.contains("beta"));
    value.contains(['.', '/']) || is_early || humps.count() >= 1
}

struct Constants<'a>(&'a mut BTreeMap<String, String>);

impl<'ast> Visit<'ast> for Constants<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !circles::is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        let name = item.ident.to_string();
        // Kinds are everybody's, also as values of the label that names one; and what is private here is nobody's elsewhere.
        let is_kind = name.starts_with("OWNER_KIND") || name == "KIND";
        if is_kind || matches!(item.vis, Visibility::Inherited) {
            return;
        }
        if let Expr::Lit(ExprLit {
            lit: Lit::Str(text), ..
        }) = &*item.expr
            && is_particular(&text.value())
        {
            self.0.insert(text.value(), name);
        }
    }
}

/// Literals below `folder` that repeat the wire, each as `file: "literal" (constant)`; those in `excepted` left out.
///
/// # Errors
/// When a file cannot be read or is not Rust.
pub(super) fn of_crate(
    folder: &Path,
    words: &Words,
    excepted: &BTreeSet<String>,
) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for (module, file) in circles::parsed_modules(folder)? {
        let mut finder = Finder::default();
        finder.visit_file(&file);
        for literal in finder.literals {
            if let Some(repeated) = words.repeated(&literal).filter(|_| !excepted.contains(&literal)) {
                found.push(format!("{}: {literal:?} ({repeated})", module.join("::")));
            }
        }
    }
    Ok(found)
}

/// Collects the string literals of code that is not for tests.
#[derive(Default)]
struct Finder {
    literals: Vec<String>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            _ => &[],
        };
        if !circles::is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    /// Documentation may say what it likes; texts of errors are told to people in upstream's words.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_lit_str(&mut self, literal: &'ast LitStr) {
        self.literals.push(literal.value());
    }

    /// `format!` and `json!` are tokens to the parser; their literals count like all others.
    fn visit_macro(&mut self, item: &'ast Macro) {
        self.collect(item.tokens.clone());
    }
}

impl Finder {
    fn collect(&mut self, tokens: proc_macro2::TokenStream) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Group(group) => self.collect(group.stream()),
                proc_macro2::TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<LitStr>(&literal.to_string()) {
                        self.literals.push(text.value());
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(source: &str, excepted: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let api = folder.path().join("api");
        let program = folder.path().join("program");
        fs::create_dir_all(&api).unwrap();
        fs::create_dir_all(&program).unwrap();
        let labels = r#"
            pub const MANAGED: &str = "olm.managed"; pub const TRUE: &str = "true"; const OURS: &str = "a/b";
            #[cfg(test)] mod tests { pub const OF_A_TEST: &str = "c/d"; }"#;
        let versions =
            r#"pub const VERSION: &str = "v1alpha1"; pub const KIND: &str = "CustomResourceDefinition";"#;
        let conditions =
            r#"pub mod a { pub const NOT_MET: &str = "NotMet"; pub const FAILED: &str = "Failed"; }"#;
        fs::write(api.join("labels.rs"), labels).unwrap();
        fs::write(api.join("condition.rs"), conditions).unwrap();
        fs::write(api.join("v1alpha1.rs"), versions).unwrap();
        fs::write(program.join("lib.rs"), source).unwrap();
        let excepted = excepted.iter().map(|text| (*text).to_owned()).collect();
        of_crate(&program, &Words::read(&api).unwrap(), &excepted).unwrap()
    }

    #[test]
    fn what_repeats_a_constant_or_a_group_is_found_also_in_macros() {
        let source = r#"
            fn f() -> String { g("olm.managed"); g("NotMet"); g("true"); g("Failed"); format!("operators.coreos.com/{}", 1) }
            const CRD: &str = "apiextensions.k8s.io/v1";
            fn h() -> Value { json!({"apiVersion": "v1", "version": "v1alpha1", "a/b": "c/d", "kind": "CustomResourceDefinition"}) }
        "#;
        assert_eq!(
            check(source, &[]),
            [
                r#": "olm.managed" (MANAGED)"#,
                r#": "NotMet" (NOT_MET)"#,
                r#": "operators.coreos.com/{}" (operators.coreos.com)"#,
                r#": "apiextensions.k8s.io/v1" (apiextensions.k8s.io)"#,
                r#": "v1alpha1" (VERSION)"#
            ]
        );
        let excepted = [
            "olm.managed",
            "NotMet",
            "operators.coreos.com/{}",
            "apiextensions.k8s.io/v1",
            "v1alpha1",
        ];
        assert_eq!(check(source, &excepted), [""; 0]);
    }

    #[test]
    fn tests_comments_and_attributes_are_free() {
        let source = r#"
            //! olm.managed
            /// Of `operators.coreos.com`.
            #[error("operators.coreos.com")]
            struct S;
            #[cfg(test)]
            mod tests { const A: &str = "olm.managed"; }
            #[cfg(test)]
            fn f() { g("olm.managed"); }
        "#;
        assert_eq!(check(source, &[]), [""; 0]);
    }
}
