use std::ffi::OsString;

use clap::{Command as ClapCommand, CommandFactory as _};

use super::*;

/// Parses a flag of upstream's help: short form, name, default.
fn flag(line: &str) -> Option<(Option<char>, String, Option<String>)> {
    let line = line.trim_start();
    let (short, line) = match line.strip_prefix('-')?.strip_prefix('-') {
        Some(_) => (None, line),
        None => (line.chars().nth(1), line.get(2..)?.strip_prefix(", ")?),
    };
    let name = line.strip_prefix("--")?.split_whitespace().next()?.to_owned();
    let default = line
        .rsplit_once("(default \"")
        .map(|(_, rest)| rest.trim_end_matches(')').trim_end_matches('"').to_owned());
    Some((short, name, default))
}

fn command(path: &[&str]) -> ClapCommand {
    let mut command = Args::command();
    command.build();
    for name in path {
        command = command.find_subcommand(name).expect("command").clone();
    }
    command
}

/// Every flag and default of the recorded help texts exists, so scripts keep working.
#[test]
fn flags_are_upstreams() {
    let mut count = 0;
    for (file, path) in [
        ("help", &[][..]),
        ("help-alpha-convert-template", &["alpha", "convert-template"]),
        ("help-alpha-list-channels", &["alpha", "list", "channels"]),
        ("help-alpha-render-graph", &["alpha", "render-graph"]),
        ("help-alpha-render-template", &["alpha", "render-template"]),
        ("help-generate-dockerfile", &["generate", "dockerfile"]),
        ("help-init", &["init"]),
        ("help-migrate", &["migrate"]),
        ("help-render", &["render"]),
        ("help-serve", &["serve"]),
        ("help-validate", &["validate"]),
    ] {
        let Some(path_of_file) = olm_testing::shared::shared_path(&format!("golden/opm/{file}.txt")) else {
            return;
        };
        let help = std::fs::read_to_string(path_of_file).expect("help");
        let command = command(path);
        for (short, name, default) in help.lines().filter_map(flag) {
            count += 1;
            let found = command
                .get_arguments()
                .find(|argument| argument.get_long() == Some(name.as_str()))
                .unwrap_or_else(|| panic!("{path:?} lacks --{name}"));
            assert_eq!(found.get_short(), short, "{path:?} --{name}");
            // A flag that defaults to another flag's value has no default of its own here.
            if let Some(default) = default.filter(|_| name != "builder-image") {
                let ours: Vec<_> = found
                    .get_default_values()
                    .iter()
                    .map(|value| value.to_string_lossy())
                    .collect();
                assert!(
                    ours == [default.as_str()] || name == "pprof-addr",
                    "{path:?} --{name}: {ours:?}"
                );
            }
        }
        for line in help
            .lines()
            .skip_while(|line| !line.starts_with("Available Commands"))
        {
            let Some(name) = line
                .strip_prefix("  ")
                .and_then(|line| line.split_whitespace().next())
            else {
                continue;
            };
            if !name.starts_with('-') && line.starts_with("  ") && !line.starts_with("   ") {
                assert!(command.find_subcommand(name).is_some(), "{path:?} lacks {name}");
            }
        }
    }
    assert!(count > 40, "only {count} flags were looked at");
}

fn read(line: &[&str]) -> Args {
    pflag::parse(line.iter().map(OsString::from)).expect("a command line")
}

#[test]
fn letters_that_one_command_of_upstream_has_mean_what_they_mean_there() {
    let args = read(&["opm", "alpha", "bundle", "unpack", "-s", "-d", "-v", "image"]);
    assert_eq!((args.global.debug, args.global.skip_tls), (true, true));
    let args = read(&["opm", "alpha", "bundle", "unpack", "image"]);
    assert_eq!((args.global.debug, args.global.skip_tls), (false, false));
}

/// Scripts pass variables that may be empty.
#[test]
fn an_empty_value_of_a_flag_is_its_default() {
    for empty in [&["--cache-dir="][..], &["--cache-dir", ""]] {
        let line = [&["opm", "serve"][..], empty, &["catalog"]].concat();
        let Command::Serve(args) = read(&line).command else {
            unreachable!()
        };
        assert_eq!(
            (args.cache_dir, args.source_path),
            (None, PathBuf::from("catalog"))
        );
    }
    let line = ["opm", "serve", "catalog", "--cache-dir", "cache"];
    let Command::Serve(args) = read(&line).command else {
        unreachable!()
    };
    assert_eq!(args.cache_dir, Some(PathBuf::from("cache")));
    // Another command has `-c`, too, and needs its value.
    for empty in [&["--root-ca", ""][..], &["-c", ""]] {
        let line = [&["opm", "alpha", "bundle", "unpack"][..], empty, &["image"]].concat();
        let Command::Alpha(AlphaCommand::Bundle(BundleCommand::Unpack(args))) = read(&line).command else {
            unreachable!()
        };
        assert_eq!((args.root_ca, args.image.as_str()), (None, "image"));
    }
}
