//! `kubectl operator list-available`: prints the packages, or the channels and versions of one.

use serde_json::json;

use crate::args::look::AvailableArgs;
use crate::args::shared::ListFormat;
use crate::cluster::Cluster;
use crate::packages::{Channel, Package, Version, all, is_catalog, named};
use crate::reader::place;
use crate::table;
use crate::{Verdict, printer};

/// Prints the packages.
///
/// # Errors
/// The packages cannot be read, or there is no such package.
pub(crate) async fn run(args: &AvailableArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let (namespace, commands) = (cluster.namespace.as_str(), &cluster.commands);
    let wanted = (!args.all_namespaces).then_some(namespace);
    let mut packages = all(&cluster.client, wanted, commands).await?;
    let catalog = args.catalog.as_deref();
    match args.package() {
        Some(name) => packages = named(packages, name, catalog, namespace, commands)?,
        None => packages.retain(|package| catalog.is_none_or(|catalog| is_catalog(package, catalog))),
    }
    let is_wide = args.output == Some(ListFormat::Wide);
    match args.output.and_then(ListFormat::document) {
        Some(format) => {
            for package in &mut packages {
                // `describe` prints descriptions.
                package.description.clear();
            }
            printer::document(&json!({"packages": packages}), format)?;
        }
        None if packages.is_empty() => {
            printer::progress(&format!(
                "No packages in {}; see the catalogs with `{}`.",
                place(wanted),
                commands.suggest("catalog list", &[], None)
            ));
        }
        None if args.output == Some(ListFormat::Name) => {
            let resource = "packagemanifest.packages.operators.coreos.com";
            let named = packages.iter().map(|package| (resource, package.name.as_str()));
            printer::data(&table::names(named))?;
        }
        None if args.package().is_some() => printer::data(&versions_table(&packages, is_wide))?,
        None => printer::data(&table(&packages, is_wide))?,
    }
    Ok(Verdict::Fine)
}

fn table(packages: &[Package], is_wide: bool) -> String {
    let of_head =
        |package: &Package, of: fn(&Channel) -> String| package.head_channel().map(of).unwrap_or_default();
    table::of(
        packages,
        &[
            (true, "NAME", &|package| package.name.clone()),
            (true, "CATALOG", &|package| package.catalog_key()),
            (true, "CHANNEL", &|package| package.default_channel.clone()),
            (true, "VERSION", &|package| {
                of_head(package, |head| head.head_version.clone())
            }),
            (true, "NOTES", &|package| {
                deprecated("package", package.deprecated.as_ref()).unwrap_or_default()
            }),
            (is_wide, "DISPLAY", &|package| package.display_name.clone()),
            (is_wide, "PROVIDER", &|package| package.provider.clone()),
            (is_wide, "CHANNELS", &|package| {
                let names = package.channels.iter().map(|channel| channel.name.as_str());
                names.collect::<Vec<_>>().join(",")
            }),
            (is_wide, "INSTALL MODES", &|package| {
                of_head(package, |head| head.install_modes.join(","))
            }),
        ],
    )
}

fn versions_table(packages: &[Package], is_wide: bool) -> String {
    let channels = packages
        .iter()
        .flat_map(|package| package.channels.iter().map(move |channel| (package, channel)));
    let versions = channels.flat_map(|(package, channel)| {
        let versions = channel.versions.iter();
        versions.map(move |version| (package, channel, version))
    });
    let notes = |(package, channel, version): &(&Package, &Channel, &Version)| {
        let of_head = [
            (channel.name == package.default_channel).then(|| "default channel".to_owned()),
            Some("head".to_owned()),
            deprecated("package", package.deprecated.as_ref()),
            deprecated("channel", channel.deprecated.as_ref()),
        ];
        let of_head = of_head
            .into_iter()
            .flatten()
            .filter(|_| version.name == channel.head);
        let notes = of_head.chain(deprecated("version", version.deprecated.as_ref()));
        notes.collect::<Vec<String>>().join(", ")
    };
    table::of(
        &versions.collect::<Vec<_>>(),
        &[
            (true, "CATALOG", &|(package, ..)| package.catalog_key()),
            (true, "CHANNEL", &|(_, channel, _)| channel.name.clone()),
            (true, "VERSION", &|(.., version)| version.version.clone()),
            (is_wide, "CSV", &|(.., version)| version.name.clone()),
            (true, "NOTES", &notes),
        ],
    )
}

fn deprecated(what: &str, message: Option<&String>) -> Option<String> {
    message.map(|message| format!("{what} deprecated: {message}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};
    use crate::packages::tests::package;

    #[test]
    fn packages_are_listed_with_their_default_channels() {
        let mut old = package("old", "cat");
        old.deprecated = Some("use etcd".to_owned());
        let packages = [package("etcd", "cat"), old];
        insta::assert_snapshot!(table(&packages, false), @r"
        NAME   CATALOG   CHANNEL   VERSION   NOTES
        etcd   olm/cat   stable    1.1.0     <none>
        old    olm/cat   stable    1.1.0     package deprecated: use etcd
        ");
        insta::assert_snapshot!(table(&packages, true), @r"
        NAME   CATALOG   CHANNEL   VERSION   NOTES                          DISPLAY   PROVIDER   CHANNELS      INSTALL MODES
        etcd   olm/cat   stable    1.1.0     <none>                         Etcd      CNCF       beta,stable   OwnNamespace
        old    olm/cat   stable    1.1.0     package deprecated: use etcd   Etcd      CNCF       beta,stable   OwnNamespace
        ");
    }

    #[test]
    fn versions_are_listed_with_what_is_advised_against() {
        insta::assert_snapshot!(versions_table(&[package("etcd", "cat")], true), @r"
        CATALOG   CHANNEL   VERSION   CSV           NOTES
        olm/cat   beta      2.0.0     etcd.v2.0.0   head, channel deprecated: use stable
        olm/cat   beta      1.1.0     etcd.v1.1.0   <none>
        olm/cat   stable    1.1.0     etcd.v1.1.0   default channel, head
        olm/cat   stable    1.0.0     etcd.v1.0.0   version deprecated: it loses keys
        ");
    }

    #[test]
    fn a_package_may_be_named_with_a_flag() {
        for words in [&["etcd"][..], &["--package", "etcd"], &["--package=etcd"]] {
            let words = ["kubectl-operator", "list-available"].iter().chain(words);
            let Command::ListAvailable(args) = Args::try_parse_from(words).unwrap().command else {
                panic!("another command");
            };
            assert_eq!(args.package(), Some("etcd"));
        }
        let both = ["kubectl-operator", "list-available", "etcd", "--package", "etcd"];
        assert!(Args::try_parse_from(both).is_err());
    }
}
