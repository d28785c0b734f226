//! `opm validate`: reports every fault of a catalog directory.

use anyhow::bail;
use go_compat::json::{self, Html};
use serde_json::json;

use crate::args::ValidateArgs;
use crate::manifest_validator::check_csv;
use crate::printer;
use crate::source::check_directory;

/// Runs the command. For a valid catalog stdout is empty, unless a format is requested. Misspelt names, data without effect and
/// ClusterServiceVersions that clusters cannot read cause warnings.
pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<()> {
    check_directory(&args.directory)?;
    let write = match args.output.as_str() {
        "" => None,
        "json" => Some(json as fn(Option<String>) -> anyhow::Result<String>),
        "yaml" => Some(yaml as fn(Option<String>) -> anyhow::Result<String>),
        other => bail!("invalid --output value {other:?}, expected (json|yaml)"),
    };
    let report = olm_fbc::validate::report(&args.directory, Some(check_csv));
    for (warning, origin) in &report.warnings {
        printer::warning(&format!("{warning} ({origin})"));
    }
    if report.faults.is_empty() {
        for (misspelling, origin) in &report.misspellings {
            printer::warning(&format!("{misspelling} ({origin})"));
        }
    }
    let result = report.into_result();
    if let Some(write) = write {
        let message = result.as_ref().err().map(ToString::to_string);
        printer::data(&write(message)?)?;
    }
    result?;
    Ok(())
}

/// Returns the report as upstream prints it: `passed` first, indented by two blanks, `<`, `>` and `&` escaped.
fn json(message: Option<String>) -> anyhow::Result<String> {
    Ok(match message {
        None => "{\n  \"passed\": true\n}\n".to_owned(),
        Some(message) => format!(
            "{{\n  \"passed\": false,\n  \"error\": {{\n    \"message\": {}\n  }}\n}}\n",
            json::to_string(&message.into(), Html::Escaped)
        ),
    })
}

/// Returns the report as YAML, with upstream's trailing empty line.
fn yaml(message: Option<String>) -> anyhow::Result<String> {
    let report = match message {
        None => json!({"passed": true}),
        Some(message) => json!({"passed": false, "error": {"message": message}}),
    };
    Ok(olm_fbc::yaml::to_string(&report)? + "\n")
}
