//! `kubectl operator describe`: prints the details of a package from its catalog.

use anyhow::bail;
use serde_json::json;

use crate::args::look::DescribeArgs;
use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::packages::{Package, all, named, needs_group};
use crate::table::NONE;
use crate::terminal::plain;
use crate::{Verdict, printer};

/// Maximum number of lines shown of a description.
const MAX_LINES: usize = 40;
/// Maximum number of versions shown per channel.
const MAX_VERSIONS: usize = 10;

/// Prints a package.
///
/// # Errors
/// The package does not exist or cannot be read.
pub(crate) async fn run(args: &DescribeArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let (namespace, commands) = (cluster.namespace.as_str(), &cluster.commands);
    let packages = all(&cluster.client, Some(namespace), commands).await?;
    let packages = named(
        packages,
        &args.package,
        args.catalog.as_deref(),
        namespace,
        commands,
    )?;
    let channel = args.channel.as_deref().filter(|channel| !channel.is_empty());
    if let Some(wanted) = channel {
        let has = |package: &Package| package.channels.iter().any(|channel| channel.name == wanted);
        if !packages.iter().any(has) {
            bail!("channel {wanted:?} does not exist for package {:?}", args.package);
        }
    }
    match args.output {
        Some(format) => printer::document(&json!({"packages": packages}), format)?,
        None => {
            let asked = Asked {
                namespace,
                channel,
                is_long: args.with_long_description,
                needs_group: needs_group(&cluster.client, namespace).await,
            };
            let texts: Vec<String> = packages
                .iter()
                .map(|package| text(package, asked, commands))
                .collect();
            printer::data(&texts.join("\n"))?;
        }
    }
    Ok(Verdict::Fine)
}

/// Options of the output.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    namespace: &'a str,
    /// Channel to show; `None` for the default channel.
    channel: Option<&'a str>,
    /// True to show the whole description.
    is_long: bool,
    /// True if the namespace has no OperatorGroup.
    needs_group: bool,
}

fn text(package: &Package, asked: Asked<'_>, commands: &CommandLine) -> String {
    let namespace = asked.namespace;
    let mut lines = Vec::new();
    let mut field = |name: &str, value: &str| {
        let value = match value {
            "" => NONE.to_owned(),
            value => plain(value),
        };
        lines.push(format!("{:<17}{value}", format!("{name}:")));
    };
    let named = |name: &str| package.channels.iter().find(|channel| channel.name == name);
    let shown = asked.channel.and_then(named).or_else(|| package.head_channel());
    field("Name", &package.name);
    field("Display name", &package.display_name);
    field("Provider", &package.provider);
    field("Catalog", &package.catalog_key());
    if let Some(deprecated) = &package.deprecated {
        field("Deprecated", deprecated);
    }
    field("Default channel", &package.default_channel);
    if let Some(channel) = shown {
        if channel.name != package.default_channel {
            field("Channel", &channel.name);
        }
        field("Version", &channel.head_version);
        field("Install modes", &channel.install_modes.join(", "));
        if !channel.min_kube_version.is_empty() {
            field("Kubernetes", &format!("{} or newer", channel.min_kube_version));
        }
        if !channel.suggested_namespace.is_empty() {
            field("Suggested namespace", &channel.suggested_namespace);
        }
        field("Provides", &channel.provides.join(", "));
        field("Requires", &channel.requires.join(", "));
    }
    lines.push("Channels:".to_owned());
    for channel in &package.channels {
        let note = deprecated(channel.deprecated.as_deref());
        lines.push(format!("  {}{note}", plain(&channel.name)));
        for version in channel.versions.iter().take(MAX_VERSIONS) {
            let note = deprecated(version.deprecated.as_deref());
            let head = if version.name == channel.head {
                ", head"
            } else {
                ""
            };
            let (number, name) = (plain(&version.version), plain(&version.name));
            lines.push(format!("    {number} ({name}){head}{note}"));
        }
        let more = channel.versions.len().saturating_sub(MAX_VERSIONS);
        if more > 0 {
            let see = commands.suggest("list-available {}", &[&plain(&package.name)], Some(namespace));
            lines.push(format!("    and {more} more, see {see}"));
        }
    }
    if !package.description.trim().is_empty() {
        lines.push("Description:".to_owned());
        let limit = if asked.is_long { usize::MAX } else { MAX_LINES };
        let description: Vec<&str> = package.description.trim().lines().collect();
        lines.extend(description.iter().take(limit).map(|line| match plain(line) {
            line if line.is_empty() => line,
            line => format!("  {line}"),
        }));
        let more = description.len().saturating_sub(limit);
        if more > 0 {
            lines.push(format!(
                "  and {more} more lines; show all with --with-long-description"
            ));
        }
    }
    let channel = shown.map_or(package.default_channel.as_str(), |channel| channel.name.as_str());
    if let Some(install) = package.install_command(channel, commands, namespace, asked.needs_group) {
        lines.push(format!("Install it:      {install}"));
    }
    lines.join("\n") + "\n"
}

fn deprecated(why: Option<&str>) -> String {
    why.map(|why| format!(", deprecated: {}", plain(why)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tests::package;

    const SHOP: Asked<'_> = Asked {
        namespace: "shop",
        channel: None,
        is_long: false,
        needs_group: false,
    };

    #[test]
    fn a_channel_is_described_and_all_of_a_description() {
        let of = |channel, is_long| {
            let asked = Asked {
                channel,
                is_long,
                ..SHOP
            };
            let mut package = package("etcd", "cat");
            package.description = "x\n".repeat(100);
            text(&package, asked, &CommandLine::default())
        };
        let beta = of(Some("beta"), true);
        for part in [
            "Version:         2.0.0",
            "Channel:         beta",
            "--channel beta -n shop",
        ] {
            assert!(beta.contains(part), "{part}: {beta}");
        }
        assert!(!beta.contains("more lines"), "{beta}");
        let default = of(None, false);
        assert!(
            default.contains("Version:         1.1.0") && default.contains("and 60 more lines"),
            "{default}"
        );
    }

    #[test]
    fn a_package_is_described_for_people() {
        insta::assert_snapshot!(text(&package("etcd", "cat"), SHOP, &CommandLine::default()), @r"
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
        Install it:      kubectl operator install etcd --catalog olm/cat --channel stable -n shop
        ");
    }

    #[test]
    fn no_command_to_paste_is_written_by_a_catalog() {
        let mut package = package("etcd", "cat");
        assert!(text(&package, SHOP, &CommandLine::default()).contains("Install it:"));
        package.default_channel = "stable; rm -rf .".to_owned();
        assert!(!text(&package, SHOP, &CommandLine::default()).contains("Install it:"));
        let mut package = self::package("etcd", "cat; rm -rf .");
        assert!(!text(&package, SHOP, &CommandLine::default()).contains("Install it:"));
        package.catalog = "other".to_owned();
        assert!(text(&package, SHOP, &CommandLine::default()).contains("--catalog olm/other --channel"));
    }

    #[test]
    fn a_namespace_without_a_group_gets_one_by_the_command() {
        for (needs_group, end) in [
            (false, "stable -n shop"),
            (true, "stable --create-operator-group -n shop"),
        ] {
            let asked = Asked { needs_group, ..SHOP };
            let text = text(&package("etcd", "cat"), asked, &CommandLine::default());
            assert!(text.trim_end().ends_with(end), "{text}");
        }
    }

    #[test]
    fn an_endless_package_is_cut() {
        let mut endless = package("etcd", "cat");
        endless.description = "x\n".repeat(10_000);
        endless.channels[0].versions = vec![endless.channels[0].versions[0].clone(); 10_000];
        let told = text(&endless, SHOP, &CommandLine::default());
        assert!(told.lines().count() < 100, "{}", told.lines().count());
        assert!(
            told.contains("and 9990 more") && told.contains("and 9960 more lines"),
            "{told}"
        );
    }
}
