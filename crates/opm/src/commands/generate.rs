//! `opm generate`: Dockerfiles for catalogs, and catalogs from bundle directories.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::args::{DockerfileArgs, GenerateCommand, OPM_IMAGE};
use crate::nearest;
use crate::printer;
use olm_api::labels::INDEX_CONFIGS;

mod catalog;

pub(crate) fn run(command: &GenerateCommand) -> anyhow::Result<()> {
    match command {
        GenerateCommand::Catalog(args) => catalog::run(args),
        GenerateCommand::Dockerfile(args) => dockerfile(args),
    }
}

fn dockerfile(args: &DockerfileArgs) -> anyhow::Result<()> {
    let base = args.binary_image.as_ref().unwrap_or(&args.base_image);
    let builder = args
        .builder_image
        .as_deref()
        .unwrap_or_else(|| args.binary_image.as_deref().unwrap_or(OPM_IMAGE));
    if builder == "scratch" {
        bail!("invalid builder image: {builder:?}");
    }
    if base.is_empty() {
        bail!("base image is unset");
    }
    if args.binary_image.is_some() {
        printer::note("Flag --binary-image has been deprecated, use --base-image instead");
    }
    let mut pairs = Vec::new();
    for value in &args.extra_labels {
        pairs.extend(split_quoted(value)?);
    }
    let labels = parse_labels(&pairs)?;
    // Handles `./catalog/` and `a/../catalog`: the name of the file must be that of the directory.
    let directory: PathBuf = args.directory.components().collect();
    let (parent, name) = match directory.components().next_back() {
        Some(Component::Normal(name)) => (directory.parent(), name.to_string_lossy().into_owned()),
        // `.` gives `..Dockerfile`, as upstream does.
        Some(dots @ (Component::CurDir | Component::ParentDir)) => {
            (None, dots.as_os_str().to_string_lossy().into_owned())
        }
        _ => bail!(
            "cannot name a Dockerfile after {}: it has no directory name",
            directory.display()
        ),
    };
    let path = parent.unwrap_or(Path::new("")).join(format!("{name}.Dockerfile"));
    if path.exists() {
        bail!("path {:?}: file already exists", path.display().to_string());
    }
    if !directory.is_dir() {
        bail!(
            "provided root path {:?} is not a directory{}",
            directory.display().to_string(),
            nearest::path(&directory)
        );
    }
    let text = dockerfile_text(&name, base, builder, &labels);
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Splits a line of comma-separated values; quoted values may contain commas and doubled quotes.
fn split_quoted(line: &str) -> anyhow::Result<Vec<String>> {
    if line.is_empty() {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    let mut rest = line;
    loop {
        let mut part = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let (text, after) = quoted
                    .split_once('"')
                    .with_context(|| format!("invalid labels {line:?}: a quote is not closed"))?;
                part.push_str(text);
                match after.strip_prefix('"') {
                    Some(more) => {
                        part.push('"');
                        quoted = more;
                    }
                    None => {
                        rest = after;
                        break;
                    }
                }
            }
            if !rest.is_empty() && !rest.starts_with(',') {
                bail!("invalid labels {line:?}: text behind a closing quote");
            }
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            part.push_str(&rest[..end]);
            rest = &rest[end..];
            if part.contains('"') {
                bail!("invalid labels {line:?}: a quote inside an unquoted part");
            }
        }
        parts.push(part);
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Ok(parts),
        }
    }
}

/// Parses labels; the last value of a repeated key is used.
fn parse_labels(labels: &[String]) -> anyhow::Result<BTreeMap<&str, &str>> {
    labels
        .iter()
        .map(|label| {
            label
                .split_once('=')
                .with_context(|| format!("invalid label {label:?}"))
        })
        .collect()
}

fn dockerfile_text(directory: &str, base: &str, builder: &str, labels: &BTreeMap<&str, &str>) -> String {
    let mut text = format!(
        "# Checks the catalog and makes the cache that it is served from. Needs /bin/opm.
FROM {builder} as builder
ADD {directory} /configs
RUN [\"/bin/opm\", \"serve\", \"/configs\", \"--cache-dir=/tmp/cache\", \"--cache-only\"]

FROM {base}
"
    );
    text.push_str(if base == "scratch" {
        "# There is no program in this image. A CatalogSource for it needs:
# spec:
#   grpcPodConfig:
#     extractContent:
#       catalogDir: /configs
#       cacheDir: /tmp/cache
"
    } else {
        "# Needs /bin/opm and /bin/grpc_health_probe.
ENTRYPOINT [\"/bin/opm\"]
CMD [\"serve\", \"/configs\", \"--cache-dir=/tmp/cache\"]
"
    });
    let _ = write!(
        text,
        "
COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache

# Where tools find the catalog
LABEL {INDEX_CONFIGS}=/configs
"
    );
    for (key, value) in labels {
        let _ = writeln!(text, "LABEL \"{key}\"=\"{value}\"");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dockerfile_makes_a_catalog_image() {
        let labels = BTreeMap::from([("a", "b"), ("c", "d=e")]);
        insta::assert_snapshot!(dockerfile_text("catalog", "base:1", "builder:1", &labels), @r#"
        # Checks the catalog and makes the cache that it is served from. Needs /bin/opm.
        FROM builder:1 as builder
        ADD catalog /configs
        RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

        FROM base:1
        # Needs /bin/opm and /bin/grpc_health_probe.
        ENTRYPOINT ["/bin/opm"]
        CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]

        COPY --from=builder /configs /configs
        COPY --from=builder /tmp/cache /tmp/cache

        # Where tools find the catalog
        LABEL operators.operatorframework.io.index.configs.v1=/configs
        LABEL "a"="b"
        LABEL "c"="d=e"
        "#);
        let scratch = dockerfile_text("catalog", "scratch", "builder:1", &BTreeMap::new());
        assert!(scratch.contains("extractContent") && !scratch.contains("ENTRYPOINT"));
    }

    #[test]
    fn labels_come_as_comma_separated_values() {
        for (line, expected) in [
            ("", Some(vec![])),
            ("a=1,b=2", Some(vec!["a=1", "b=2"])),
            ("\"a=1,2\",b=\\", Some(vec!["a=1,2", "b=\\"])),
            ("\"a=\"\"q\"\"\"", Some(vec!["a=\"q\""])),
            ("a=1,", Some(vec!["a=1", ""])),
            ("a=\"q\"", None),
            ("\"a=1", None),
            ("\"a=1\"x", None),
        ] {
            let found = split_quoted(line).ok();
            assert_eq!(
                found,
                expected.map(|parts| parts.into_iter().map(str::to_owned).collect()),
                "{line}"
            );
        }
    }

    #[test]
    fn labels_are_key_and_value() {
        let labels = ["a=1".to_owned(), "b=x=y".to_owned(), "a=2".to_owned()];
        assert_eq!(
            parse_labels(&labels).expect("labels"),
            BTreeMap::from([("a", "2"), ("b", "x=y")])
        );
        assert!(parse_labels(&["a".to_owned()]).is_err());
    }
}
