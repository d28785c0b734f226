//! `opm validate`: every fault of a catalog directory.

use std::io;

use anyhow::bail;
use go_compat::json::{self, Html};
use serde_json::json;

use crate::args::ValidateArgs;
use crate::printer;

/// Nothing is printed for a valid catalog, unless a format is asked for.
pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<()> {
    let directory = args.directory.display().to_string();
    match std::fs::metadata(&args.directory) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => bail!("{directory:?} is not a directory"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("stat {directory}: no such file or directory")
        }
        Err(error) => bail!("stat {directory}: {error}"),
    }
    let write = match args.output.as_str() {
        "" => None,
        "json" => Some(json as fn(Option<String>) -> anyhow::Result<String>),
        "yaml" => Some(yaml as fn(Option<String>) -> anyhow::Result<String>),
        other => bail!("invalid --output value {other:?}, expected (json|yaml)"),
    };
    let result = olm_fbc::validate::validate(&args.directory);
    if let Some(write) = write {
        let message = result.as_ref().err().map(ToString::to_string);
        printer::data(&write(message)?)?;
    }
    result?;
    Ok(())
}

/// The report as upstream prints it: `passed` first, indented by two blanks, `<`, `>` and `&` escaped.
fn json(message: Option<String>) -> anyhow::Result<String> {
    Ok(match message {
        None => "{\n  \"passed\": true\n}\n".to_owned(),
        Some(message) => format!(
            "{{\n  \"passed\": false,\n  \"error\": {{\n    \"message\": {}\n  }}\n}}\n",
            json::to_string(&message.into(), Html::Escaped)
        ),
    })
}

/// The report as YAML, with the empty line behind it that upstream has.
fn yaml(message: Option<String>) -> anyhow::Result<String> {
    let report = match message {
        None => json!({"passed": true}),
        Some(message) => json!({"passed": false, "error": {"message": message}}),
    };
    Ok(olm_fbc::yaml::to_string(&report)? + "\n")
}
