//! Suggested commands, with the flags that lead to the same cluster. Pure.

use std::iter::{once, repeat};

use crate::args::ConnectionArgs;
use crate::args::shared::quoted;

/// Suggested commands for one cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandLine {
    /// Flags that select the cluster, each with a leading space.
    flags: String,
}

impl CommandLine {
    pub(crate) fn of(connection: &ConnectionArgs) -> Self {
        let context = connection.context.clone().map(|context| ("--context", context));
        let file = connection.kubeconfig.as_ref();
        let file = file.map(|file| ("--kubeconfig", file.display().to_string()));
        let user = connection.as_user.clone().map(|user| ("--as", user));
        let groups = connection.as_group.iter();
        let groups = groups.map(|group| ("--as-group", group.clone()));
        let flags = context.into_iter().chain(file).chain(user).chain(groups);
        let flags = flags.map(|(flag, value)| format!(" {flag} {}", quoted(&value)));
        Self {
            flags: flags.collect(),
        }
    }

    /// Returns the flags that select the same cluster, and a namespace or all (`-A`).
    pub(crate) fn flags(&self, namespace: Option<&str>) -> String {
        let place = namespace.map_or_else(
            || "-A".to_owned(),
            |namespace| format!("-n {}", quoted(namespace)),
        );
        format!("{place}{}", self.flags)
    }

    /// Returns a note with the flags to add to the commands in a text. `None` if there are no flags, or no command in the text.
    pub(crate) fn note(&self, text: &str) -> Option<String> {
        let has_command = text.contains("kubectl ") && !self.flags.is_empty();
        has_command.then(|| format!("To use the commands above with this cluster, add{}", self.flags))
    }

    /// Returns a command for a namespace or all namespaces, with a quoted name in place of each `{}`.
    pub(crate) fn suggest(&self, form: &str, names: &[&str], namespace: Option<&str>) -> String {
        format!(
            "kubectl operator {} {}",
            filled(form, names),
            self.flags(namespace)
        )
    }

    /// Returns a command for objects that belong to no namespace, with a quoted name in place of each `{}`.
    pub(crate) fn suggest_for_cluster(&self, form: &str, names: &[&str]) -> String {
        format!("kubectl operator {}{}", filled(form, names), self.flags)
    }

    /// Returns the same command for web pages. `None` if a name is not safe to paste into a shell, as catalogs and users choose
    /// names.
    pub(crate) fn offered(&self, form: &str, names: &[&str], namespace: Option<&str>) -> Option<String> {
        let fit = names.iter().copied().chain(namespace).all(is_name);
        fit.then(|| self.suggest(form, names, namespace))
    }
}

/// Returns a form with a quoted name in place of each `{}`.
fn filled(form: &str, names: &[&str]) -> String {
    let names = names.iter().map(|name| quoted(name)).chain(repeat(String::new()));
    let parts = form.split("{}").zip(once(String::new()).chain(names));
    parts.map(|(text, name)| name + text).collect()
}

/// Returns true for a word that needs no quotes and is no flag.
fn is_name(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-/".contains(letter);
    !text.is_empty() && text.chars().all(fits) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_for_the_same_cluster_and_never_of_a_catalogs_making() {
        let plain = CommandLine::default();
        let text = plain.offered("status {}", &["db"], Some("shop"));
        assert_eq!(text.as_deref(), Some("kubectl operator status db -n shop"));
        assert_eq!(
            plain.offered("list", &[], None).as_deref(),
            Some("kubectl operator list -A")
        );
        for word in ["a; rm -rf .", "$(x)", "a\nb", "", "'", "--yes", "{}"] {
            assert_eq!(
                plain.offered("describe {}", &[word], Some("shop")),
                None,
                "{word}"
            );
        }
        assert_eq!(plain.note("kubectl get csv"), None);
        let other = CommandLine::of(&ConnectionArgs {
            namespace: None,
            context: Some("it's mine".to_owned()),
            kubeconfig: Some("/tmp/config".into()),
            ..ConnectionArgs::default()
        });
        let as_other = CommandLine::of(&ConnectionArgs {
            as_user: Some("eve".to_owned()),
            as_group: vec!["a".to_owned(), "b c".to_owned()],
            ..ConnectionArgs::default()
        });
        assert_eq!(
            as_other.suggest("list", &[], None),
            "kubectl operator list -A --as eve --as-group a --as-group 'b c'"
        );
        assert_eq!(
            other.offered("list", &[], None).as_deref(),
            Some(r"kubectl operator list -A --context 'it'\''s mine' --kubeconfig /tmp/config")
        );
        assert_eq!(
            as_other.suggest_for_cluster("olmv1 get extension {}", &["a b"]),
            "kubectl operator olmv1 get extension 'a b' --as eve --as-group a --as-group 'b c'"
        );
        assert_eq!(other.note("nothing to do"), None);
        assert_eq!(
            other.note("kubectl get csv").as_deref(),
            Some(
                r"To use the commands above with this cluster, add --context 'it'\''s mine' --kubeconfig /tmp/config"
            )
        );
    }

    #[test]
    fn a_name_in_a_suggested_command_is_one_word() {
        let suggested =
            CommandLine::default().suggest("install {} --channel {}", &["{}", "a;b"], Some("$(x)"));
        assert_eq!(
            suggested,
            "kubectl operator install '{}' --channel 'a;b' -n '$(x)'"
        );
    }
}
