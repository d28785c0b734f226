//! Command-line flags of the plugin.

pub(crate) mod catalog;
pub(crate) mod change;
pub(crate) mod look;
pub(crate) mod olmv1;
pub(crate) mod shared;
pub(crate) mod words;

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use olm_resolver::RuntimeConstraint;
use olm_resolver::cluster_fit::KubernetesVersion;
use olm_resolver::runtime_constraint::RuntimeConstraintsError;

use self::catalog::CatalogCommand;
use self::change::{HoldArgs, InstallArgs, RollbackArgs, UnholdArgs, UninstallArgs, UpgradeArgs};
use self::look::{
    AvailableArgs, DescribeArgs, DoctorArgs, GraphArgs, ListArgs, OperandsArgs, RightsArgs, StatusArgs,
    SupportBundleArgs, UiArgs,
};
use self::olmv1::Olmv1Command;
use self::shared::{Document, duration, whole};

/// Manage the operators of a cluster with the Operator Lifecycle Manager (OLM)
///
/// The commands list, plan, explain, install, approve, upgrade and uninstall operators, and manage catalogs. They use your
/// kubeconfig and your permissions. Data goes to stdout, everything else to stderr. Exit codes: 0 if everything is fine, 2 if
/// something is not resolved, not approved or not ready in time, 1 on an error; see --help of each command.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl operator",
    bin_name = "kubectl operator",
    version,
    max_term_width = 100,
    args_override_self = true,
    after_help = "Examples:\n  \
        kubectl operator list -A                                          # list installed operators\n  \
        kubectl operator install etcd -n shop --create-operator-group --wait\n  \
        kubectl operator status etcd -n shop                              # show what it waits for\n  \
        kubectl operator explain etcd -n shop                             # explain why it is not installed or upgraded"
)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// The same flags before the command, as upstream's plugin takes them. The command has them, too.
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Maximum time to wait for the result, such as 90s or 5m; 0 means no limit [default: no limit]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Approve an install plan after showing what it creates, changes and permits
    ///
    /// NAME is a Subscription with a pending plan, or an InstallPlan. The command shows what OLM recorded when it created the
    /// plan: objects that are created or changed, versions and fields that custom resource definitions lose, and permissions that
    /// are gained or lost. It also reports whether this record is out of date. On a terminal it asks for confirmation; otherwise
    /// it approves nothing without --yes. The approval covers the steps that were shown: OLM does not carry out others. It
    /// applies to all Subscriptions that share the plan.
    ///
    /// Exit codes: 0 if the plan is approved, even if it already was, 2 if it is not approved, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator approve db -n shop                 # show, ask, approve\n  \
        kubectl operator approve db -n shop </dev/null      # show only\n  \
        kubectl operator approve install-abcde -n shop --yes -o json")]
    Approve(ApproveArgs),
    /// Print a shell completion script for kubectl-operator
    ///
    /// `kubectl operator` needs no script of its own. Set up the completion of kubectl, and link this program into your PATH
    /// under the name kubectl_complete-operator.
    #[command(after_help = "Examples:\n  \
        source <(kubectl operator completion bash)\n  \
        ln -s \"$(command -v kubectl-operator)\" ~/.local/bin/kubectl_complete-operator   # for kubectl operator")]
    Completion {
        /// Shell to print the script for
        shell: Shell,
    },
    /// Add, list and remove catalogs
    #[command(subcommand, visible_alias = "catalogs")]
    Catalog(CatalogCommand),
    /// Describe a package: its channels, versions, deprecations and install modes
    ///
    /// The command reads OLM's package-server (packages.operators.coreos.com/v1), which lists the catalogs that the namespace can
    /// use.
    ///
    /// Exit codes: 0 if the package is described, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator describe etcd\n  \
        kubectl operator describe etcd --catalog olm/community -o yaml")]
    Describe(DescribeArgs),
    /// Find problems of OLM and its operators, and suggest fixes
    ///
    /// The command checks what status does not show: OLM itself, catalogs, OperatorGroups, webhooks, APIServices, conversions,
    /// and orphaned objects. It also reports each operator that is not ready; status has more details about it.
    /// Each finding names an object and its problem, followed by
    /// the command or edit that fixes it. The command only reads. A check that your permissions do not allow, or that does not
    /// finish in time, is reported as not checked, never as fine.
    ///
    /// Exit codes: 0 if everything was checked and is fine, apart from notes, 2 if there are other findings or something was not
    /// checked, 1 if nothing could be checked or the namespace does not exist.
    #[command(after_help = "Examples:\n  \
        kubectl operator doctor                    # check the current namespace and what it depends on\n  \
        kubectl operator doctor -A                 # check the whole cluster\n  \
        kubectl operator doctor -A -o wide         # also list the checks that found nothing\n  \
        kubectl operator doctor -A --timeout 30s -o json | jq -r '.findings[] | select(.severity == \"error\") | .object'")]
    Doctor(DoctorArgs),
    /// Explain why Subscriptions cannot be resolved or upgraded, and suggest changes
    ///
    /// Exit codes: 0 if everything resolves and is ready, 2 if something is not, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator explain -n shop                 # explain all Subscriptions of the namespace\n  \
        kubectl operator explain db -n shop\n  \
        kubectl operator explain db -o json | jq -r '.fixes'")]
    Explain(ExplainArgs),
    /// Draw the upgrade graph of a package, and mark the installed version
    ///
    /// The graph has a lane for each channel, the newest version first: @ marks installed versions, * the channel head, and -
    /// skipped versions. The command reads the catalog itself, through a port that is forwarded to its pod. -o svg writes a
    /// self-contained image, and -o json all data.
    ///
    /// Exit codes: 0 if the graph is drawn, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator graph etcd                                  # draw all channels, with the installed version\n  \
        kubectl operator graph etcd --channel stable -n shop\n  \
        kubectl operator graph etcd --catalog olm/community -o svg > etcd.svg\n  \
        kubectl operator graph etcd -o json | jq -r '.channels[].entries[] | select(.isHead) | .name'")]
    Graph(GraphArgs),
    /// Hold an operator at its installed version, or within a range of versions
    ///
    /// The command sets the annotation operatorframework.io/upgrade-hold of the Subscription. OLM then installs no version of the
    /// package outside the range, also with installPlanApproval Automatic. An upgrade that is in progress is not stopped; see
    /// rollback. `unhold` removes the annotation.
    ///
    /// Exit codes: 0 if the operator is held, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator hold etcd -n shop                       # stay at the installed version\n  \
        kubectl operator hold etcd -n shop --range '<2.0.0'")]
    Hold(HoldArgs),
    /// Install a package: create a Subscription, and approve its first plan
    ///
    /// The command first checks the package, channel, version, install modes and OperatorGroup, and reports what cannot work
    /// before it creates anything. Without package-server it reads the catalogs themselves. If requested, it also creates the
    /// namespace and an OperatorGroup. It approves the first plan; on a terminal it shows the plan and asks for confirmation.
    /// Later versions require approval, see upgrade, unless --approval is Automatic. Objects that were created are kept if a
    /// later step fails.
    ///
    /// The command waits until the plan is complete, for 1m or --timeout. With --wait it then waits until the operator is ready,
    /// for 10m or --timeout. With --no-wait it does not wait, and the first plan remains to be approved with `approve`.
    ///
    /// Exit codes: 0 if the plan is complete (with --wait: the operator is ready), 1 on an error, 2 if you decline, or if the package
    /// cannot be resolved, fails, or is not ready in time.
    #[command(after_help = "Examples:\n  \
        kubectl operator install etcd -n shop\n  \
        kubectl operator install etcd -n shop --create-namespace --create-operator-group --wait\n  \
        kubectl operator install etcd -n shop --channel stable --version 1.0.0\n  \
        kubectl operator install etcd -n shop --approval Automatic --no-wait\n  \
        kubectl operator install etcd -n shop -C --watch shop       # watch its own namespace only, even if it supports all")]
    Install(InstallArgs),
    /// List installed operators with their versions and states
    ///
    /// The list has a line for each Subscription, and for each ClusterServiceVersion without a Subscription; copies are omitted.
    /// INSTALLED is the last version that succeeded, and CURRENT the version that OLM is installing or has installed. STATE is
    /// Ready, Held (see hold), Pinned (startingCSV is installed, and later versions require approval), Installing, Upgrading,
    /// RequiresApproval (see approve), Pending (OLM has not processed it), Unresolved (see explain) or Failed. -o wide adds the
    /// catalog, the approval, the ClusterServiceVersion and the cause of the state; -o json has all fields.
    ///
    /// Exit codes: 0 if the list is printed, even if it is empty, 1 on an error.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  \
        kubectl operator list                    # list the current namespace\n  \
        kubectl operator list -A -o wide         # list all namespaces, with causes\n  \
        kubectl operator list -A -o json | jq -r '.operators[] | select(.state != \"Ready\") | .name'"
    )]
    List(ListArgs),
    /// List the operands of an installed operator: the custom resources of the kinds that it owns
    ///
    /// The list has the operands in the namespaces that its OperatorGroup selects, and those without a namespace. NAME is the
    /// package or its Subscription.
    ///
    /// Exit codes: 0 if the list is printed, even if it is empty, 1 on an error or if there is no such operator.
    #[command(after_help = "Examples:\n  \
        kubectl operator list-operands etcd -n shop\n  \
        kubectl operator list-operands etcd -n shop -o json | jq -r '.items[].metadata.name'")]
    ListOperands(OperandsArgs),
    /// List packages that can be installed, or the channels and versions of one package
    ///
    /// The command reads OLM's package-server (packages.operators.coreos.com/v1), which lists the catalogs that the namespace can
    /// use.
    ///
    /// Exit codes: 0 if the list is printed, even if it is empty, 1 on an error or if there is no such package.
    #[command(
        visible_alias = "available",
        after_help = "Examples:\n  \
        kubectl operator list-available                  # list packages and their default channels\n  \
        kubectl operator list-available etcd -o wide     # list channels and versions of one package\n  \
        kubectl operator list-available --catalog olm/community -o json | jq -r '.packages[].name'"
    )]
    ListAvailable(AvailableArgs),
    /// Manage the ClusterCatalogs and ClusterExtensions of OLM v1
    ///
    /// The commands are those of upstream's plugin, and work with upstream's OLM v1 too. Both kinds belong to the cluster, not to
    /// a namespace.
    #[command(
        name = "olmv1",
        subcommand,
        after_help = "Examples:\n  \
        kubectl operator olmv1 create catalog community registry.example/catalog:latest\n  \
        kubectl operator olmv1 search catalog --package etcd\n  \
        kubectl operator olmv1 install extension etcd --package-name etcd -n shop\n  \
        kubectl operator olmv1 status etcd"
    )]
    Olmv1(Olmv1Command),
    /// Show what OLM will install and upgrade, step by step to the channel heads
    ///
    /// Without -f it also notes the operators that failed or lack something, such as the image of their bundle.
    ///
    /// Exit codes: 0 if everything resolves, 2 if something cannot be resolved or an operator failed or lacks something, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator plan -n shop                          # plan for the cluster as it is\n  \
        kubectl operator plan -n shop -f new.yaml              # plan as if the file were applied\n  \
        kubectl operator plan -n shop --target 1.2.0           # plan the way to a version\n  \
        kubectl operator plan --catalog ./catalog -f all.yaml  # plan without a cluster")]
    Plan(PlanArgs),
    /// Print the Roles that the ServiceAccount of an OperatorGroup needs to install a package
    ///
    /// The Roles allow to write the objects of the bundle, and contain all rights of the operator, because in Kubernetes nobody
    /// can grant more than they have. They fit the target namespaces of the namespace's OperatorGroup. Review them before you
    /// apply them. The commands that bind them are printed to stderr. Operators that the package requires need Roles of their own.
    ///
    /// Exit codes: 0 if the Roles are printed, 1 on an error, for example if the catalog has only the image of the bundle.
    #[command(after_help = "Examples:\n  \
        kubectl operator rights etcd -n shop > roles.yaml\n  \
        kubectl operator rights etcd -n shop --channel stable --version 1.0.0 -o json")]
    Rights(RightsArgs),
    /// Go back to the previous version of an operator after a failed upgrade
    ///
    /// The command shows what it will do, and asks for confirmation. It deletes the Subscription, its incomplete InstallPlans and
    /// all ClusterServiceVersions of the operator. Then it creates the Subscription again, with the previous version as startingCSV
    /// and held at it. If the plan needs approval, it approves the plan for that version alone. It waits until the operator is ready;
    /// meanwhile the operator does not run. Custom resources are kept, but the CustomResourceDefinitions of the previous version
    /// replace those of the cluster: fields they lack are lost at the next write. For that the command asks a second time; with --yes
    /// it needs --accept-data-loss. Until the Subscription is created again, it is in a file of the current folder.
    ///
    /// It changes nothing if the catalog no longer has the previous version or deprecates it, if OLM would not install it, if that
    /// version lacks a version of a CustomResourceDefinition in which objects are stored, or if the operator deletes its custom
    /// resources when it is removed. Without --to it also refuses if the newest version has not failed, or if no completed
    /// InstallPlan shows which version was installed before.
    ///
    /// Exit codes: 0 if the previous version is ready, 1 on an error or if the command refuses, 2 if you decline or if the
    /// operator does not become ready in time.
    #[command(after_help = "Examples:\n  \
        kubectl operator rollback etcd -n shop --dry-run          # show only\n  \
        kubectl operator rollback etcd -n shop                    # show, ask, go back\n  \
        kubectl operator rollback etcd -n shop --to 1.0.0 --yes")]
    Rollback(RollbackArgs),
    /// Show an operator as a tree, from its Subscription to its pods, with what each object waits for
    ///
    /// With --watch the command draws the tree again after each change; without a terminal it prints each change as a line. It
    /// stops when everything is ready, when what is left waits for an approval, has failed or cannot be resolved, or after --timeout.
    /// Deployments and pods that you may not read are shown as Unknown and do not block. For a single operator without --watch,
    /// the command also shows the channel, with the installed version in brackets. A plan that requires approval shows the first
    /// of its changes as a diff; approve shows all of them.
    ///
    /// Exit codes: 0 if everything is ready, 2 if something is not ready (with --watch: not in time), 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator status                          # show all operators of the namespace\n  \
        kubectl operator status db -n shop --watch       # wait until it is ready, for at most 10 minutes\n  \
        kubectl operator status db --watch --timeout 2m || kubectl operator explain db\n  \
        kubectl operator status db -o json")]
    Status(StatusArgs),
    /// Collect diagnostic data for maintainers in one file
    ///
    /// The file contains OLM's objects, the Deployments, pods, Jobs and events of operators, the output of doctor and status,
    /// versions, and a list of everything that could not be read. --logs adds the last 10000 lines of each log of OLM's own pods.
    ///
    /// Secrets are not read at all. Values below data, stringData, binaryData, env, httpHeaders, args and command are removed,
    /// also from the manifests in InstallPlans. Nothing else is removed: messages, events, annotations and logs may contain a
    /// secret, so review the file before you share it. Only its owner can read the file. An existing file is not overwritten
    /// without --force.
    ///
    /// Exit codes: 0 if the file is complete, 2 if something could not be read, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator support-bundle -n shop                         # write olm-support-bundle.tar.gz\n  \
        kubectl operator support-bundle -A --logs --output case-17.tar.gz\n  \
        tar -xzOf case-17.tar.gz olm-support-bundle/manifest.json       # show what it contains and what is missing")]
    SupportBundle(SupportBundleArgs),
    /// Serve web pages to view operators, plans and catalogs, and to approve plans
    ///
    /// The pages are served on 127.0.0.1 only, with your kubeconfig and your permissions; nothing runs in the cluster. The
    /// printed link works once, and grants everything on these pages that your permissions allow. No browser is started, because
    /// its arguments would show the link to other users of the machine.
    ///
    /// The command stops on Ctrl-C, or after 8 hours without a request. Over ssh use -t, because without a terminal Ctrl-C does not
    /// reach the command.
    ///
    /// Exit codes: 0 after Ctrl-C or 8 hours, 1 if the namespace does not exist or the pages cannot be served.
    #[command(after_help = "Examples:\n  \
        kubectl operator ui                              # open the printed link\n  \
        kubectl operator ui -A --port 8001               # start with all namespaces, on a fixed port\n  \
        ssh -t -L 8001:127.0.0.1:8001 host kubectl operator ui --port 8001   # for a browser on another machine")]
    Ui(UiArgs),
    /// Let OLM install all versions of an operator again, after hold
    ///
    /// The command removes the annotation operatorframework.io/upgrade-hold of the Subscription.
    ///
    /// Exit codes: 0 if the operator is not held any more, 1 on an error.
    #[command(after_help = "Examples:\n  \
        kubectl operator unhold etcd -n shop")]
    Unhold(UnholdArgs),
    /// Uninstall an operator: delete its Subscription and ClusterServiceVersion, after showing what is deleted and kept
    ///
    /// NAME is the package or its Subscription. If the operator has operands (see list-operands), nothing is deleted unless
    /// --operand-strategy keeps them (ignore) or deletes them while the operator still runs (delete); on a terminal the command
    /// asks whether to keep them. CustomResourceDefinitions are kept, unless --delete-crd names them or --delete-operator is set:
    /// then all objects of that kind are deleted, in all namespaces. A definition that another operator owns or needs is never
    /// deleted. Incomplete InstallPlans for this operator alone are deleted too. During an upgrade
    /// all versions of the operator are deleted. If a plan in progress is also for other
    /// operators, the command stops with an error. Dependencies are kept.
    ///
    /// Exit codes: 0 if the operator is uninstalled, 1 on an error, if it has operands, or if it is not deleted in time, 2 if you
    /// decline or if a part of it was created meanwhile.
    #[command(after_help = "Examples:\n  \
        kubectl operator uninstall etcd -n shop                      # show, ask, uninstall\n  \
        kubectl operator uninstall etcd -n shop --dry-run            # show only\n  \
        kubectl operator uninstall etcd -n shop -s ignore --yes      # keep operands\n  \
        kubectl operator uninstall etcd -n shop -X                   # delete operands, definitions and OperatorGroups too\n  \
        kubectl operator uninstall etcd -n shop --delete-crd etcds.example.com --yes")]
    Uninstall(UninstallArgs),
    /// Approve the pending upgrade of an operator, and wait until it is complete
    ///
    /// NAME is the package, its Subscription, or an InstallPlan. On a terminal the command shows the changes and asks for
    /// confirmation; otherwise it approves the upgrade at once. If no plan requires approval, it reports the reason: there is no
    /// newer version, or it cannot be installed.
    ///
    /// The command waits until the plan is complete, for 1m or --timeout. With --wait it waits until the operator is ready, for
    /// 10m or --timeout.
    ///
    /// Exit codes: 0 if the operator is upgraded, 1 on an error, for example if it already has the latest version, 2 if you
    /// decline, or if the bundle of the next version is not unpacked, or the plan fails or is not complete in time (with --wait: the
    /// operator is not ready).
    #[command(after_help = "Examples:\n  \
        kubectl operator upgrade db -n shop               # show, ask, approve, wait for the plan\n  \
        kubectl operator upgrade db -n shop --dry-run     # show only\n  \
        kubectl operator upgrade db -n shop --yes --wait --timeout 5m")]
    Upgrade(UpgradeArgs),
    /// Print the version of this program
    Version {
        /// Output format [default: text]
        #[arg(short, long, value_enum, value_name = "FORMAT")]
        output: Option<Document>,
    },
}

/// Where the cluster is, and the namespace.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct ConnectionArgs {
    /// Namespace to use [default: the namespace of the kubeconfig context]
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Name of the kubeconfig context to use
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// Path to the kubeconfig file [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// User to impersonate, such as system:serviceaccount:shop:installer
    #[arg(long = "as", global = true, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub as_user: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long, global = true, value_name = "GROUP", requires = "as_user", value_parser = NonEmptyStringValueParser::new())]
    pub as_group: Vec<String>,
}

/// The cluster, and what resolution depends on besides its objects.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Namespace of the global catalogs, which all namespaces may use [default: detected, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    /// File with constraints that every bundle must meet, a copy of the file in RUNTIME_CONSTRAINTS of catalog-operator
    #[arg(long, value_name = "FILE")]
    pub runtime_constraints: Option<PathBuf>,
}

impl ClusterArgs {
    /// Returns the constraints that every bundle has to meet; empty without `--runtime-constraints`.
    ///
    /// # Errors
    /// The file cannot be read or is invalid.
    pub(crate) fn runtime_constraints(&self) -> Result<Vec<RuntimeConstraint>, RuntimeConstraintsError> {
        let file = self.runtime_constraints.as_deref();
        file.map_or(Ok(Vec::new()), RuntimeConstraint::read_file)
    }
}

/// `approve`
#[derive(Debug, ClapArgs)]
pub(crate) struct ApproveArgs {
    /// Subscription with a pending plan, or InstallPlan; use installplan/NAME if a Subscription has the same name
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Approve without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Output format of the changes
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `explain`
#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainArgs {
    /// Subscription to explain [default: all Subscriptions of the namespace]
    pub subscription: Option<String>,
    /// Output format of the explanation
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `plan`
#[derive(Debug, ClapArgs)]
pub(crate) struct PlanArgs {
    /// File with Subscriptions, ClusterServiceVersions, OperatorGroups and CatalogSources to plan for as if they were applied; use
    /// - for stdin; may be repeated
    #[arg(short, long, value_name = "FILE")]
    pub filename: Vec<PathBuf>,
    /// Directory to use as the content of every catalog that the objects name; plans without a cluster
    #[arg(long, value_name = "DIRECTORY", requires = "filename", value_hint = ValueHint::DirPath)]
    pub catalog: Option<PathBuf>,
    /// Version or ClusterServiceVersion to reach [default: the channel head]
    #[arg(long, value_name = "VERSION", value_parser = NonEmptyStringValueParser::new())]
    pub target: Option<String>,
    /// Subscription to move to --target [default: the only one whose package has that version]
    #[arg(long, value_name = "NAME", requires = "target")]
    pub subscription: Option<String>,
    /// Maximum number of steps to plan; 1 is the next resolution only
    #[arg(long, value_name = "NUMBER", conflicts_with = "target", value_parser = steps)]
    pub steps: Option<u16>,
    /// Kubernetes version to check the bundles against, such as 1.34.1 [default: the cluster's version]
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<KubernetesVersion>,
    /// Output format of the plan
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Parses `--steps`.
fn steps(text: &str) -> Result<u16, String> {
    whole::<NonZeroU16>(text, "a number from 1 to 65535").map(NonZeroU16::get)
}

/// How a plan or an explanation is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Text
    Text,
    /// JSON; docs/reference/plan.schema.json and explain.schema.json describe it
    Json,
    /// YAML, with the same fields as JSON
    Yaml,
}

impl Output {
    /// Returns the document format; `None` for text.
    pub(crate) fn document(self) -> Option<Document> {
        match self {
            Self::Text => None,
            Self::Json => Some(Document::Json),
            Self::Yaml => Some(Document::Yaml),
        }
    }
}

#[cfg(test)]
mod tests;
