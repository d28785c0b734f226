//! `opm alpha list`: the content of a catalog, in columns.

use std::collections::BTreeMap;

use olm_authoring::bundle::object;
use olm_fbc::channel::Graph;
use olm_fbc::did_you_mean::suggestion;
use olm_fbc::printable::escape;
use olm_fbc::schema::{Blob, Bundle};
use olm_fbc::validate::{Model, PackageModel, check};

use crate::args::ListCommand;
use crate::printer;
use crate::settings::Settings;
use crate::source::load_catalog_reference;

pub(crate) async fn run(command: &ListCommand, settings: &Settings) -> anyhow::Result<()> {
    let (reference, package) = match command {
        ListCommand::Packages { catalog } => (catalog, None),
        ListCommand::Channels(args) | ListCommand::Bundles(args) => (
            &args.catalog,
            args.package.as_deref().filter(|package| !package.is_empty()),
        ),
    };
    let blobs = match load_catalog_reference(reference, settings).await {
        Err(error) if error.is::<crate::source::NotACatalog>() => {
            anyhow::bail!("cannot list non-index {reference:?}");
        }
        result => result?,
    };
    let model = check(&blobs, reference)?;
    let packages = pick(&model, package)?;
    printer::data(&columns(&match command {
        ListCommand::Packages { .. } => packages_table(&packages, &blobs),
        ListCommand::Channels(_) => channels_table(&packages),
        ListCommand::Bundles(_) => bundles_table(&packages),
    }))
}

fn pick<'a>(model: &'a Model, package: Option<&str>) -> anyhow::Result<Vec<(&'a String, &'a PackageModel)>> {
    let Some(package) = package else {
        return Ok(model.packages.iter().collect());
    };
    match model.packages.get_key_value(package) {
        Some(found) => Ok(vec![found]),
        None => anyhow::bail!(
            "package {package:?} not found{}",
            suggestion(package, model.packages.keys().map(String::as_str))
        ),
    }
}

fn row(cells: [&str; 3]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn packages_table(packages: &[(&String, &PackageModel)], blobs: &[Blob]) -> Vec<Vec<String>> {
    let bundles: BTreeMap<(&str, &str), &Bundle> = blobs
        .iter()
        .filter_map(|blob| match blob {
            Blob::Bundle(bundle) => Some(((bundle.package.as_str(), bundle.name.as_str()), bundle)),
            _ => None,
        })
        .collect();
    let display_name = |name: &str, package: &PackageModel| -> Option<String> {
        let channel = package.channels.get(&package.package.default_channel)?;
        let head = Graph::new(&channel.entries).head().ok()?;
        let bundle = bundles.get(&(name, head))?;
        let field = object::csv_field(bundle, "displayName")?;
        Some(field.as_str()?.to_owned())
    };
    let mut table = vec![row(["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"])];
    for (name, package) in packages {
        let display = display_name(name, package).unwrap_or_default();
        table.push(row([name, &display, &package.package.default_channel]));
    }
    table
}

fn channels_table(packages: &[(&String, &PackageModel)]) -> Vec<Vec<String>> {
    let mut table = vec![row(["PACKAGE", "CHANNEL", "HEAD"])];
    for (name, package) in packages {
        for (channel_name, channel) in &package.channels {
            let head = match Graph::new(&channel.entries).head() {
                Ok(head) => head.to_owned(),
                Err(error) => format!("ERROR: {error}"),
            };
            table.push(row([name, channel_name, &head]));
        }
    }
    table
}

fn bundles_table(packages: &[(&String, &PackageModel)]) -> Vec<Vec<String>> {
    let heads = [
        "PACKAGE",
        "CHANNEL",
        "BUNDLE",
        "REPLACES",
        "SKIPS",
        "SKIP RANGE",
        "IMAGE",
    ];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    for (name, package) in packages {
        for (channel_name, channel) in &package.channels {
            let mut entries: Vec<_> = channel.entries.iter().collect();
            entries.sort_by_key(|entry| &entry.name);
            for entry in entries {
                let bundle = package.bundles.get(&entry.name);
                table.push(vec![
                    (*name).clone(),
                    channel_name.clone(),
                    entry.name.clone(),
                    entry.replaces.clone(),
                    entry.skips.join(","),
                    entry.skip_range.clone(),
                    bundle.map(|bundle| bundle.image.clone()).unwrap_or_default(),
                ]);
            }
        }
    }
    table
}

/// Formats rows with columns two blanks apart; the last column is not padded. A cell is one line without terminal control
/// sequences.
fn columns(table: &[Vec<String>]) -> String {
    let cell = |cell: &String| escape(&cell.replace('\n', " "));
    let rows = table.iter().map(|row| row.iter().map(cell).collect());
    let table: Vec<Vec<String>> = rows.collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &table {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &table {
        for (index, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if index + 1 < row.len() {
                let blanks = widths[index] + 2 - cell.chars().count();
                text.extend(std::iter::repeat_n(' ', blanks));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_two_blanks_apart() {
        let table = [row(["A", "LONG", "X"]), row(["ab", "", "é"]), row(["é", "x", ""])];
        assert_eq!(columns(&table), "A   LONG  X\nab        é\né   x     \n");
    }

    #[test]
    fn no_name_of_a_catalog_is_obeyed_by_a_terminal() {
        let table = [row(["a\u{1b}[2J", "b\nc", "\u{202e}d"])];
        assert_eq!(columns(&table), "a\\u{1b}[2J  b c  \\u{202e}d\n");
    }
}
