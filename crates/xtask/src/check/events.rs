//! Events in the reference: whoever sees one in the cluster has to find what it means.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;

use super::documents::known_files;
use crate::workspace;

/// The page that lists them.
const PAGE: &str = "docs/reference/events.md";
/// Where their reasons are constants.
const REASONS: [&str; 2] = [
    "crates/olm-api/src/condition.rs",
    "crates/olm-runtime/src/reason.rs",
];
/// What makes an Event.
const MAKERS: [&str; 2] = ["EventDraft::warning(", "subscription_warning("];
/// What begins a constant of Rust.
const CONSTANT: &str = "pub const ";

/// Reasons of warning Events that the page does not list: `file: reason`.
///
/// # Errors
/// When git does not answer or a file cannot be read.
pub(super) fn unlisted() -> anyhow::Result<Vec<String>> {
    let root = workspace::root();
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("read {file}"));
    let page = read(PAGE)?;
    let mut reasons = BTreeMap::<String, Vec<String>>::new();
    for file in REASONS {
        constants(&read(file)?, &mut reasons);
    }
    let mut found = Vec::new();
    for file in known_files(&root, "crates/*/src/*.rs")? {
        let file = file.display().to_string();
        if !file.contains("/tests") {
            let missing = missing(&read(&file)?, &reasons, &page);
            found.extend(
                missing
                    .into_iter()
                    .map(|reason| format!("{file}: {PAGE} has no {reason}")),
            );
        }
    }
    Ok(found)
}

/// Adds the texts of the constants in a file, by their names: two modules may have one of the same name.
fn constants(text: &str, found: &mut BTreeMap<String, Vec<String>>) {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(CONSTANT));
    for line in lines {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        if let Some(value) = rest.split('"').nth(1) {
            found.entry(name.to_owned()).or_default().push(value.to_owned());
        }
    }
}

/// What a page does not name of the reasons for which a file makes Events.
fn missing(text: &str, reasons: &BTreeMap<String, Vec<String>>, page: &str) -> Vec<String> {
    let made = MAKERS.iter().flat_map(|maker| text.split(maker).skip(1));
    let words = made.flat_map(|call| {
        let arguments = call.split(';').next().unwrap_or_default();
        arguments.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
    });
    let values = words.filter_map(|word| reasons.get(word)).flatten();
    let mut missing: Vec<String> = values
        .filter(|reason| !page.contains(&format!("`{reason}`")))
        .cloned()
        .collect();
    missing.dedup();
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_the_page_does_not_list_is_found() {
        let mut reasons = BTreeMap::new();
        constants(
            "    pub const ODD: &str = \"Odd\";\npub const EVEN: &str = \"Even\";\n",
            &mut reasons,
        );
        let code = "let e = EventDraft::warning(about(x), reason::ODD, message);\nlet f = subscription_warning(\n  s,\n  EVEN,\n);";
        assert_eq!(missing(code, &reasons, "| `Even` | …"), ["Odd"]);
        assert_eq!(missing(code, &reasons, "`Even`, `Odd`"), Vec::<String>::new());
        assert_eq!(missing("x.is(ODD)", &reasons, ""), Vec::<String>::new());
    }

    #[test]
    fn this_repository_lists_its_events() {
        assert_eq!(unlisted().unwrap(), Vec::<String>::new());
        let draft =
            fs::read_to_string(workspace::root().join("crates/olm-operator/src/copied_csv/status.rs"))
                .unwrap();
        let reasons = BTreeMap::from([("COPY_REFUSED".to_owned(), vec!["CopyRefused".to_owned()])]);
        assert_eq!(
            missing(&draft, &reasons, ""),
            ["CopyRefused"],
            "makers have the names they had"
        );
    }
}
