//! Images of this project: static programs on an empty file system, built without Docker.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::kubectl::Destination;
use crate::manifest::{IMAGE_PREFIX, rename_images_in_text};
use crate::oci_layout::{self, ImageConfig, LayerFile};
use crate::progress::Progress;
use crate::{binaries, process, release, workspace};

/// Variable with a file from [`Built::note`], for programs that use those images instead of building them.
pub const VARIABLE: &str = "OLM_IMAGES";
/// Version in the tags of our images.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Releases of the demo operator, one image each.
pub(crate) const DEMO_RELEASES: [&str; 2] = ["1.0.0", "1.1.0"];

/// Replaces the programs of operators whose images are unavailable; tests put it into images of their own.
const STAND_IN: &str = "stand-in";
/// Runs in pods that unpack bundles, inside of other images.
const COPY_BUNDLE: &str = "cpb";
/// All controllers in one program, because they share most of their code.
const CONTROLLERS: &str = "olm-controllers";
/// Names of the controllers, as links to that program.
pub(crate) const CONTROLLER_LINKS: [&str; 5] = [
    "catalog-operator",
    "olm-operator",
    "package-server",
    "catalogd",
    "operator-controller",
];
/// Programs that are static even in builds for tests, because their images contain nothing else.
const STATIC: [&str; 2] = [STAND_IN, COPY_BUNDLE];
/// Programs that are part of images.
const PROGRAMS: [&str; 5] = [CONTROLLERS, "opm", COPY_BUNDLE, "demo-operator", STAND_IN];
/// Programs of a demo with an existing OLM: those that build its catalog, the operator, and the plugin.
const PROGRAMS_OF_DEMO: [&str; 3] = ["opm", "demo-operator", PLUGIN];
/// Plugin of kubectl, which runs on this machine and is part of no image.
const PLUGIN: &str = "kubectl-operator";
/// Certificate authorities for connections to real registries.
pub(crate) const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Interval of progress messages during compilation.
const TELL_EVERY: Duration = Duration::from_secs(20);
/// User id of processes in images.
const USER: &str = "1001";

/// An image tar and its reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltImage {
    /// Path of the OCI layout tar.
    pub tar: PathBuf,
    /// Reference of the image, below [`IMAGE_PREFIX`].
    pub reference: String,
    /// Digest of the manifest; equal programs result in equal digests.
    pub digest: String,
}

/// Compilation of the programs in images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As released.
    Release,
    /// As released, but without optimisation across crates, which takes minutes. Used for the demo.
    Quick,
}

impl Profile {
    /// Returns the name in `Cargo.toml`, which is also that of the output folder.
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Quick => "quick",
        }
    }

    fn programs(self) -> PathBuf {
        workspace::target().join(target()).join(self.name())
    }
}

/// Result of [`build`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// Folder of the programs.
    programs: PathBuf,
    /// Images built from them.
    pub images: Vec<BuiltImage>,
}

impl Built {
    /// Returns the path of the `opm` in the images, which also runs on this machine.
    pub fn opm_program(&self) -> PathBuf {
        self.programs.join("opm")
    }

    /// Returns the path of the plugin, which is only there after builds for the demo.
    pub(crate) fn plugin_program(&self) -> PathBuf {
        self.programs.join(PLUGIN)
    }

    /// Returns the path of the static program for images that replace others. They contain nothing else.
    pub fn stand_in_program(&self) -> PathBuf {
        self.programs.join(STAND_IN)
    }

    /// Returns the tar of the `opm` image.
    pub fn opm_image(&self) -> PathBuf {
        folder().join("opm.tar")
    }

    /// Removes the released images from the list of images to push.
    fn leave_out_shipped(&mut self) {
        let shipped = shipped().map(|recipe| reference(recipe.name, VERSION));
        self.images.retain(|image| !shipped.contains(&image.reference));
    }

    /// Writes the list of built images to a file, for [`VARIABLE`], and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(&self) -> anyhow::Result<PathBuf> {
        let path = folder().join("built.json");
        fs::write(&path, serde_json::to_vec(self)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Pushes all images to the registry from which a cluster pulls.
    ///
    /// # Errors
    /// A push fails.
    pub fn push(&self, destination: &Destination, progress: &Progress) -> anyhow::Result<()> {
        progress.stage("images pushed", || {
            let mut images = self.images.iter();
            images.try_for_each(|image| destination.push(&image.tar, &image.reference))
        })
    }
}

/// Copies an image tar to a registry, with the user's credentials.
///
/// # Errors
/// skopeo fails.
pub(crate) fn copy(tar: &Path, reference: &str, registry: &str) -> anyhow::Result<()> {
    let mut skopeo = Command::new("skopeo");
    skopeo
        .arg("copy")
        .arg(format!("oci-archive:{}", tar.display()))
        .arg(format!("docker://{}", rename_images_in_text(reference, registry)));
    process::run(&mut skopeo).map(drop)
}

/// Returns the images listed in [`VARIABLE`], or builds the images as released.
///
/// # Errors
/// The list cannot be read, or the build fails.
pub fn given_or_built(progress: &Progress) -> anyhow::Result<Built> {
    let Some(path) = std::env::var_os(VARIABLE) else {
        return build(Profile::Release, progress);
    };
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no list of images", path.display()))
}

fn folder() -> PathBuf {
    workspace::root().join("target/images")
}

/// Returns the target of the programs: this machine's architecture, with glibc.
pub(crate) fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Builds the programs and writes the images.
///
/// # Errors
/// The compiler fails, a program is not static, or the certificate authorities are missing.
pub(crate) fn build(profile: Profile, progress: &Progress) -> anyhow::Result<Built> {
    require_authorities()?;
    // The demo shows the plugin, too.
    let plugin = (profile == Profile::Quick).then_some(PLUGIN);
    let programs: Vec<&str> = PROGRAMS.into_iter().chain(plugin).collect();
    progress.stage("static programs built", || compile(profile, &programs, progress))?;
    write(progress, profile.programs(), &[], &PROGRAMS)
}

/// Builds the images that the demo needs in addition to an existing OLM. The image of `opm` is only the base of the catalog. It
/// is not pushed, because the existing OLM may use another image of that name.
///
/// # Errors
/// The errors of [`build`].
pub(crate) fn build_for_demo(progress: &Progress) -> anyhow::Result<Built> {
    require_authorities()?;
    let profile = Profile::Quick;
    progress.stage("opm, the plugin and the demo operator built", || {
        compile(profile, &PROGRAMS_OF_DEMO, progress)
    })?;
    let mut built = write(progress, profile.programs(), &[], &PROGRAMS_OF_DEMO)?;
    built.leave_out_shipped();
    Ok(built)
}

/// Checks for the certificate authorities, before the compilation, which takes minutes.
///
/// # Errors
/// The certificate authorities are missing; the error names their package.
pub(crate) fn require_authorities() -> anyhow::Result<()> {
    if !Path::new(AUTHORITIES).exists() {
        bail!("{AUTHORITIES} is missing; install the package ca-certificates");
    }
    Ok(())
}

/// Writes images of `programs` that cargo built with the tests, including the libraries that they need. They differ from released
/// images, but avoid a second build.
///
/// # Errors
/// A program is missing or cannot be copied.
pub(crate) fn build_for_tests(
    progress: &Progress,
    programs: &BTreeMap<String, PathBuf>,
) -> anyhow::Result<Built> {
    require_authorities()?;
    // Images of other operators contain only these programs.
    progress.stage("static programs for images of others built", || {
        compile(Profile::Quick, &STATIC, progress)
    })?;
    let copies = folder().join("programs");
    fs::create_dir_all(&copies)?;
    for name in STATIC {
        let program = Profile::Quick.programs().join(name);
        fs::copy(&program, copies.join(name))
            .with_context(|| format!("cannot copy {}", program.display()))?;
    }
    let mut libraries = BTreeSet::new();
    for name in PROGRAMS.iter().filter(|name| !STATIC.contains(name)) {
        let program = programs
            .get(*name)
            .with_context(|| format!("cargo did not build {name}"))?;
        // Otherwise all of it would be pushed to the registry each time.
        strip(program, &copies.join(name))?;
        libraries.extend(libraries_of(program)?);
    }
    let libraries: Vec<PathBuf> = libraries.into_iter().collect();
    write(progress, copies, &libraries, &PROGRAMS)
}

/// Copies a program without its symbols, which are most of a program built with the tests.
///
/// # Errors
/// strip fails, or is missing.
pub(crate) fn strip(program: &Path, copy: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("strip");
    command.arg("-o").arg(copy).arg(program);
    process::run(&mut command)
        .map(drop)
        .context("strip is in the package binutils")
}

/// Returns the shared libraries of a program, including its loader.
fn libraries_of(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = process::run(Command::new("ldd").arg(program))?;
    Ok(listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

/// Writes the images for the programs `names` in the folder `programs`.
fn write(
    progress: &Progress,
    programs: PathBuf,
    libraries: &[PathBuf],
    names: &[&str],
) -> anyhow::Result<Built> {
    fs::create_dir_all(folder())?;
    let images = progress.stage("images written", || {
        let recipes = recipes(names).into_iter();
        recipes
            .map(|(recipe, version)| image(&programs, libraries, &recipe, version))
            .collect()
    })?;
    Ok(Built { programs, images })
}

/// Returns the images for these programs, each with its version: the released ones and those of the demo operator.
fn recipes(programs: &[&str]) -> Vec<(Recipe, &'static str)> {
    let demo = DEMO_RELEASES.map(|release| {
        let config = ImageConfig {
            entrypoint: vec!["/bin/demo-operator".to_owned()],
            env: vec![format!("DEMO_RELEASE={release}")],
            ..ImageConfig::default()
        };
        let recipe = Recipe {
            name: "demo-operator",
            programs: &["demo-operator"],
            config,
        };
        (recipe, release)
    });
    let shipped = shipped().map(|recipe| (recipe, VERSION));
    let mut recipes: Vec<_> = shipped.into_iter().chain(demo).collect();
    recipes.retain(|(recipe, _)| recipe.programs.iter().all(|name| programs.contains(name)));
    recipes
}

/// Returns the reference of an image.
fn reference(name: &str, version: &str) -> String {
    format!("{IMAGE_PREFIX}{name}:{version}")
}

/// Contents of an image.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// Name below [`IMAGE_PREFIX`].
    pub name: &'static str,
    /// Programs in its folder `bin`.
    pub programs: &'static [&'static str],
    /// Configuration for the container runtime.
    pub config: ImageConfig,
}

/// Returns the released images: all controllers in one, and the base of catalogs.
pub(crate) fn shipped() -> [Recipe; 2] {
    [
        Recipe {
            name: "olm",
            programs: &[CONTROLLERS, COPY_BUNDLE],
            config: ImageConfig {
                links: CONTROLLER_LINKS
                    .map(|link| (format!("bin/{link}"), CONTROLLERS.to_owned()))
                    .into_iter()
                    // Pods that unpack bundles or extract catalogs copy the program from this path, as with upstream's image.
                    .chain(
                        ["bin/cp", "bin/copy-content"].map(|link| (link.to_owned(), COPY_BUNDLE.to_owned())),
                    )
                    .collect(),
                ..ImageConfig::default()
            },
        },
        Recipe {
            name: "opm",
            programs: &["opm"],
            config: ImageConfig {
                entrypoint: vec!["/bin/opm".to_owned()],
                // Catalog images expect the probe under this name, which opm implements.
                links: vec![("bin/grpc_health_probe".to_owned(), "opm".to_owned())],
                ..ImageConfig::default()
            },
        },
    ]
}

/// Returns the flags for the compilation of static programs.
///
/// glibc is linked in, so that an image only contains the program. Build scripts and procedural macros must be dynamic, and
/// naming the target exempts them. Without relocations at start, tables in a program remain pages of its file instead of memory
/// of each process (1.6 MiB in the catalog operator).
pub(crate) fn static_flags() -> Vec<&'static str> {
    flags_for(std::env::consts::ARCH)
}

fn flags_for(architecture: &str) -> Vec<&'static str> {
    let mut flags = vec![
        "-C",
        "target-feature=+crt-static",
        "-C",
        "relocation-model=static",
    ];
    // Rust brings a linker for x86-64, which links identical code once. Elsewhere it takes that of the system: GNU's refuses the flag.
    if architecture == "x86_64" {
        flags.extend(["-C", "link-arg=-Wl,--icf=all"]);
    }
    flags
}

/// Returns the variable for the allocator's page size, if the architecture requires one. Kernels of arm64 have pages of 4, 16 or
/// 64 KiB, and jemalloc supports all that are not larger than its own.
pub(crate) fn allocator_settings() -> Option<(&'static str, &'static str)> {
    (std::env::consts::ARCH == "aarch64").then_some(("JEMALLOC_SYS_WITH_LG_PAGE", "16"))
}

fn compile(profile: Profile, packages: &[&str], progress: &Progress) -> anyhow::Result<()> {
    let mut command = workspace::cargo();
    command
        .args([
            "build",
            "--quiet",
            "--message-format=json-render-diagnostics",
            "--profile",
            profile.name(),
            "--target",
            &target(),
        ])
        .env("RUSTFLAGS", static_flags().join(" "));
    command.envs(allocator_settings());
    // What `version` and olm_build_info report; nothing outside a checkout.
    if let Ok(commit) = release::commit(&workspace::root()) {
        command.env("OLM_GIT_COMMIT", commit);
    }
    for program in packages {
        command.args(["--package", program]);
    }
    run_cargo(command, progress)
}

/// Runs a cargo build with messages as JSON, and prints its progress at intervals.
///
/// # Errors
/// The compilation fails; the compiler's messages were printed before.
pub(crate) fn run_cargo(command: Command, progress: &Progress) -> anyhow::Result<()> {
    let (mut compiled, mut told) = (0_usize, Instant::now());
    binaries::messages(command, |message| {
        compiled += usize::from(message.contains(r#""reason":"compiler-artifact""#));
        if told.elapsed() >= TELL_EVERY {
            progress.note(&format!(
                "still compiling: {compiled} crates are done (some 400, optimised; the first time takes minutes)"
            ));
            told = Instant::now();
        }
    })
}

/// Writes an image with programs from the folder `programs`, and these libraries.
fn image(
    programs: &Path,
    libraries: &[PathBuf],
    recipe: &Recipe,
    version: &str,
) -> anyhow::Result<BuiltImage> {
    let name = recipe.name;
    let (mut files, mut config) = contents(recipe, programs);
    files.extend(libraries.iter().map(|library| LayerFile {
        path: library.to_string_lossy().trim_start_matches('/').to_owned(),
        source: library.clone(),
        mode: 0o755,
    }));
    config
        .labels
        .push(("org.opencontainers.image.version".to_owned(), version.to_owned()));
    let file = if version == VERSION {
        format!("{name}.tar")
    } else {
        format!("{name}-{version}.tar")
    };
    let tar = folder().join(file);
    let digest = oci_layout::write(&tar, &files, &config)?;
    Ok(BuiltImage {
        tar,
        reference: reference(name, version),
        digest,
    })
}

/// Returns the files of an image with programs from the folder `programs`, and its configuration. It runs as a user without
/// privileges.
pub(crate) fn contents(recipe: &Recipe, programs: &Path) -> (Vec<LayerFile>, ImageConfig) {
    let mut files = vec![LayerFile {
        path: AUTHORITIES.trim_start_matches('/').to_owned(),
        source: PathBuf::from(AUTHORITIES),
        mode: 0o644,
    }];
    files.extend(recipe.programs.iter().map(|program| LayerFile {
        path: format!("bin/{program}"),
        source: programs.join(program),
        mode: 0o755,
    }));
    let mut config = recipe.config.clone();
    config.user = USER.to_owned();
    config
        .folders
        .extend([("bin".to_owned(), 0o755), ("tmp".to_owned(), 0o1777)]);
    (files, config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rusts_own_linker_is_set_to_link_identical_code_once() {
        for (architecture, expected) in [("x86_64", true), ("aarch64", false)] {
            let flags = flags_for(architecture);
            assert!(flags.contains(&"target-feature=+crt-static"), "{flags:?}");
            let is_folded = flags.iter().any(|flag| flag.contains("--icf"));
            assert_eq!(is_folded, expected, "{architecture}: {flags:?}");
        }
    }

    #[test]
    fn the_demo_of_an_olm_that_is_there_makes_no_image_of_it_and_pushes_no_opm() {
        let names = |programs: &[&str]| -> Vec<String> {
            let recipes = recipes(programs).into_iter();
            recipes
                .map(|(recipe, version)| reference(recipe.name, version))
                .collect()
        };
        let demo = ["olm.local/demo-operator:1.0.0", "olm.local/demo-operator:1.1.0"];
        let opm = format!("olm.local/opm:{VERSION}");
        let olm = format!("olm.local/olm:{VERSION}");
        assert_eq!(names(&PROGRAMS), [&olm, &opm, demo[0], demo[1]]);
        assert_eq!(names(&PROGRAMS_OF_DEMO), [&opm, demo[0], demo[1]]);
        let images = names(&PROGRAMS_OF_DEMO).into_iter().map(|reference| BuiltImage {
            tar: PathBuf::new(),
            reference,
            digest: String::new(),
        });
        let mut built = Built {
            programs: PathBuf::new(),
            images: images.collect(),
        };
        built.leave_out_shipped();
        let left: Vec<&str> = built
            .images
            .iter()
            .map(|image| image.reference.as_str())
            .collect();
        assert_eq!(left, demo);
    }
}
