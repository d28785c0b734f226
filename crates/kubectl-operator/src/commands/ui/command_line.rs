//! The command beside what a page shows or does. Pure.

use crate::args::ConnectionArgs;
use crate::args::shared::quoted;

/// Commands for the cluster that is looked at.
#[derive(Debug, Default)]
pub(super) struct CommandLine {
    /// Flags that find the cluster.
    flags: String,
}

impl CommandLine {
    pub(super) fn of(connection: &ConnectionArgs) -> Self {
        let context = connection
            .context
            .iter()
            .map(|context| ("--context", context.clone()));
        let file = connection.kubeconfig.iter();
        let file = file.map(|file| ("--kubeconfig", file.display().to_string()));
        let flags = context
            .chain(file)
            .map(|(flag, value)| format!(" {flag} {}", quoted(&value)));
        Self {
            flags: flags.collect(),
        }
    }

    /// A command about a namespace or all, with a name in place of each `{}`; none where a name is not fit for a shell: it is written by
    /// a catalog or a cluster.
    pub(super) fn text(&self, form: &str, names: &[&str], namespace: Option<&str>) -> Option<String> {
        let place = namespace.map_or_else(|| "-A".to_owned(), |namespace| format!("-n {namespace}"));
        let fit = names.iter().copied().chain(namespace).all(is_name);
        let text = names
            .iter()
            .fold(form.to_owned(), |text, name| text.replacen("{}", name, 1));
        fit.then(|| format!("kubectl operator {text} {place}{}", self.flags))
    }
}

fn is_word(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-/".contains(letter);
    !text.is_empty() && text.chars().all(fits)
}

/// No flag, either.
fn is_name(text: &str) -> bool {
    is_word(text) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_for_the_same_cluster_and_never_of_a_catalogs_making() {
        let plain = CommandLine::default();
        let text = plain.text("status {}", &["db"], Some("shop"));
        assert_eq!(text.as_deref(), Some("kubectl operator status db -n shop"));
        assert_eq!(
            plain.text("list", &[], None).as_deref(),
            Some("kubectl operator list -A")
        );
        for word in ["a; rm -rf .", "$(x)", "a\nb", "", "'", "--yes", "{}"] {
            assert_eq!(plain.text("describe {}", &[word], Some("shop")), None, "{word}");
        }
        let other = CommandLine::of(&ConnectionArgs {
            namespace: None,
            context: Some("it's mine".to_owned()),
            kubeconfig: Some("/tmp/config".into()),
        });
        assert_eq!(
            other.text("list", &[], None).as_deref(),
            Some(r"kubectl operator list -A --context 'it'\''s mine' --kubeconfig /tmp/config")
        );
    }
}
