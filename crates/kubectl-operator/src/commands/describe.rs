//! `kubectl operator describe`: what a package is, as its catalog tells it.

use serde_json::json;

use crate::args::packages::DescribeArgs;
use crate::args::shared::Format;
use crate::cluster::Cluster;
use crate::packages::{Package, all, named};
use crate::table::NONE;
use crate::terminal::plain;
use crate::{Verdict, printer};

/// Lines of a description that are shown.
const MAX_LINES: usize = 40;
/// Versions of a channel that are shown.
const MAX_VERSIONS: usize = 10;

/// Prints it.
///
/// # Errors
/// It cannot be read, or there is no such package.
pub(crate) async fn run(args: &DescribeArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let packages = all(&cluster.client, &cluster.namespace).await?;
    let packages = named(packages, &args.package, args.catalog.as_deref())?;
    match args.output {
        Some(format @ (Format::Json | Format::Yaml)) => {
            printer::document(&json!({"packages": packages}), format)?;
        }
        _ => {
            let texts: Vec<String> = packages
                .iter()
                .map(|package| text(package, &cluster.namespace))
                .collect();
            printer::data(&texts.join("\n"))?;
        }
    }
    Ok(Verdict::Fine)
}

fn text(package: &Package, namespace: &str) -> String {
    let mut lines = Vec::new();
    let mut field = |name: &str, value: &str| {
        let value = match value {
            "" => NONE.to_owned(),
            value => plain(value),
        };
        lines.push(format!("{:<17}{value}", format!("{name}:")));
    };
    let default = package.head_channel();
    field("Name", &package.name);
    field("Display name", &package.display_name);
    field("Provider", &package.provider);
    field("Catalog", &package.catalog_key());
    if let Some(deprecated) = &package.deprecated {
        field("Deprecated", deprecated);
    }
    field("Default channel", &package.default_channel);
    if let Some(channel) = default {
        field("Version", &channel.head_version);
        field("Install modes", &channel.install_modes.join(", "));
        if !channel.min_kube_version.is_empty() {
            field("Kubernetes", &format!("{} or newer", channel.min_kube_version));
        }
        field("Provides", &channel.provides.join(", "));
        field("Requires", &channel.requires.join(", "));
    }
    lines.push("Channels:".to_owned());
    for channel in &package.channels {
        let note = channel
            .deprecated
            .as_ref()
            .map(|text| format!(", deprecated: {text}"));
        lines.push(format!("  {}{}", plain(&channel.name), plain_note(note)));
        for version in channel.versions.iter().take(MAX_VERSIONS) {
            let note = version
                .deprecated
                .as_ref()
                .map(|text| format!(", deprecated: {text}"));
            let head = if version.name == channel.head {
                ", head"
            } else {
                ""
            };
            let (number, name) = (plain(&version.version), plain(&version.name));
            lines.push(format!("    {number} ({name}){head}{}", plain_note(note)));
        }
        let more = channel.versions.len().saturating_sub(MAX_VERSIONS);
        if more > 0 {
            lines.push(format!(
                "    and {more} more, see kubectl operator list-available {}",
                plain(&package.name)
            ));
        }
    }
    if !package.description.trim().is_empty() {
        lines.push("Description:".to_owned());
        let description: Vec<&str> = package.description.trim().lines().collect();
        lines.extend(description.iter().take(MAX_LINES).map(|line| match plain(line) {
            line if line.is_empty() => line,
            line => format!("  {line}"),
        }));
        let more = description.len().saturating_sub(MAX_LINES);
        if more > 0 {
            lines.push(format!("  and {more} lines more; -o json has all"));
        }
    }
    // Meant for a shell, and written by the catalog.
    let is_word = |text: &str| {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-/".contains(letter);
        !text.is_empty() && text.chars().all(fits)
    };
    let (name, channel) = (&package.name, &package.default_channel);
    if is_word(name) && is_word(channel) {
        lines.push(format!(
            "Install it:      kubectl operator install {name} --channel {channel} -n {namespace}"
        ));
    }
    lines.join("\n") + "\n"
}

fn plain_note(note: Option<String>) -> String {
    note.map(|note| plain(&note)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tests::package;

    #[test]
    fn a_package_is_described_for_people() {
        insta::assert_snapshot!(text(&package("etcd", "cat"), "shop"), @r"
        Name:            etcd
        Display name:    Etcd
        Provider:        CNCF
        Catalog:         olm/cat
        Default channel: stable
        Version:         1.1.0
        Install modes:   OwnNamespace
        Kubernetes:      1.30.0 or newer
        Provides:        Etcd (etcds.example.com)
        Requires:        Disk (disks.example.com)
        Channels:
          beta, deprecated: use stable
            2.0.0 (etcd.v2.0.0), head
            1.1.0 (etcd.v1.1.0)
          stable
            1.1.0 (etcd.v1.1.0), head
            1.0.0 (etcd.v1.0.0), deprecated: it loses keys
        Description:
          Keeps \u{1b}[2Jkeys.

          And values.
        Install it:      kubectl operator install etcd --channel stable -n shop
        ");
    }

    #[test]
    fn no_command_to_paste_is_written_by_a_catalog() {
        let mut package = package("etcd", "cat");
        assert!(text(&package, "shop").contains("Install it:"));
        package.default_channel = "stable; rm -rf .".to_owned();
        assert!(!text(&package, "shop").contains("Install it:"));
    }

    #[test]
    fn an_endless_package_is_cut() {
        let mut endless = package("etcd", "cat");
        endless.description = "x\n".repeat(10_000);
        endless.channels[0].versions = vec![endless.channels[0].versions[0].clone(); 10_000];
        let told = text(&endless, "shop");
        assert!(told.lines().count() < 100, "{}", told.lines().count());
        assert!(
            told.contains("and 9990 more") && told.contains("and 9960 lines more"),
            "{told}"
        );
    }
}
