//! The command line of `cargo xtask`. Each command has one variant here and one module that runs it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Everything a developer of this workspace runs.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about,
    disable_help_subcommand = true
)]
pub struct Arguments {
    /// What to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// A real Kubernetes on this machine, for tests, demo and benchmarks
    #[command(long_about = CLUSTER_ABOUT, after_long_help = CLUSTER_EXAMPLES)]
    Cluster(ClusterOptions),
    /// Boot the embedded Kubernetes, install and upgrade an operator with OLM, show it
    ///
    /// Does all set-up itself. The cluster stays for you to look around; the last lines say how to stop it.
    Demo(DemoOptions),
    /// Set up what tests need and run all of them, those against the embedded cluster included
    Test(TestOptions),
    /// Build the static programs and their images, and push them when a cluster is named
    ///
    /// Writes target/images/{olm,opm,demo-operator-…}.tar and prints each with its digest and size.
    Images(ImageOptions),
    /// Install OLM from `manifests/` and wait until its operators are ready
    Deploy(TargetOptions),
    /// Measure the main job on the embedded cluster and print it beside upstream's figures
    Bench(BenchOptions),
    /// Hold what OLM's accounts asked of the API server, by its audit log, against the rights that the chart gives them
    ///
    /// Prints faults: requests that were refused for want of a right, and wide rights without a reason in
    /// crates/xtask/src/rights/reasons.yaml. `cargo xtask test` does this at the end of its tests against the cluster.
    Rights {
        /// The embedded cluster whose audit log is read
        #[arg(long, default_value = "e2e")]
        name: String,
    },
    /// Make a release: programs, images, chart, manifests, a krew manifest, bills of materials, licences, checksums
    #[command(long_about = RELEASE_ABOUT, after_long_help = RELEASE_EXAMPLES)]
    Release(ReleaseOptions),
    /// Check what holds for all of the code: dependencies, formatting, lints, generated files, links, licences
    ///
    /// The table of who may depend on whom is crates/structure.yaml. Links need lychee, licences and advisories need cargo-deny; without
    /// them these checks are left out, and said to be. `cargo xtask test` makes these checks too.
    Check,
    /// Write generated files anew: names of fields, from `manifests/crds`; `manifests/olm` and `manifests/install.yaml`, from the
    /// chart; `docs/reference/messages.md`, from the texts in the sources
    ///
    /// The chart is rendered by helm, which is built with Go.
    Gen {
        /// Write nothing, fail if a file is not up to date
        #[arg(long)]
        check: bool,
    },
}

/// Where to install.
#[derive(Debug, Clone, Args)]
pub struct TargetOptions {
    /// The cluster's name
    #[arg(long, default_value = "default")]
    pub name: String,
    /// Use a cluster of your own instead: the kubeconfig context to use
    #[arg(long, value_name = "CONTEXT", requires = "registry")]
    pub existing_cluster: Option<String>,
    /// Registry that your cluster pulls from and you may push to, for example registry.example.com/olm
    #[arg(long, value_name = "REF", requires = "existing_cluster")]
    pub registry: Option<String>,
}

/// What to show OLM's main job with.
#[derive(Debug, Clone, Args)]
pub struct DemoOptions {
    /// Where it is shown.
    #[command(flatten)]
    pub target: TargetOptions,
    /// Take the OLM that is there, for example by helm: neither build its images nor deploy it; fails at once where there is none
    #[arg(long)]
    pub no_deploy: bool,
    /// Add OLM v1, as the chart's v1.enabled does; docs/guides/olm-v1.md goes on from there
    #[arg(long, conflicts_with_all = ["no_deploy", "existing_cluster"])]
    pub v1: bool,
}

/// How to test.
#[derive(Debug, Clone, Args)]
pub struct TestOptions {
    /// The embedded cluster to use
    #[arg(long, default_value = "e2e")]
    pub name: String,
    /// Only the tests that need no cluster
    #[arg(long = "unit", conflicts_with = "e2e_only")]
    pub unit_only: bool,
    /// Only the tests against the embedded cluster
    #[arg(long = "e2e")]
    pub e2e_only: bool,
    /// Of the tests against the embedded cluster only this program, for example `crash`; may be given several times
    #[arg(long = "program", value_name = "NAME", requires = "e2e_only")]
    pub programs: Vec<String>,
    /// Everything, with the images that are shipped: every kill, every case of the properties, a minute for each fuzz target; and each
    /// real bundle by itself. Otherwise a fixed share of each, a fifth of most
    #[arg(long)]
    pub long: bool,
    /// Leave the cluster running afterwards
    #[arg(long)]
    pub keep: bool,
    /// Passed to each test program, for example a part of test names; no checks are made then
    #[arg(last = true, value_name = "ARGS")]
    pub arguments: Vec<String>,
}

/// How to measure.
#[derive(Debug, Clone, Args)]
pub struct BenchOptions {
    /// The embedded cluster to use; it is started if need be
    #[arg(long, default_value = "default", global = true)]
    pub name: String,
    /// Something else to measure.
    #[command(subcommand)]
    pub what: Option<BenchCommand>,
}

/// What else can be measured.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchCommand {
    /// Measure opm on the corpus catalog: serving, validating, rendering
    Catalogs,
    /// Measure package-server with 125 packages: until it serves, until all are there, and its memory
    Packages,
    /// Measure resolution: the recorded cases (target P14), generated problems, growth to 100,000 bundles
    Resolver,
    /// Measure OLM at rest with 1,000 ClusterServiceVersions, and after a restart of the API server (target P20)
    Rest,
    /// Measure the memory of catalogs' contents: ten of 1,000 bundles, all read again at once (target P18)
    Snapshots,
    /// Measure OLM v1: catalogd with the corpus catalog (target P16), and ten ClusterExtensions (target P22)
    ///
    /// The chart's OLM v1 is added to the OLM of the embedded cluster, and stays there.
    V1,
}

/// What to release, and where to.
#[derive(Debug, Clone, Args)]
pub struct ReleaseOptions {
    /// The folder for the files; a release that is there is replaced [default: target/releases/VERSION-linux-ARCH]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The registry that the images will be in, for the chart and the manifest, for example registry.example.com/olm
    #[arg(long, value_name = "REF")]
    pub registry: Option<String>,
    /// Folder on a server that the files will be downloaded from, for the krew manifest of the plugin
    #[arg(long, value_name = "URL")]
    pub download_url: Option<String>,
    /// Make it a second time at another place, and compare byte by byte; only then it gets to its folder
    #[arg(long)]
    pub verify: bool,
    /// Go on though files differ from the commit, with those that git knows as they are; the version then says `dirty`
    #[arg(long)]
    pub allow_dirty: bool,
    /// Take the programs from this folder instead of compiling them, to try the rest; the version then says `trial`
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
}

/// Which images to push where.
#[derive(Debug, Clone, Args)]
pub struct ImageOptions {
    /// Push them into this embedded cluster's registry
    #[arg(long)]
    pub name: Option<String>,
    /// Push them to this registry instead, for example registry.example.com/olm
    #[arg(long, value_name = "REF", conflicts_with = "name")]
    pub registry: Option<String>,
}

const RELEASE_ABOUT: &str = "\
Make a release: programs, images, chart, manifests, a krew manifest, bills of materials, licences, checksums.

Everything is made of the commit that is checked out and of the packages of Cargo.lock, in a new folder below TMPDIR, with no environment of yours and without a cache of compilers; nothing in \
programs or archives names place, time or user, and all of it has the time of the commit. So another machine with the same toolchain, C compiler and C library, all of which \
release-linux-ARCH.json names, makes the same bytes. `cargo xtask check` says whether what is built in may be.

The release is for the architecture of this machine. It needs Debian or what derives from it, git, a C compiler, Go (for helm, which renders the chart) and ca-certificates. \
docs/reference/releases.md says what each file is and how users check it.";

const RELEASE_EXAMPLES: &str = "\
Examples:
  cargo xtask release                                          the version of Cargo.toml; half an hour of one core
  cargo xtask release --verify                                 twice, and the same to the byte
  cargo xtask release --out ../olm-release --registry registry.example.com/olm
  cargo build --bins && cargo xtask release --allow-dirty --programs target/debug    to try all but compiling, in a minute";

const CLUSTER_ABOUT: &str = "\
A real Kubernetes on this machine, for tests, demo and benchmarks.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, CoreDNS, containerd and runc run as \
ordinary processes in a network namespace of their own, together with an OCI registry that answers for every registry \
name. Nothing in there can reach the network outside. Several clusters can run side by side under different names.

Everything but `build` and `status` needs root (network namespace, mounts, containers).";

const CLUSTER_EXAMPLES: &str = "\
Examples:
  cargo xtask cluster up                              start the cluster `default`
  cargo xtask cluster exec -- kubectl get pods -A     look around
  cargo xtask cluster load app.tar quay.io/me/app:1   give pods an image under that name
  cargo xtask cluster exec -- cargo test -p e2e       run tests inside it
  cargo xtask cluster up --name scale --no-node       a second one, control plane alone
  cargo xtask cluster down                            remove it with all it wrote";

/// Which cluster is meant, and what to do with it.
#[derive(Debug, Args)]
pub struct ClusterOptions {
    /// The cluster's name
    #[arg(long, default_value = "default", global = true)]
    pub name: String,
    /// What to do with it.
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// What to do with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Start the cluster, or what of it has ended, and wait until pods can run
    ///
    /// The first run builds the cluster's programs with Go (about 5 minutes); later runs take seconds. State kept by an
    /// earlier run is used again.
    Up {
        /// Only the control plane and the registry: no kubelet, no containers, no DNS
        #[arg(long)]
        no_node: bool,
    },
    /// End all its processes and containers and remove its state
    Down {
        /// Keep objects, images and logs for the next `up`
        #[arg(long)]
        keep_state: bool,
    },
    /// Show whether it runs, its processes and where things are; fails unless all of it runs
    Status,
    /// Push an image into the cluster's registry
    ///
    /// Pods find it under the same reference, whatever registry that names. Because all registries are one here,
    /// quay.io/a/b and docker.io/a/b are the same image. Prints the names.
    Load {
        /// A tar of an OCI layout or from `docker save`
        image: PathBuf,
        /// Names for the image, for example quay.io/me/app:1
        #[arg(value_name = "REF", required = true)]
        references: Vec<String>,
    },
    /// Run a command where the cluster's addresses can be reached, with KUBECONFIG set and kubectl on PATH
    ///
    /// The command takes this one's place: signals, input, output and exit code are its own. It has no other network.
    ///
    /// PATH also has opm and `kubectl operator` after `cargo xtask demo`, and helm after `cluster build`. For the guides in docs/guides
    /// CATALOG_IMAGE is the catalog of the demo, and REGISTRY a registry to push to: opm and `kubectl operator` reach it as
    /// OPM_REGISTRY_CONFIG says, and skopeo with --dest-tls-verify=false.
    Exec {
        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Build the cluster's programs without starting anything (done by `up` too), and helm
    Build,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<(String, ClusterCommand), clap::Error> {
        let words = ["xtask", "cluster"].into_iter().chain(line.split(' '));
        match Arguments::try_parse_from(words)?.command {
            Command::Cluster(ClusterOptions { name, command }) => Ok((name, command)),
            other => panic!("{other:?} is not a cluster command"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_cluster_is_default_unless_named() {
        for (line, wanted) in [
            ("up", ("default", false)),
            ("up --name scale --no-node", ("scale", true)),
            ("--name scale up --no-node", ("scale", true)),
        ] {
            let Ok((name, ClusterCommand::Up { no_node })) = parse(line) else {
                panic!("{line}")
            };
            assert_eq!((name.as_str(), no_node), wanted, "{line}");
        }
    }

    #[test]
    fn what_follows_two_dashes_is_the_command_with_its_own_flags() {
        let Ok((name, ClusterCommand::Exec { command })) =
            parse("exec --name a -- kubectl get pods --name b -o json")
        else {
            panic!()
        };
        assert_eq!(name, "a");
        assert_eq!(command, ["kubectl", "get", "pods", "--name", "b", "-o", "json"]);
        assert!(parse("exec --name a").is_err());
    }

    #[test]
    fn load_takes_any_number_of_references() {
        let Ok((_, ClusterCommand::Load { image, references })) = parse("load a.tar quay.io/a/b:1 c:2")
        else {
            panic!()
        };
        assert_eq!(image, PathBuf::from("a.tar"));
        assert_eq!(references, ["quay.io/a/b:1", "c:2"]);
        assert!(parse("load a.tar").is_err());
    }

    #[test]
    fn only_the_demo_goes_without_deploying() {
        let options = |line: &str| {
            let words = ["xtask"].into_iter().chain(line.split(' '));
            match Arguments::try_parse_from(words)?.command {
                Command::Demo(options) => Ok(options),
                other => panic!("{other:?} is not the demo"),
            }
        };
        let given: Result<DemoOptions, clap::Error> = options("demo --name a --no-deploy");
        let given = given.unwrap();
        assert_eq!((given.no_deploy, given.target.name.as_str()), (true, "a"));
        assert!(!options("demo").unwrap().no_deploy);
        let of_ones_own = options("demo --no-deploy --existing-cluster a --registry b").unwrap();
        assert!(of_ones_own.no_deploy);
        assert!(Arguments::try_parse_from(["xtask", "deploy", "--no-deploy"]).is_err());
        assert!(options("demo --v1").unwrap().v1 && !options("demo").unwrap().v1);
        for line in [
            "demo --v1 --no-deploy",
            "demo --v1 --existing-cluster a --registry b",
        ] {
            assert!(options(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_cluster_of_a_bench_may_stand_on_both_sides_of_its_name() {
        for line in ["bench --name a rest", "bench rest --name a"] {
            let words = ["xtask"].into_iter().chain(line.split(' '));
            let Command::Bench(given) = Arguments::try_parse_from(words).unwrap().command else {
                panic!("{line}")
            };
            assert_eq!(given.name, "a", "{line}");
            assert!(matches!(given.what, Some(BenchCommand::Rest)));
        }
    }
}
