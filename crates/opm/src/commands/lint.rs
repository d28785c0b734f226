//! `opm lint`: what validates but will hurt.

use anyhow::{Context as _, bail};
use olm_authoring::lint::{Rule, lint_with};
use serde_json::json;

use crate::args::{Format, LintArgs};
use crate::manifest_validator::EngineValidator;
use crate::printer;

/// Findings go to stdout; if there are any the command fails, so that it can guard a pipeline.
pub(crate) fn run(args: &LintArgs) -> anyhow::Result<()> {
    let mut allowed = Vec::new();
    for name in &args.allow {
        let rule = Rule::parse(name).with_context(|| {
            let known = Rule::ALL.map(Rule::name);
            format!("unknown rule {name:?}, known are {}", known.join(", "))
        })?;
        allowed.push(rule);
    }
    let mut findings = lint_with(&args.directory, &EngineValidator)?;
    findings.retain(|finding| !allowed.contains(&finding.rule));
    let report = json!({ "findings": findings });
    printer::data(&match args.output {
        None => findings.iter().map(|finding| format!("{finding}\n")).collect(),
        Some(Format::Json) => format!("{report:#}\n"),
        Some(Format::Yaml) => olm_fbc::yaml::to_string(&report)?,
    })?;
    match findings.len() {
        0 => Ok(()),
        1 => bail!("1 finding (--allow <rule> leaves a rule out)"),
        count => bail!("{count} findings (--allow <rule> leaves a rule out)"),
    }
}
