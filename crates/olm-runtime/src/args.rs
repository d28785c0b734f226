//! What the command lines of the operators have in common.

use std::ffi::OsString;

/// The two lines upstream's binaries print for `--version`.
pub fn version_text(version: &str, commit: &str) -> String {
    format!("OLM version: {version}\ngit commit: {commit}\n")
}

/// Flags of the logging library of upstream's programs, which stand in the arguments of Deployments; whether each takes a value that
/// is an argument of its own. What is logged here is said by `--debug` and by `OLM_LOG`.
const OF_UPSTREAMS_LOG: [(&str, bool); 14] = [
    ("--add_dir_header", false),
    ("--alsologtostderr", false),
    ("--legacy_stderr_threshold_behavior", false),
    ("--log_backtrace_at", true),
    ("--log_dir", true),
    ("--log_file", true),
    ("--log_file_max_size", true),
    ("--logtostderr", false),
    ("--one_output", false),
    ("--skip_headers", false),
    ("--skip_log_headers", false),
    ("--stderrthreshold", true),
    ("--v", true),
    ("--vmodule", true),
];
/// Short for `--v`; its value may follow at once.
const VERBOSITY: &str = "-v";

/// Whether it is `-v`, or that with a level.
fn is_verbosity(name: &str) -> bool {
    let level = name.strip_prefix(VERBOSITY);
    level.is_some_and(|level| level.bytes().all(|letter| letter.is_ascii_digit()))
}

/// Arguments without the flags of upstream's logging library, and which of these were given.
pub fn without_log_flags(all: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<&'static str>) {
    let (mut kept, mut found) = (Vec::new(), Vec::new());
    let mut all = all.into_iter();
    while let Some(argument) = all.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == "--" {
            kept.push(argument);
            kept.extend(all);
            break;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let known = OF_UPSTREAMS_LOG.iter().find(|(flag, _)| *flag == name);
        if let Some((flag, takes_value)) = known {
            found.push(*flag);
            if *takes_value && value.is_none() {
                all.next();
            }
        } else if is_verbosity(name) {
            found.push(VERBOSITY);
            if text == VERBOSITY {
                all.next();
            }
        } else {
            kept.push(argument);
        }
    }
    (kept, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, kept: &str, found: &[&str]) {
        let (rest, flags) = without_log_flags(given.split(' ').map(OsString::from));
        let rest: Vec<&str> = rest.iter().filter_map(|argument| argument.to_str()).collect();
        assert_eq!(rest.join(" "), kept, "{given}");
        assert_eq!(flags, found, "{given}");
    }

    #[test]
    fn flags_of_upstreams_log_are_taken_out_with_their_values() {
        check("olm --namespace olm --debug", "olm --namespace olm --debug", &[]);
        check(
            "olm --logtostderr --namespace olm --vmodule=a=2 --stderrthreshold INFO --debug",
            "olm --namespace olm --debug",
            &["--logtostderr", "--vmodule", "--stderrthreshold"],
        );
        check(
            "olm --logtostderr=true --version",
            "olm --version",
            &["--logtostderr"],
        );
        for given in ["olm -v 4 --debug", "olm -v=4 --debug", "olm -v4 --debug"] {
            check(given, "olm --debug", &["-v"]);
        }
        check("olm --v=2 --v 3", "olm", &["--v", "--v"]);
        check("olm -- --v=2", "olm -- --v=2", &[]);
        check("olm -verbose -vv=2", "olm -verbose -vv=2", &[]);
    }
}
