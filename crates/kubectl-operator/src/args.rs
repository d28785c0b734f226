//! Command-line flags of the plugin.

pub(crate) mod catalog;
pub(crate) mod change;
pub(crate) mod doctor;
pub(crate) mod graph;
pub(crate) mod look;
pub(crate) mod packages;
pub(crate) mod shared;
pub(crate) mod support_bundle;
pub(crate) mod ui;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use olm_resolver::RuntimeConstraint;
use olm_resolver::cluster_fit::KubernetesVersion;
use olm_resolver::runtime_constraint::RuntimeConstraintsError;

use self::catalog::CatalogCommand;
use self::change::{InstallArgs, UninstallArgs, UpgradeArgs};
use self::doctor::DoctorArgs;
use self::graph::GraphArgs;
use self::look::{ListArgs, OperandsArgs, StatusArgs};
use self::packages::{AvailableArgs, DescribeArgs};
use self::shared::{Document, duration};
use self::support_bundle::SupportBundleArgs;
use self::ui::UiArgs;

/// Operators of a cluster: what is installed and what it waits for, what OLM will do and why it does not; install, approve, upgrade and
/// uninstall them, and keep catalogs.
///
/// It uses your kubeconfig and your rights. Data goes to stdout, everything else to stderr. Exit codes: 0 if all is well, 2 if something is not (or
/// was not approved, not ready in time), 1 if there is no answer; --help of each command says more.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl operator",
    bin_name = "kubectl operator",
    version,
    max_term_width = 100,
    args_override_self = true,
    after_help = "Examples:\n  \
        kubectl operator list -A                                          # what is installed\n  \
        kubectl operator install etcd -n shop --create-operator-group --wait\n  \
        kubectl operator status etcd -n shop                              # what it waits for\n  \
        kubectl operator explain etcd -n shop                             # why it is not installed or upgraded"
)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// The same flags before the command, as upstream's plugin takes them. The command has them, too.
    #[command(flatten)]
    connection: ConnectionArgs,
    /// How long to wait for an answer, such as 90s or 5m; 0 waits forever
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Approve an install plan that waits, after showing what it creates, changes and allows
    ///
    /// NAME is a Subscription whose plan waits, or an InstallPlan. What OLM noted when it made the plan is shown: objects it
    /// creates and changes, what custom resource definitions lose, permissions that are gained and lost; and whether that is
    /// outdated. A terminal is asked then; elsewhere nothing is approved without --yes. The approval is for the steps that
    /// were shown: OLM does not carry out others. It is for all Subscriptions that share the plan.
    ///
    /// Exit codes: 0 if the plan is approved, also if it was before, 2 if it is not, 1 if it cannot be.
    #[command(after_help = "Examples:\n  \
        kubectl operator approve db -n shop                 # show, ask, approve\n  \
        kubectl operator approve db -n shop </dev/null      # show only\n  \
        kubectl operator approve install-abcde -n shop --yes -o json")]
    Approve(ApproveArgs),
    /// Print a script that completes the words of kubectl-operator in a shell
    ///
    /// For `kubectl operator` no script is needed, but kubectl's own completion, and a link to this program on PATH under the
    /// name by which kubectl asks plugins.
    #[command(after_help = "Examples:\n  \
        source <(kubectl operator completion bash)\n  \
        ln -s \"$(command -v kubectl-operator)\" ~/.local/bin/kubectl_complete-operator   # for kubectl operator")]
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Add, list and remove catalogs
    #[command(subcommand, visible_alias = "catalogs")]
    Catalog(CatalogCommand),
    /// Describe a package: what it is, its channels and versions, what is advised against, and how it can be installed
    ///
    /// It is read from OLM's package-server (packages.operators.coreos.com/v1), of the catalogs that the namespace can use. Where the namespace has
    /// a Subscription to it, its channel says where that stands: [1.0.0] is installed, `next` is on its way or waits.
    ///
    /// Exit codes: 0 for a description, 1 if there is none.
    #[command(after_help = "Examples:\n  \
        kubectl operator describe etcd\n  \
        kubectl operator describe etcd --catalog olm/community -o yaml")]
    Describe(DescribeArgs),
    /// Find problems of OLM and its operators, and say how to fix them
    ///
    /// It looks at what status cannot see: OLM itself, catalogs, OperatorGroups, copies of ClusterServiceVersions, webhooks, APIServices,
    /// conversions and their certificates, what was unpacked, and what was left behind; and names each operator that is not ready, about which
    /// status says more. Each line is an object and what is wrong with it; below it is the command or the edit that mends it. It only reads. What your rights do not let it read, or what
    /// could not be read in time, is told as not checked, never as fine.
    ///
    /// Exit codes: 0 if everything was checked and is fine, 2 if something is not, or was not checked, 1 if nothing could be checked.
    #[command(after_help = "Examples:\n  \
        kubectl operator doctor                    # the current namespace, and what it depends on\n  \
        kubectl operator doctor -A                 # the whole cluster\n  \
        kubectl operator doctor -A -o wide         # with what is fine\n  \
        kubectl operator doctor -A --timeout 30s -o json | jq -r '.findings[] | select(.severity == \"error\") | .object'")]
    Doctor(DoctorArgs),
    /// Explain why subscriptions are not served or not upgraded, and what would change that
    ///
    /// Exit codes: 0 if everything resolves, 2 if something does not, 1 if there is no answer.
    #[command(after_help = "Examples:\n  \
        kubectl operator explain -n shop                 # all of the namespace\n  \
        kubectl operator explain db -n shop\n  \
        kubectl operator explain db -o json | jq -r '.fixes'")]
    Explain(ExplainArgs),
    /// Draw the upgrades of a package, with the version that is installed
    ///
    /// One lane for each channel, the newest version first: @ is installed, * the head, - skipped. It is read from the catalog itself, by a port
    /// forwarded to its pod. -o svg draws a picture that needs no other file, -o json has everything.
    ///
    /// Exit codes: 0 for a graph, 1 if there is none.
    #[command(after_help = "Examples:\n  \
        kubectl operator graph etcd                                  # all channels, what is installed marked\n  \
        kubectl operator graph etcd --channel stable -n shop\n  \
        kubectl operator graph etcd --catalog olm/community -o svg > etcd.svg\n  \
        kubectl operator graph etcd -o json | jq -r '.channels[].entries[] | select(.isHead) | .name'")]
    Graph(GraphArgs),
    /// Install a package: make a Subscription, and the namespace and OperatorGroup that it needs, and approve its first plan
    ///
    /// Package, channel, version, install modes and OperatorGroup are looked up first, so that what cannot work is reported before anything is made;
    /// without a package-server in the catalogs themselves. Unless --approval is Automatic, later versions wait for approval, see upgrade. The first
    /// plan is approved by this command; a terminal sees it and is asked. What was made stays if something fails later.
    ///
    /// The command waits until the plan is carried out, for 1m or --timeout; with --wait until the operator is ready, for 10m; with --no-wait not at
    /// all, and then the plan waits for `approve`.
    ///
    /// Exit codes: 0 if it is installed (with --wait: ready), 1 if it is not, 2 if the answer was no, or with --wait it does not get ready.
    #[command(after_help = "Examples:\n  \
        kubectl operator install etcd -n shop\n  \
        kubectl operator install etcd -n shop --create-namespace --create-operator-group --wait\n  \
        kubectl operator install etcd -n shop --channel stable --version 1.0.0\n  \
        kubectl operator install etcd -n shop --approval Automatic --no-wait\n  \
        kubectl operator install etcd -n shop -C --watch shop       # for its own namespace alone, also if it could work for all")]
    Install(InstallArgs),
    /// List installed operators with their versions and how they are doing
    ///
    /// One line for each Subscription, and for each ClusterServiceVersion without one (copies in other namespaces left out):
    /// the package and channel, the version that is installed, the version it is on the way to, and its state: Ready,
    /// Installing, Upgrading, RequiresApproval (see approve), Pending (OLM has not got to it), Unresolved (see explain) or
    /// Failed. `-o wide` adds catalog, approval, ClusterServiceVersion and what it waits for; `-o json` has all of it.
    ///
    /// Exit codes: 0 for a list, also an empty one, 1 if it cannot be had.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  \
        kubectl operator list                    # of the current namespace\n  \
        kubectl operator list -A -o wide         # of all, with what each waits for\n  \
        kubectl operator list -A -o json | jq -r '.operators[] | select(.state != \"Ready\") | .name'"
    )]
    List(ListArgs),
    /// List operands of an installed operator: the custom resources of the kinds that it owns
    ///
    /// Those of the namespaces that its OperatorGroup targets, and those without a namespace. The name is that of the package or of its Subscription.
    ///
    /// Exit codes: 0 for a list, also an empty one, 1 if it cannot be had or there is no such operator.
    #[command(after_help = "Examples:\n  \
        kubectl operator list-operands etcd -n shop\n  \
        kubectl operator list-operands etcd -n shop -o json | jq -r '.items[].metadata.name'")]
    ListOperands(OperandsArgs),
    /// List packages that can be installed, or the channels and versions of one
    ///
    /// They are read from OLM's package-server (packages.operators.coreos.com/v1), of the catalogs that the namespace can use.
    ///
    /// Exit codes: 0 for a list, also an empty one, 1 if it cannot be had or there is no such package.
    #[command(
        visible_alias = "available",
        after_help = "Examples:\n  \
        kubectl operator list-available                  # packages with their default channels\n  \
        kubectl operator list-available etcd -o wide     # channels and versions of one\n  \
        kubectl operator list-available --catalog olm/community -o json | jq -r '.packages[].name'"
    )]
    ListAvailable(AvailableArgs),
    /// Tell what OLM will install and upgrade, step by step to the heads of the channels
    ///
    /// Exit codes: 0 for a plan of everything asked for, 2 for one without what cannot be resolved, 1 if no plan can be
    /// made.
    #[command(after_help = "Examples:\n  \
        kubectl operator plan -n shop                          # the cluster as it is\n  \
        kubectl operator plan -n shop -f new.yaml              # as if the file were applied\n  \
        kubectl operator plan -n shop --target 1.2.0           # how to get to a version\n  \
        kubectl operator plan --catalog ./catalog -f all.yaml  # without a cluster")]
    Plan(PlanArgs),
    /// Show an operator as a tree, from its Subscription to its pods, with what each object waits for
    ///
    /// With --watch the tree is drawn again when something changes; elsewhere than on a terminal each change is a line. That ends
    /// when everything is ready, when nothing but an approval is waited for, when an InstallPlan has failed, or when --timeout is over.
    /// Deployments and pods that you may not read are shown as Unknown and hold nothing up. Of one operator that is not watched its channel is shown with
    /// the version that is installed in brackets. A plan that waits shows the beginning of what it changes, as a diff; approve shows all of it.
    ///
    /// Exit codes: 0 if everything is ready, 2 if something is not (with --watch: not in time), 1 if there is no answer.
    #[command(after_help = "Examples:\n  \
        kubectl operator status                          # all operators of the namespace\n  \
        kubectl operator status db -n shop --watch       # until it is ready, for 10 minutes at most\n  \
        kubectl operator status db --watch --timeout 2m || kubectl operator explain db\n  \
        kubectl operator status db -o json")]
    Status(StatusArgs),
    /// Collect what a maintainer needs to see into one file
    ///
    /// The file has objects of OLM, Deployments, pods, Jobs and events of operators, the output of doctor and status, versions, and a list of
    /// what could not be read. --logs adds the last 2 MiB of each log of OLM's own pods.
    ///
    /// Secrets are not read at all. Values below data, stringData, binaryData, env, httpHeaders, args and command are removed, also in the manifests
    /// of InstallPlans. Nothing else is removed: messages, events, annotations and logs may contain a secret, so look through the file before you share
    /// it. Only its owner may read the file, and no file is overwritten without --force.
    ///
    /// Exit codes: 0 for a file with everything, 2 for one that lacks what could not be read, 1 if there is none.
    #[command(after_help = "Examples:\n  \
        kubectl operator support-bundle -n shop                         # olm-support-bundle.tar.gz\n  \
        kubectl operator support-bundle -A --logs --output case-17.tar.gz\n  \
        tar -xzOf case-17.tar.gz olm-support-bundle/manifest.json       # what is in it, and what is not")]
    SupportBundle(SupportBundleArgs),
    /// Serve pages on which operators, plans and catalogs can be looked at, and plans be approved
    ///
    /// They are served on 127.0.0.1 only, with your kubeconfig and rights; nothing runs in the cluster. The link that is printed lets in once: whoever
    /// opens it can do on these pages what you can. No browser is opened, as its arguments would show the link to other users of the machine.
    ///
    /// They are served until Ctrl-C, or until nobody has looked for 8 hours. A second Ctrl-C ends it at once. Over ssh use -t: without a
    /// terminal Ctrl-C does not get there.
    ///
    /// Exit codes: 0 after Ctrl-C or 8 hours, 1 if the pages cannot be served, 130 after a second Ctrl-C.
    #[command(after_help = "Examples:\n  \
        kubectl operator ui                              # then open the link\n  \
        kubectl operator ui -A --port 8001               # all namespaces, on a port of your choice\n  \
        ssh -t -L 8001:127.0.0.1:8001 host kubectl operator ui --port 8001   # for a browser elsewhere")]
    Ui(UiArgs),
    /// Uninstall an operator: its Subscription and ClusterServiceVersion, after showing what is left or lost
    ///
    /// The name is that of the package, or of its Subscription. Nothing is deleted where the operator has operands (list-operands), unless
    /// --operand-strategy says that they stay (ignore) or go while the operator still runs (delete); a terminal is asked whether they may stay.
    /// CustomResourceDefinitions stay, unless they are named with --delete-crd, or --delete-operator is given: then all objects of that kind are
    /// lost, in all namespaces. One that another operator owns or needs is never deleted. An InstallPlan that is not over goes, too, where it is for
    /// this operator alone; one on its way that is for others, too, is to be waited for. Dependencies stay.
    ///
    /// Exit codes: 0 if it is uninstalled, 1 if it cannot be, has operands, or is not gone in time, 2 if the answer was no or something of it came
    /// meanwhile.
    #[command(after_help = "Examples:\n  \
        kubectl operator uninstall etcd -n shop                      # show, ask, uninstall\n  \
        kubectl operator uninstall etcd -n shop --dry-run            # show only\n  \
        kubectl operator uninstall etcd -n shop -s ignore --yes      # operands stay\n  \
        kubectl operator uninstall etcd -n shop -X                   # with operands, definitions and OperatorGroup\n  \
        kubectl operator uninstall etcd -n shop --delete-crd etcds.example.com --yes")]
    Uninstall(UninstallArgs),
    /// Approve the upgrade of an operator that waits, and wait until it is carried out
    ///
    /// The name is that of the package, of its Subscription, or of an InstallPlan. A terminal sees what the upgrade changes and is asked; elsewhere it
    /// is approved at once. Where nothing waits for approval the command reports why: there is nothing newer, or it cannot be had.
    ///
    /// The command waits until the plan is carried out, for 1m or --timeout; with --wait until the operator is ready, for 10m.
    ///
    /// Exit codes: 0 if it was upgraded, 1 if it was not, for example because it has the latest version, 2 if the answer was no, or with --wait it does not get
    /// ready.
    #[command(after_help = "Examples:\n  \
        kubectl operator upgrade db -n shop               # show, ask, approve, wait for the plan\n  \
        kubectl operator upgrade db -n shop --dry-run     # show only\n  \
        kubectl operator upgrade db -n shop --yes --wait --timeout 5m")]
    Upgrade(UpgradeArgs),
    /// Print the version of this program
    Version,
}

/// Where the cluster is, and the namespace.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct ConnectionArgs {
    /// Namespace to look at [default: that of the kubeconfig's context]
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig to use
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// Kubeconfig file [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// User to act as, such as system:serviceaccount:shop:installer
    #[arg(long = "as", global = true, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub as_user: Option<String>,
    /// Group to act as; may be repeated
    #[arg(long, global = true, value_name = "GROUP", requires = "as_user", value_parser = NonEmptyStringValueParser::new())]
    pub as_group: Vec<String>,
}

/// The cluster, and what resolution depends on besides its objects.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Namespace whose catalogs every namespace may use [default: that of OLM's own catalogs, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    pub global_catalog_namespace: Option<String>,
    /// Copy of the file that RUNTIME_CONSTRAINTS of catalog-operator names, if it does: what every bundle has to meet
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
    /// Subscription whose plan waits, or InstallPlan; installplan/NAME where a Subscription has the same name
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Approve without asking
    #[arg(short, long)]
    pub yes: bool,
    /// How to print what the plan changes
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// `explain`
#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainArgs {
    /// Subscription to explain; all of the namespace if left out
    pub subscription: Option<String>,
    /// How to print the explanation
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `plan`
#[derive(Debug, ClapArgs)]
pub(crate) struct PlanArgs {
    /// File with objects to plan for as if they were applied: Subscriptions, ClusterServiceVersions, OperatorGroups and
    /// CatalogSources; - is stdin
    #[arg(short, long, value_name = "FILE")]
    pub filename: Vec<PathBuf>,
    /// Catalog directory to use for every catalog the objects name; with --filename no cluster is asked
    #[arg(long, value_name = "DIRECTORY", requires = "filename", value_hint = ValueHint::DirPath)]
    pub catalog: Option<PathBuf>,
    /// How to get to this version (or ClusterServiceVersion) instead of where the channel leads
    #[arg(long, value_name = "VERSION", value_parser = NonEmptyStringValueParser::new())]
    pub target: Option<String>,
    /// Subscription that --target is about; may be left out when only one package has that version
    #[arg(long, value_name = "NAME", requires = "target")]
    pub subscription: Option<String>,
    /// Look ahead no further than so many steps; 1 is what the next resolution does
    #[arg(long, value_name = "NUMBER", conflicts_with = "target", value_parser = clap::value_parser!(u16).range(1..))]
    pub steps: Option<u16>,
    /// Version of Kubernetes to plan for, such as 1.34.1, to tell what needs a newer one [default: the cluster's]
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<KubernetesVersion>,
    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// How a plan or an explanation is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Line by line, for people
    Text,
    /// One JSON document, described by docs/reference/plan.schema.json and explain.schema.json
    Json,
    /// The same as YAML
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
