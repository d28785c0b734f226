//! The embedded Kubernetes itself, on which every other test relies.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::cluster::{Scratch, shared};
use e2e::lab::PATIENCE;
use xtask::cluster::status::State;
use xtask::cluster::{CLUSTER_VARIABLE, Cluster, UpOptions};
use xtask::kubectl::Destination;
use xtask::oci_layout::{self, ImageConfig, LayerFile};
use xtask::progress::Progress;

/// Returns the tar and the digest of an image that keeps running and differs from all others by a label.
fn image(folder: &tempfile::TempDir, label: &str) -> anyhow::Result<(PathBuf, String)> {
    let program = xtask::cluster::layout::binaries().join("pause");
    let files = [LayerFile {
        path: "run".into(),
        source: program,
        mode: 0o755,
    }];
    let config = ImageConfig {
        entrypoint: vec!["/run".into()],
        labels: vec![("test".into(), label.into())],
        ..ImageConfig::default()
    };
    let tar = folder.path().join(format!("{label}.tar"));
    let digest = oci_layout::write(&tar, &files, &config)?;
    Ok((tar, digest))
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> anyhow::Result<String> {
    Destination::Embedded(cluster.clone()).run(arguments)
}

/// Returns the output of a command; an error if it fails.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    anyhow::ensure!(output.status.success(), "{command:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

fn run_pod(cluster: &Cluster, name: &str, image: &str) -> anyhow::Result<()> {
    delete_pod(cluster, name)?;
    kubectl(
        cluster,
        &["run", name, "--image", image, "--image-pull-policy=Always"],
    )?;
    Ok(())
}

fn delete_pod(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    kubectl(
        cluster,
        &["delete", "pod", name, "--ignore-not-found", "--grace-period=1"],
    )?;
    Ok(())
}

/// Waits until a field of a pod has the value.
fn expect(cluster: &Cluster, pod: &str, path: &str, is_right: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let output = format!("--output=jsonpath={{{path}}}");
    Destination::Embedded(cluster.clone()).wait(&format!("{path} of pod {pod}"), PATIENCE, |destination| {
        let value = destination.run(&["get", "pod", pod, &output])?;
        Ok(if is_right(&value) { Ok(()) } else { Err(value) })
    })
}

fn expect_running(cluster: &Cluster, pod: &str) -> anyhow::Result<()> {
    expect(cluster, pod, ".status.phase", |phase| phase == "Running")
}

#[test]
fn a_loaded_image_runs_under_any_registry_name() -> anyhow::Result<()> {
    let cluster = shared()?;
    let folder = tempfile::tempdir()?;
    let (tar, digest) = image(&folder, "any-registry")?;
    let references = [
        "quay.io/e2e/any:1",
        "registry.example.com:8443/deep/er/any:1",
        "localhost:5000/e2e-local:1",
        "e2e-short:1",
    ];
    cluster.load(&tar, &references.map(str::to_owned))?;
    let by_digest = format!("ghcr.io/e2e/any@{digest}");
    for (number, reference) in references.into_iter().chain([by_digest.as_str()]).enumerate() {
        let pod = format!("any-registry-{number}");
        run_pod(&cluster, &pod, reference)?;
        expect_running(&cluster, &pod)?;
        expect(&cluster, &pod, ".status.containerStatuses[0].imageID", |id| {
            id.ends_with(&digest)
        })?;
        delete_pod(&cluster, &pod)?;
    }
    Ok(())
}

#[test]
fn an_image_nobody_loaded_is_reported_at_once() -> anyhow::Result<()> {
    let cluster = shared()?;
    run_pod(&cluster, "nobody-loaded", "quay.io/e2e/nobody-loaded:1")?;
    let message = ".status.containerStatuses[0].state.waiting.message";
    expect(&cluster, "nobody-loaded", message, |message| {
        message.contains("not found")
    })?;
    delete_pod(&cluster, "nobody-loaded")?;
    Ok(())
}

#[test]
fn commands_run_inside_with_their_own_exit_code_and_no_way_out() -> anyhow::Result<()> {
    let cluster = shared()?;
    let status = cluster.command("sh").args(["-c", "exit 7"]).status()?;
    assert_eq!(status.code(), Some(7));
    // The same kubectl by name, as users type it, and by path from outside.
    let names = output(cluster.command("kubectl").args(["get", "nodes", "--output=name"]))?;
    assert_eq!(names.trim(), format!("node/{}", cluster.name()));
    let wrapper = cluster.kubeconfig().with_file_name("bin/kubectl");
    let outside = output(
        Command::new(wrapper)
            .env_remove(CLUSTER_VARIABLE)
            .env("KUBECONFIG", "/nowhere")
            .args(["get", "nodes", "-oname"]),
    )?;
    assert_eq!(names, outside);

    let began = Instant::now();
    let route = cluster
        .command("ip")
        .args(["route", "get", "192.0.2.1"])
        .output()?;
    assert!(!route.status.success(), "{route:?}");
    assert!(began.elapsed() < Duration::from_secs(20));
    Ok(())
}

#[test]
fn a_command_in_a_container_and_its_log_can_be_reached() -> anyhow::Result<()> {
    let cluster = shared()?;
    let dns = ["-n", "kube-system", "deploy/coredns"];
    let version = kubectl(
        &cluster,
        &[&["exec"][..], &dns, &["--", "/coredns", "-version"]].concat(),
    )?;
    assert!(version.contains("CoreDNS-"), "{version}");
    let log = kubectl(&cluster, &[&["logs"][..], &dns].concat())?;
    assert!(log.contains("CoreDNS-"), "{log}");
    Ok(())
}

#[test]
fn the_audit_log_shows_who_wrote_what() -> anyhow::Result<()> {
    let cluster = shared()?;
    kubectl(
        &cluster,
        &["delete", "configmap", "audited", "--ignore-not-found"],
    )?;
    let before = cluster.audit_events()?.len();
    kubectl(
        &cluster,
        &[
            "create",
            "configmap",
            "audited",
            "--as=e2e-writer",
            "--as-group=system:masters",
        ],
    )?;
    kubectl(&cluster, &["get", "configmap", "audited"])?;
    let events = cluster.audit_events()?;
    let mut about = Vec::new();
    for event in &events[before..] {
        if event
            .object_ref
            .as_ref()
            .is_some_and(|object| object.name == "audited")
        {
            let on_behalf_of = event
                .impersonated_user
                .as_ref()
                .map(|user| user.username.as_str());
            about.push((event.verb.as_str(), event.is_write(), on_behalf_of));
        }
    }
    assert_eq!(
        about,
        [("create", true, Some("e2e-writer")), ("get", false, None)]
    );
    Ok(())
}

#[test]
fn starting_a_running_cluster_changes_nothing() -> anyhow::Result<()> {
    let cluster = shared()?;
    let pids = || -> anyhow::Result<Vec<_>> {
        let programs = Cluster::status(cluster.name())?.programs;
        Ok(programs.into_iter().map(|program| program.pid).collect())
    };
    let before = pids()?;
    assert!(before.iter().all(Option::is_some));
    shared()?;
    assert_eq!(before, pids()?);
    let other = Cluster::up(cluster.name(), UpOptions { no_node: true }, &Progress::start()).unwrap_err();
    assert!(other.to_string().contains("exists with a node"), "{other}");
    Ok(())
}

#[test]
fn two_clusters_live_side_by_side_and_one_goes_without_a_trace() -> anyhow::Result<()> {
    let one = Scratch::start("e2e-one", UpOptions::default())?;
    let two = Scratch::start("e2e-two", UpOptions::default())?;
    let folder = tempfile::tempdir()?;
    for (cluster, label) in [(&one, "side-one"), (&two, "side-two")] {
        let (tar, _) = image(&folder, label)?;
        cluster.load(&tar, &["quay.io/e2e/side:1".to_owned()])?;
        run_pod(cluster, label, "quay.io/e2e/side:1")?;
        expect_running(cluster, label)?;
    }
    assert!(
        kubectl(&two, &["get", "pod", "side-one"]).is_err(),
        "a pod of one cluster shows in the other"
    );

    Cluster::down("e2e-one", false)?;
    assert_eq!(Cluster::leftovers("e2e-one")?, Vec::<String>::new());
    assert_eq!(Cluster::status("e2e-one")?.state, State::Absent);
    let listed = output(Command::new("ps").args(["-eo", "args"]))?;
    assert!(
        !listed.contains("olm-e2e-one-") && !listed.contains("/e2e-one/"),
        "{listed}"
    );
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    assert!(!mounts.contains("e2e-one"), "{mounts}");

    assert_eq!(Cluster::status("e2e-two")?.state, State::Running);
    run_pod(&two, "after", "quay.io/e2e/side:1")?;
    expect_running(&two, "after")?;
    Ok(())
}

#[test]
fn objects_and_images_outlive_a_stop_that_keeps_state() -> anyhow::Result<()> {
    let cluster = Scratch::start("e2e-kept", UpOptions::default())?;
    let folder = tempfile::tempdir()?;
    let (tar, _) = image(&folder, "kept")?;
    cluster.load(&tar, &["quay.io/e2e/kept:1".to_owned()])?;
    run_pod(&cluster, "kept", "quay.io/e2e/kept:1")?;
    expect_running(&cluster, "kept")?;
    Cluster::down("e2e-kept", true)?;
    assert_eq!(Cluster::leftovers("e2e-kept")?, Vec::<String>::new());
    assert_eq!(Cluster::status("e2e-kept")?.state, State::Stopped);

    Cluster::up("e2e-kept", UpOptions::default(), &Progress::start())?;
    expect(
        &cluster,
        "kept",
        ".status.containerStatuses[0].restartCount",
        |count| count == "1",
    )?;
    expect_running(&cluster, "kept")?;
    Ok(())
}

#[test]
fn a_control_plane_alone_takes_objects_and_runs_no_container() -> anyhow::Result<()> {
    let cluster = Scratch::start("e2e-plane", UpOptions { no_node: true })?;
    run_pod(&cluster, "waits", "quay.io/e2e/none:1")?;
    expect(&cluster, "waits", ".status.phase", |phase| phase == "Pending")?;
    assert_eq!(kubectl(&cluster, &["get", "nodes", "--output=name"])?, "");
    let programs = Cluster::status("e2e-plane")?.programs;
    assert!(
        programs
            .iter()
            .all(|program| !["kubelet", "containerd"].contains(&program.name.as_str()))
    );
    Ok(())
}

#[test]
fn a_program_that_cannot_start_is_named_with_its_log_and_nothing_stays() -> anyhow::Result<()> {
    let cluster = Scratch::start("e2e-broken", UpOptions { no_node: true })?;
    Cluster::down("e2e-broken", true)?;
    let certificate = cluster.kubeconfig().with_file_name("pki/apiserver.crt");
    fs::write(certificate, "not a certificate")?;
    let error = Cluster::up("e2e-broken", UpOptions { no_node: true }, &Progress::start()).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("kube-apiserver ended"), "{text}");
    assert!(text.contains("failed to find any PEM data"), "{text}");
    assert!(
        text.contains(&cluster.log("kube-apiserver").display().to_string()),
        "{text}"
    );
    assert_eq!(Cluster::leftovers("e2e-broken")?, Vec::<String>::new());
    Ok(())
}
