//! `opm validate`: every fault of a catalog directory.

use serde_json::json;

use crate::args::{Format, ValidateArgs};
use crate::printer;

/// Nothing is printed for a valid catalog, unless a format is asked for.
pub fn run(args: &ValidateArgs) -> anyhow::Result<()> {
    let result = olm_fbc::validate::validate(&args.directory);
    if let Some(format) = args.output {
        let report = match &result {
            Ok(_) => json!({"passed": true}),
            Err(faults) => json!({"passed": false, "error": {"message": faults.to_string()}}),
        };
        printer::data(&match format {
            Format::Json => format!("{report:#}\n"),
            Format::Yaml => olm_fbc::yaml::to_string(&report)?,
        })?;
    }
    result?;
    Ok(())
}
