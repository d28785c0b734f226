//! Page that explains why Subscriptions are not resolved or upgraded, and shows the next steps of OLM, as `explain` and `plan` print
//! them. Only `plan` reads bundles for its notes on what the cluster cannot run.

use maud::html;
use olm_resolver::plan::{Explained, Plan};

use super::{Frame, Live, page, shell};
use crate::terminal::{escape, plain};

/// Returns the explanation of one Subscription, or of all, and the plan of the namespace.
pub(in super::super) fn explain(
    frame: &Frame<'_>,
    explained: &Explained,
    plan: &Result<Plan, String>,
    name: Option<&str>,
) -> String {
    let namespace = &explained.namespace;
    let command = match name {
        Some(name) => frame.commands.offered("explain {}", &[name], Some(namespace)),
        None => frame.commands.offered("explain", &[], Some(namespace)),
    };
    let body = html! {
        p { "As of the last two minutes." }
        pre { (escape(&explained.to_string())) }
        (shell("The same in a terminal", command))
        h2 { "What OLM is going to do in this namespace" }
        @match plan {
            Ok(plan) => { pre { (escape(&plan.to_string())) } },
            Err(text) => p.message { (plain(text)) },
        }
        (shell("The same in a terminal", frame.commands.offered("plan", &[], Some(namespace))))
    };
    page(frame, Live::No, &body)
}
