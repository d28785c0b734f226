use clap::Parser as _;
use olm_testing::cluster::{FakeCluster, Fault, Refusal};
use serde_json::{Value, json};

use super::*;
use crate::args::{Args, Command};
use crate::operators::tests::object;
use crate::packages::tests::{manifest, package, served};

mod first_plan;
mod running;

fn install_args(more: &[&str]) -> InstallArgs {
    let words = ["kubectl-operator", "install", "etcd"];
    match Args::try_parse_from(words.iter().chain(more)).unwrap().command {
        Command::Install(args) => args,
        other => panic!("{other:?}"),
    }
}

/// Returns an OperatorGroup with these targets.
fn group_for(targets: &[&str]) -> Group {
    Group {
        name: "og".to_owned(),
        targets: Some(targets.iter().map(|target| (*target).to_owned()).collect()),
        account: None,
    }
}

/// Decides for packages in the namespace shop.
fn decided_of(
    more: &[&str],
    packages: &[Package],
    groups: &[Group],
    subscriptions: &[Subscribed],
) -> anyhow::Result<Wanted> {
    let there = There {
        namespace: "shop",
        packages,
        preferred: None,
        groups,
        all_groups: &[],
        subscriptions,
        unsubscribed: &[],
        provided: &BTreeSet::from(["Disk (disks.example.com)".to_owned()]),
    };
    decide(&install_args(more), there)
}

/// Decides for the package etcd, without dependencies, in a namespace with an OperatorGroup.
fn decided(more: &[&str]) -> anyhow::Result<Wanted> {
    let mut package = package("etcd", "cat");
    for channel in &mut package.channels {
        channel.requires.clear();
    }
    decided_of(more, &[package], &[group_for(&["shop"])], &[])
}

/// Returns the group that is created in a namespace without OperatorGroup.
fn group_of(more: &[&str], modes: &[&str]) -> Result<Value, String> {
    let mut package = package("etcd", "cat");
    for channel in &mut package.channels {
        channel.install_modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
    }
    let wanted = decided_of(more, &[package], &[], &[]);
    let wanted = wanted.map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(wanted.group.unwrap()).unwrap()["spec"].take())
}

fn error(result: anyhow::Result<Wanted>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_package_is_subscribed_to_as_asked() {
    let wanted = decided(&[]).unwrap();
    assert_eq!(wanted.group, None);
    assert!(wanted.notes.is_empty());
    insta::assert_json_snapshot!(wanted.subscription, @r#"
    {
      "apiVersion": "operators.coreos.com/v1alpha1",
      "kind": "Subscription",
      "metadata": {
        "name": "etcd",
        "namespace": "shop"
      },
      "spec": {
        "source": "cat",
        "sourceNamespace": "olm",
        "name": "etcd",
        "channel": "stable",
        "installPlanApproval": "Manual"
      }
    }
    "#);
    assert_eq!(decided(&["-c", ""]).unwrap().subscription, wanted.subscription);
    let spec = decided(&["-c", "beta", "--name", "db", "-a", "automatic"]).unwrap();
    assert_eq!(spec.notes, ["the channel is deprecated: use stable"]);
    let (name, spec) = (spec.subscription.name_any(), spec.subscription.spec);
    assert_eq!(
        (name.as_str(), spec.channel(), spec.is_manual()),
        ("db", Some("beta"), false)
    );
}

#[test]
fn a_version_that_is_asked_for_is_begun_with() {
    for version in ["1.0.0", "v1.0.0", "etcd.v1.0.0"] {
        let wanted = decided(&["-v", version]).unwrap();
        let spec = wanted.subscription.spec;
        assert_eq!(spec.starting_csv(), Some("etcd.v1.0.0"), "{version}");
        assert!(spec.is_manual(), "{version}");
        assert_eq!(wanted.notes, ["the version is deprecated: it loses keys"]);
    }
    let wanted = decided(&["--version", "1.0.0", "--approval", "Automatic"]).unwrap();
    assert!(!wanted.subscription.spec.is_manual());
    assert!(
        wanted.notes[1].contains("then upgrades to etcd.v1.1.0"),
        "{:?}",
        wanted.notes
    );
}

#[test]
fn what_cannot_be_installed_is_reported_with_the_way_out() {
    assert_eq!(
        error(decided(&["--channel", "alpha"])),
        "package etcd of catalog olm/cat has no channel alpha; choose one with --channel: beta, stable"
    );
    assert_eq!(
        error(decided(&["--version", "3.0.0"])),
        "channel stable has no version 3.0.0; it has 1.1.0, 1.0.0"
    );
    assert_eq!(
        error(decided(&["--version", "2.0.0"])),
        "channel stable has no version 2.0.0; choose a channel that has it with --channel: beta"
    );
    let two = [package("etcd", "cat"), package("etcd", "other")];
    let og = [group_for(&["shop"])];
    assert_eq!(
        error(decided_of(&[], &two, &og, &[])),
        "several catalogs have package etcd; choose one with --catalog: olm/cat, olm/other"
    );
    let there = [Subscribed {
        name: "db".to_owned(),
        package: "etcd".to_owned(),
    }];
    assert!(
        error(decided_of(&[], &two[..1], &og, &there))
            .contains("Subscription db of package etcd already exists")
    );
    assert!(error(decided_of(&[], &two[..1], &[], &[])).contains("create one with --create-operator-group"));
    let many = [og[0].clone(), group_for(&[""])];
    let several = decided_of(&["-C"], &two[..1], &many, &[]);
    assert!(error(several).contains("more than one OperatorGroup (og, og)"));
}

/// package-server returns this one to a request by name, and upstream's plugin uses it.
#[test]
fn the_preferred_one_of_several_catalogs_is_used_and_reported() {
    let two = [package("etcd", "cat"), package("etcd", "other")];
    let there = There {
        namespace: "shop",
        packages: &two,
        preferred: Some("olm/other"),
        groups: &[group_for(&["shop"])],
        all_groups: &[],
        subscriptions: &[],
        unsubscribed: &[],
        provided: &BTreeSet::new(),
    };
    let wanted = decide(&install_args(&[]), there).unwrap();
    assert_eq!(wanted.subscription.spec.source, "other");
    assert!(wanted.notes[0].contains("using olm/other"), "{:?}", wanted.notes);
}

/// Upstream's plugin creates the same groups for these flags.
#[test]
fn an_operator_group_is_made_of_a_mode_that_the_package_supports() {
    let all = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ];
    let own = ["OwnNamespace"];
    let targets =
        |more: &[&str], modes: &[&str]| group_of(more, modes).map(|spec| spec["targetNamespaces"].clone());
    for (more, modes, expected) in [
        (&["-C"][..], &all[..], Value::Null),
        (&["--create-operator-group"], &["AllNamespaces"], Value::Null),
        (&["--create-operator-group=true"], &own, json!(["shop"])),
        // The install modes are unknown.
        (&["-C"], &[], json!(["shop"])),
        (&["-C", "-w", ""], &own, json!(["shop"])),
        (&["-C", "-w", "\"\""], &all, Value::Null),
        (&["-C", "-w", "shop"], &all, json!(["shop"])),
        (&["-C", "--watch", "a"], &all, json!(["a"])),
        (&["-C", "-w", "a,b"], &all, json!(["a", "b"])),
        (
            &["-C", "-w", "a", "--target-namespace", "b"],
            &all,
            json!(["a", "b"]),
        ),
    ] {
        assert_eq!(targets(more, modes), Ok(expected), "{more:?} {modes:?}");
    }
    for (more, modes, part) in [
        (
            &["-C"][..],
            &["MultiNamespace"][..],
            "supports install modes MultiNamespace, but without --watch it needs AllNamespaces or OwnNamespace",
        ),
        (&["-C", "-w", "a"], &own, "--watch requires SingleNamespace"),
        (&["-C", "-w", "a,b"], &own, "--watch requires MultiNamespace"),
        (&["-C=false"], &all, "create one with --create-operator-group"),
    ] {
        let error = targets(more, modes).unwrap_err();
        assert!(error.contains(part), "{more:?}: {error}");
    }
    // An existing group is kept.
    let wanted = decided(&["-C"]).unwrap();
    assert_eq!(wanted.group, None);
    assert_eq!(
        wanted.notes,
        ["OperatorGroup og already exists and is not changed"]
    );
}

/// Otherwise the ClusterServiceVersion would fail after the installation, without a hint which object to change.
#[test]
fn what_cannot_work_with_the_operator_group_is_not_installed() {
    let decided = |more: &[&str], modes: &[&str], group: Group| {
        let mut package = package("etcd", "cat");
        for channel in &mut package.channels {
            channel.install_modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
        }
        decided_of(more, &[package], &[group], &[])
    };
    let unknown = Group {
        name: "og".to_owned(),
        targets: None,
        account: None,
    };
    for (modes, group) in [
        (&["AllNamespaces"][..], group_for(&[""])),
        (&["OwnNamespace"], group_for(&["shop"])),
        (&["SingleNamespace"], group_for(&["a"])),
        (&["MultiNamespace"], group_for(&["a", "b"])),
        (&[], group_for(&["a"])),
        (&["AllNamespaces"], unknown),
    ] {
        decided(&[], modes, group).unwrap();
    }
    let of_own = error(decided(&[], &["AllNamespaces"], group_for(&["shop"])));
    for part in [
        "etcd.v1.1.0 supports install modes AllNamespaces, but OperatorGroup og of namespace shop is for shop",
        "`kubectl operator install etcd --create-namespace --create-operator-group -n NAMESPACE`",
    ] {
        assert!(of_own.contains(part), "{of_own}");
    }
    let of_all = error(decided(&[], &["SingleNamespace"], group_for(&[""])));
    assert!(
        of_all.contains("is for all namespaces") && of_all.contains("--watch WATCHED"),
        "{of_all}"
    );
    let other = error(decided(
        &["-w", "a"],
        &["OwnNamespace", "SingleNamespace"],
        group_for(&["shop"]),
    ));
    assert!(
        other.contains("--watch requires install mode SingleNamespace"),
        "{other}"
    );
    // The install modes of an older version are unknown.
    let older = decided(&["-v", "1.0.0"], &["AllNamespaces"], group_for(&["shop"])).unwrap();
    assert!(
        older
            .notes
            .iter()
            .any(|note| note.contains("only known for etcd.v1.1.0")),
        "{:?}",
        older.notes
    );
}

#[test]
fn what_else_will_be_met_is_said_before() {
    let mut long = package("etcd", "cat");
    long.channels[1].suggested_namespace = "etcd-system".to_owned();
    let og = [group_for(&["shop"])];
    let notes = decided_of(&[], std::slice::from_ref(&long), &og, &[])
        .unwrap()
        .notes;
    assert_eq!(
        notes,
        [
            "etcd.v1.1.0 suggests namespace etcd-system",
            "it needs Disk (disks.example.com); OLM installs operators that provide the missing ones"
        ]
    );
    long.channels[1].suggested_namespace = "shop".to_owned();
    assert_eq!(
        decided_of(&[], std::slice::from_ref(&long), &og, &[])
            .unwrap()
            .notes
            .len(),
        1
    );
    // The API server would reject each labelled object.
    for (letters, fits) in [(63, true), (64, false)] {
        long.channels[1].head = "n".repeat(letters);
        let result = decided_of(&[], std::slice::from_ref(&long), &og, &[]);
        assert_eq!(result.is_ok(), fits, "{letters}");
    }
}

#[test]
fn og_020_a_group_of_several_namespaces_is_made_and_advised_against() {
    let mut package = package("etcd", "cat");
    for channel in &mut package.channels {
        channel.install_modes = vec!["MultiNamespace".to_owned(), "SingleNamespace".to_owned()];
        channel.requires.clear();
    }
    let notes = |more: &[&str]| {
        let wanted = decided_of(more, std::slice::from_ref(&package), &[], &[]).unwrap();
        assert!(wanted.group.is_some());
        wanted.notes.join("\n")
    };
    let several = notes(&["-C", "-w", "a,b"]);
    assert!(several.contains("several namespaces"), "{several}");
    assert_eq!(notes(&["-C", "-w", "a"]), "");
}

async fn installed(cluster: &FakeCluster, more: &[&str]) -> (Vec<String>, anyhow::Result<()>) {
    let (client, _link) = cluster.connect();
    let args = install_args(more);
    let mut told = Vec::new();
    let mut tell = |text: &str| told.push(text.to_owned());
    let result = match wanted(&Cluster::of(client.clone(), "shop"), &args).await {
        Ok(wanted) => write(&client, "shop", args.create_namespace, &wanted, &mut tell).await,
        Err(error) => Err(error),
    };
    (told, result)
}

#[tokio::test(start_paused = true)]
async fn namespace_group_and_subscription_are_made_in_this_order() {
    let cluster = served();
    cluster.put(manifest("etcd", "cat"));
    let both = ["--create-namespace", "--create-operator-group"];
    let (told, result) = installed(&cluster, &both).await;
    result.unwrap();
    insta::assert_snapshot!(told.join("\n"), @r"
    Namespace shop created
    OperatorGroup shop/shop created
    Subscription shop/etcd created: package etcd, channel stable of catalog olm/cat
    ");
    let group = cluster.get("OperatorGroup", "shop", "shop").unwrap();
    assert_eq!(group["spec"]["targetNamespaces"], json!(["shop"]));
    let subscription = cluster.get("Subscription", "shop", "etcd").unwrap();
    assert_eq!(subscription["spec"]["source"], "cat");
    // Existing objects are not written again.
    cluster.take_log();
    let (_, result) = installed(&cluster, &both).await;
    assert!(result.unwrap_err().to_string().contains("already"));
    assert!(cluster.log().writes.is_empty());
}

/// Otherwise one malformed object could block every installation in the namespace.
#[tokio::test(start_paused = true)]
async fn unreadable_objects_do_not_prevent_an_install() {
    let cluster = served();
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    cluster.put(manifest("etcd", "cat"));
    let odd = |kind: &str, name: &str, spec: Value| cluster.put(object(kind, name, &json!({"spec": spec})));
    cluster.put(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"namespace": "shop", "name": "og"}, "spec": {"targetNamespaces": 7}}),
    );
    odd("Subscription", "odd", json!({"name": 7}));
    odd("CatalogSource", "odd", json!(7));
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let wanted = wanted(&here, &install_args(&[])).await.unwrap();
    assert_eq!(wanted.group, None);
    assert!(
        wanted
            .notes
            .iter()
            .any(|note| note.starts_with("cannot read Subscription shop/odd: ")
                && note.ends_with("it may have this package")),
        "{:?}",
        wanted.notes
    );
    let (_, result) = installed(&cluster, &[]).await;
    result.unwrap();
    // Its package is readable, or it has the requested name.
    assert!(cluster.delete("Subscription", "shop", "etcd"));
    odd("Subscription", "db", json!({"name": "etcd", "source": 7}));
    let (_, result) = installed(&cluster, &[]).await;
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("Subscription db of package etcd already exists"),
        "{error}"
    );
    assert!(cluster.delete("Subscription", "shop", "db"));
    let (_, result) = installed(&cluster, &["--name", "odd"]).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("Subscription odd"), "{error}");
    // The catalog is read even if its CatalogSource is malformed.
    let (_, result) = installed(&cluster, &["--catalog", "shop/odd"]).await;
    let error = result.unwrap_err().to_string();
    assert!(error.starts_with("cannot read catalog shop/odd: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_user_without_the_right_to_subscribe_sees_the_created_objects() {
    let cluster = served();
    cluster.put(manifest("etcd", "cat"));
    cluster.on_request(|request| {
        let is_write = request.kind.kind == "Subscription" && request.body.is_object();
        is_write.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "is forbidden")))
    });
    let (told, result) = installed(&cluster, &["--create-namespace", "--create-operator-group"]).await;
    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("cannot create Subscription etcd in namespace shop: is forbidden")
    );
    assert_eq!(told.len(), 2, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_package_server_the_catalogs_are_asked() {
    let cluster = FakeCluster::new();
    let (_, result) = installed(&cluster, &[]).await;
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("no catalog in namespaces shop and olm (see --global-catalog-namespace)"),
        "{error}"
    );
    cluster.put(object(
        "CatalogSource",
        "cat",
        &json!({"spec": {"sourceType": "grpc"}}),
    ));
    let (_, result) = installed(&cluster, &["--catalog", "other"]).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("no catalog other"), "{error}");
    // A catalog that package-server has not read yet.
    let (_, result) = installed(&served(), &["--catalog", "other"]).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("no catalog other"), "{error}");
    let (_, result) = installed(&cluster, &["--catalog", "shop/cat"]).await;
    let error = result.unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot read catalog shop/cat: no pod of the catalog is ready"
    );
}

/// The unreadable catalog may have the package, too, and the choice is the user's.
#[tokio::test(start_paused = true)]
async fn a_catalog_that_cannot_be_read_leaves_no_choice() {
    let cluster = FakeCluster::new();
    for name in ["cat", "other"] {
        let source = json!({"spec": {"sourceType": "grpc"}});
        cluster.put(object("CatalogSource", name, &source));
    }
    let (_, result) = installed(&cluster, &[]).await;
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("cannot read catalog shop/cat, which may also have package etcd: no pod"),
        "{error}"
    );
    assert!(cluster.log().writes.is_empty());
}

#[test]
fn a_group_for_the_whole_cluster_is_reported_before_it_is_made() {
    let mut package = package("etcd", "cat");
    for channel in &mut package.channels {
        channel.install_modes = vec!["AllNamespaces".to_owned(), "OwnNamespace".to_owned()];
        channel.requires.clear();
    }
    let notes = |more: &[&str]| {
        decided_of(more, std::slice::from_ref(&package), &[], &[])
            .unwrap()
            .notes
    };
    let whole = "OperatorGroup shop/shop selects all namespaces: all operators in shop watch the whole cluster; use --watch shop to watch only that namespace";
    assert_eq!(notes(&["-C", "-v", "1.1.0"]), [whole]);
    assert_eq!(
        notes(&["-C", "-v", "1.0.0"]),
        [
            "the version is deprecated: it loses keys",
            whole,
            "install modes were checked for etcd.v1.1.0, the channel head; the requested version may differ"
        ]
    );
    assert!(notes(&["-C", "-w", "shop"]).is_empty());
}

/// Returns the packages read from a catalog without package-server.
fn packages_of(catalog: &str) -> Vec<Package> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.yaml"), catalog).unwrap();
    let key = CatalogKey {
        name: "cat".to_owned(),
        namespace: "olm".to_owned(),
    };
    let mut catalogs = catalogs::from_directory(folder.path(), &BTreeSet::from([key.clone()])).unwrap();
    let snapshot = catalogs.contents.remove(&key).unwrap().unwrap();
    of_snapshot(&key, &snapshot)
}

#[test]
fn what_a_catalog_deprecates_is_warned_of_without_a_package_server() {
    let catalog = format!(
        "{}---\nschema: olm.deprecations\npackage: etcd\nentries:\n\
         - {{reference: {{schema: olm.package}}, message: take valkey}}\n\
         - {{reference: {{schema: olm.channel, name: stable}}, message: stable ends}}\n\
         - {{reference: {{schema: olm.bundle, name: etcd.v1.0.0}}, message: has a hole}}\n",
        olm_testing::samples::ETCD_CATALOG
    );
    let packages = packages_of(&catalog);
    let asked = ["--version", "1.0.0"];
    let notes = decided_of(&asked, &packages, &[group_for(&["shop"])], &[])
        .unwrap()
        .notes;
    for message in ["take valkey", "stable ends", "has a hole"] {
        assert!(
            notes.iter().any(|note| note.contains(message)),
            "{message}: {notes:?}"
        );
    }
}

#[test]
fn a_catalog_lists_its_packages_itself() {
    let packages = packages_of(olm_testing::samples::ETCD_CATALOG);
    let text = serde_json::to_string_pretty(&packages).unwrap();
    let wanted = decided_of(&["--version", "1.0.0"], &packages, &[group_for(&["shop"])], &[]);
    assert_eq!(
        wanted.unwrap().subscription.spec.starting_csv(),
        Some("etcd.v1.0.0"),
        "{text}"
    );
    assert_eq!(packages[0].head_channel().unwrap().head, "etcd.v1.1.0", "{text}");
}

/// A typo would result in an operator that is ready but watches nothing.
#[tokio::test(start_paused = true)]
async fn a_target_namespace_that_is_not_there_is_warned_of() {
    let cluster = served();
    let mut package = manifest("etcd", "cat");
    for channel in package["status"]["channels"].as_array_mut().unwrap() {
        channel["currentCSVDesc"]["installModes"] = json!([{"type": "SingleNamespace", "supported": true}]);
    }
    cluster.put(package);
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "there"}}));
    let (client, _link) = cluster.connect();
    for (target, expected) in [
        ("there", ""),
        (
            "nope",
            "namespace nope does not exist; the operator has nothing to watch until it is created",
        ),
    ] {
        let args = install_args(&["-C", "-w", target]);
        let wanted = wanted(&Cluster::of(client.clone(), "shop"), &args).await.unwrap();
        let told: Vec<&String> = wanted
            .notes
            .iter()
            .filter(|note| note.contains("exist"))
            .collect();
        assert_eq!(
            told,
            Vec::from_iter([expected].iter().filter(|text| !text.is_empty())),
            "{target}"
        );
    }
}
