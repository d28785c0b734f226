//! `opm lint`: problems of valid catalogs.

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use olm_authoring::lint::{Finding, Report, Rule, lint};
use olm_fbc::did_you_mean::suggestion;
use olm_fbc::load;
use olm_fbc::validate::Fault;
use serde_json::{Value, json};

use crate::args::{Format, LintArgs};
use crate::manifest_validator::EngineValidator;
use crate::printer;
use crate::source::check_directory;

/// Number of findings above which a summary per rule is printed.
const MANY: usize = 20;

/// Runs the command. Findings are printed to stdout, faults (of an invalid catalog) to stderr. The command fails if there are
/// any, so it can guard a pipeline.
pub(crate) fn run(args: &LintArgs) -> anyhow::Result<()> {
    let mut allowed = Vec::new();
    for name in &args.allow {
        let rules = Rule::value_variants();
        let rule = rules.iter().find(|rule| rule.name() == *name).with_context(|| {
            let known: Vec<String> = rules.iter().map(|rule| rule.name()).collect();
            let meant = suggestion(name, known.iter().map(String::as_str));
            format!("unknown rule {name:?}, known are {}{meant}", known.join(", "))
        })?;
        allowed.push(*rule);
    }
    check_directory(&args.directory)?;
    // A directory that cannot be read is a fault.
    if load::files(&args.directory).is_ok_and(|files| files.is_empty()) {
        printer::warning(&format!(
            "{} has no catalog files, so there is nothing to check",
            args.directory.display()
        ));
    }
    let Report { faults, mut findings } = lint(&args.directory, &EngineValidator);
    findings.retain(|finding| !allowed.contains(&finding.rule));
    let mut report = json!({ "findings": findings });
    if !faults.is_empty() {
        report["faults"] = faults.iter().map(fault_json).collect();
    }
    printer::data(&match args.output {
        None => findings.iter().map(|finding| format!("{finding}\n")).collect(),
        Some(Format::Json) => format!("{report:#}\n"),
        Some(Format::Yaml) => olm_fbc::yaml::to_string(&report)?,
    })?;
    if findings.len() > MANY {
        summary(&findings).iter().for_each(|line| printer::note(line));
    }
    let found = match findings.len() {
        0 => String::new(),
        1 => "1 finding (--allow <rule> turns a rule off)".to_owned(),
        count => format!("{count} findings (--allow <rule> turns a rule off)"),
    };
    match (faults.is_empty(), found.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => bail!("{found}"),
        (false, true) => bail!("{faults}"),
        (false, false) => bail!("{faults}\n{found}"),
    }
}

/// Returns the number of findings per rule.
fn summary(findings: &[Finding]) -> Vec<String> {
    let line = |rule: &Rule| {
        let count = findings.iter().filter(|finding| finding.rule == *rule).count();
        let value = rule.to_possible_value().filter(|_| count > 0)?;
        Some(format!("{count:>6} {}: {}", value.get_name(), value.get_help()?))
    };
    Rule::value_variants().iter().filter_map(line).collect()
}

fn fault_json(fault: &Fault) -> Value {
    let mut report = json!({"path": fault.path, "message": fault.message});
    if let Some(origin) = &fault.origin {
        report["file"] = json!(origin.to_string());
    }
    if let Some(hint) = &fault.hint {
        report["hint"] = json!(hint);
    }
    report
}
