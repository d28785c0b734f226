//! D18: offers of completion, requested as bash does.

mod support;

use std::collections::BTreeSet;
use std::process::Command;

use support::opm;

/// Returns the offers of bash for the last word of `line`, in a folder with `catalog/` and `template.yaml`.
fn offered(line: &str) -> BTreeSet<String> {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join("opm.bash"), opm(&["completion", "bash"]).ok()).expect("script");
    std::fs::create_dir(dir.path().join("catalog")).expect("folder");
    std::fs::write(dir.path().join("template.yaml"), "").expect("file");
    // `complete -F` passes command, current and previous word; `-o default` offers files if the function offers nothing.
    let asks = r#"
        source ./opm.bash
        IFS=' ' read -r -a COMP_WORDS <<< "$1"
        [[ $1 == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
        compopt() { :; }
        _opm opm "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        if [[ ${#COMPREPLY[@]} -eq 0 ]]; then
            complete -p opm | grep -q -- '-o default' && compgen -f -- "${COMP_WORDS[COMP_CWORD]}"
        else
            printf '%s\n' "${COMPREPLY[@]}"
        fi
    "#;
    let output = Command::new("bash")
        .args(["--norc", "-c", asks, "bash", line])
        .current_dir(dir.path())
        .output()
        .expect("bash runs");
    assert_eq!(output.stderr, b"", "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::to_owned).collect()
}

fn set<const N: usize>(words: [&str; N]) -> BTreeSet<String> {
    words.map(str::to_owned).into()
}

#[test]
fn d18_levels_and_rules_are_offered() {
    let levels = set(["none", "bundle-object-to-csv-metadata", "all"]);
    for command in [
        "render c",
        "migrate c d",
        "generate catalog c",
        "alpha render-template t",
    ] {
        assert_eq!(
            offered(&format!("opm {command} --migrate-level ")),
            levels,
            "{command}"
        );
    }
    let rules = offered("opm lint c --allow ");
    assert!(
        rules.contains("no-upgrade-path") && rules.contains("misspelling"),
        "{rules:?}"
    );
    assert_eq!(offered("opm lint c --allow no-u"), set(["no-upgrade-path"]));
    assert_eq!(offered("opm validate c -o "), set(["json", "yaml"]));
    assert_eq!(offered("opm graph c p --output "), set(["svg", "dot"]));
}

#[test]
fn d18_files_are_offered_for_arguments() {
    let files = set(["catalog", "opm.bash", "template.yaml"]);
    for command in [
        "render",
        "validate",
        "lint",
        "serve",
        "migrate",
        "graph",
        "generate catalog",
        "generate dockerfile",
        "alpha list bundles",
        "alpha image push",
        "alpha render-graph",
        "alpha render-template",
        "alpha convert-template basic",
        "init --icon",
    ] {
        assert_eq!(offered(&format!("opm {command} ")), files, "{command}");
        assert_eq!(
            offered(&format!("opm {command} cat")),
            set(["catalog"]),
            "{command}"
        );
    }
}

#[test]
fn d18_commands_and_flags_are_offered_and_hidden_ones_are_not() {
    assert_eq!(offered("opm re"), set(["render"]));
    assert!(offered("opm ").contains("validate"));
    assert_eq!(
        offered("opm alpha list "),
        set(["packages", "channels", "bundles", "help"])
    );
    assert_eq!(
        offered("opm render --migrate"),
        set(["--migrate", "--migrate-level"])
    );
    assert_eq!(
        offered("opm serve --"),
        set([
            "--cache-dir",
            "--cache-enforce-integrity",
            "--cache-only",
            "--cache-upstream",
            "--help",
            "--port",
            "--registry-config",
            "--skip-tls-verify",
            "--termination-log",
            "--use-http",
        ])
    );
    for shell in ["bash", "zsh", "fish"] {
        let script = opm(&["completion", shell]).ok();
        for hidden in [
            "pprof",
            "binary-image",
            "no-descriptions",
            "skip-tls ",
            "skip-tls[",
            "l debug",
        ] {
            assert!(!script.contains(hidden), "{shell} offers {hidden}");
        }
        assert!(script.contains("cache-upstream"), "{shell}");
    }
}

#[test]
fn d18_help_lists_levels_and_rules() {
    let help = opm(&["lint", "--help"]).ok();
    for part in [
        "- no-upgrade-path: ",
        "versions from which no upgrades lead to the channel's head",
    ] {
        assert!(help.contains(part), "`{part}` is missing in: {help}");
    }
    for arguments in [
        &["render", "--help"][..],
        &["migrate", "--help"],
        &["generate", "catalog", "--help"],
        &["alpha", "render-template", "--help"],
    ] {
        let help = opm(arguments).ok();
        assert!(
            help.contains("bundle-object-to-csv-metadata: migrates bundles'"),
            "{help}"
        );
    }
    // The short help lists the names.
    assert!(
        opm(&["lint", "-h"])
            .ok()
            .contains("[possible values: no-upgrade-path,")
    );
}
