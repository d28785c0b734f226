//! Image references derived from a bundle's name: the part of Go's templates that `--alpha-image-ref-template` needs.

use anyhow::{Context as _, bail};

/// A template with `{{.Package}}`, `{{.Name}}` and `{{.Version}}` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Package,
    Name,
    Version,
}

impl ImageTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// An unterminated action, or an action other than the three variables.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, tail)) = rest.split_once("{{") {
            let (action, tail) = tail
                .split_once("}}")
                .with_context(|| format!("image reference template {text:?}: `{{{{` is not closed"))?;
            parts.push(Part::Text(before.to_owned()));
            parts.push(match action.trim() {
                ".Package" => Part::Package,
                ".Name" => Part::Name,
                ".Version" => Part::Version,
                other => bail!(
                    "image reference template {text:?}: unknown `{{{{{other}}}}}`, use {{{{.Package}}}}, {{{{.Name}}}} or {{{{.Version}}}}"
                ),
            });
            rest = tail;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self(parts))
    }

    /// Returns the image reference for a bundle.
    pub(crate) fn fill(&self, package: &str, name: &str, version: &str) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Package => package.to_owned(),
            Part::Name => name.to_owned(),
            Part::Version => version.to_owned(),
        };
        self.0.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled() {
        let template =
            ImageTemplate::parse("quay.io/x/{{.Package}}:{{ .Name }}-v{{.Version}}!").expect("template");
        assert_eq!(template.fill("p", "p.v1", "1.0.0"), "quay.io/x/p:p.v1-v1.0.0!");
        assert_eq!(
            ImageTemplate::parse("plain")
                .expect("template")
                .fill("p", "n", "v"),
            "plain"
        );
    }

    #[test]
    fn mistakes_are_reported() {
        for (text, expected) in [
            ("a{{.Package", "`{{` is not closed"),
            ("a{{.Channel}}", "unknown `{{.Channel}}`"),
            ("{{if .Name}}", "unknown `{{if .Name}}`"),
        ] {
            let error = ImageTemplate::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
