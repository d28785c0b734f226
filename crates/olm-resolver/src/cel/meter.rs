//! The cost of a rule: estimated from its text, and counted while it runs.
//!
//! The interpreter has no limits of its own, so the counting is written into the expression. Calls of
//! charging functions wrap every range of a loop and everything that can make a value larger. Such a function
//! charges for its argument and returns it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, operators};
use ::cel::{Context, ExecutionError, IdedExpr, Value};

use super::ASSUMED_PROPERTIES;

/// Steps for one bundle.
pub const BUNDLE_STEPS: u64 = 20_000;

/// Minimum steps for all bundles of a catalog together.
pub const CATALOG_STEPS: u64 = 500_000;

/// Additional steps for each entry of a catalog.
pub const CATALOG_STEPS_PER_ENTRY: u64 = 50;

/// Charges for the elements of a loop's range. The names cannot be written in a rule.
const CHARGE_RANGE: &str = "@range";
/// Charges for the size of a text or list that was built.
const CHARGE_SIZE: &str = "@size";
/// Charges for compiling a regular expression.
const CHARGE_PATTERN: &str = "@pattern";

/// Bytes of a text that are built per step.
const BYTES_A_STEP: usize = 16;
/// Steps charged for compiling a regular expression.
const PATTERN_STEPS: u64 = 500;

/// A rule took more steps than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cel rule took more than {limit} steps on {on}")]
pub struct TooCostly {
    limit: u64,
    on: &'static str,
}

/// Remaining steps for a series of evaluations.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    left: Cell<u64>,
    broken: Cell<Option<TooCostly>>,
}

impl Budget {
    /// Returns the budget for all bundles of a catalog with this many entries.
    pub fn of_catalog(entries: usize) -> Self {
        Budget::new(CATALOG_STEPS + CATALOG_STEPS_PER_ENTRY * entries as u64)
    }

    /// Returns the budget for one bundle.
    pub fn of_bundle() -> Self {
        Budget::new(BUNDLE_STEPS)
    }

    fn new(limit: u64) -> Self {
        Budget {
            limit,
            left: Cell::new(limit),
            broken: Cell::new(None),
        }
    }

    /// Reports an exceeded limit. Results from then on have no meaning.
    ///
    /// # Errors
    /// The exceeded limit.
    pub fn check(&self) -> Result<(), TooCostly> {
        self.broken.get().map_or(Ok(()), Err)
    }

    /// Returns the steps for one evaluation.
    pub(super) fn begin(&self) -> Arc<AtomicU64> {
        let steps = if self.broken.get().is_some() {
            0
        } else {
            self.left.get().min(BUNDLE_STEPS)
        };
        // One more than allowed, so that the last allowed step differs from running out.
        Arc::new(AtomicU64::new(steps + 1))
    }

    /// Returns the unused steps to the budget; false if none are left.
    pub(super) fn end(&self, steps: &AtomicU64) -> bool {
        let given = self.left.get().min(BUNDLE_STEPS) + 1;
        let rest = steps.load(Ordering::Relaxed);
        if rest == 0 && self.broken.get().is_none() {
            let (limit, on) = match given <= BUNDLE_STEPS {
                true => (self.limit, "one catalog"),
                false => (BUNDLE_STEPS, "one bundle"),
            };
            self.broken.set(Some(TooCostly { limit, on }));
        }
        self.left
            .set(self.left.get().saturating_sub(given - rest.min(given)));
        rest > 0
    }
}

/// Adds the functions that [`metered`] calls.
pub(super) fn add_functions(context: &mut Context<'_, '_>, steps: &Arc<AtomicU64>) {
    let range = Arc::clone(steps);
    let _ = context.add_function(CHARGE_RANGE, move |value: Value| {
        charge(&range, elements(&value), value)
    });
    let size = Arc::clone(steps);
    let _ = context.add_function(CHARGE_SIZE, move |value: Value| {
        charge(&size, length(&value), value)
    });
    let pattern = Arc::clone(steps);
    let _ = context.add_function(CHARGE_PATTERN, move |value: Value| {
        charge(&pattern, PATTERN_STEPS + length(&value), value)
    });
}

fn charge(steps: &AtomicU64, price: u64, value: Value) -> Result<Value, ExecutionError> {
    let left = steps.load(Ordering::Relaxed).saturating_sub(price);
    steps.store(left, Ordering::Relaxed);
    if left == 0 {
        return Err(ExecutionError::function_error("cel", "too many steps"));
    }
    Ok(value)
}

fn elements(value: &Value) -> u64 {
    match value {
        Value::List(items) => items.len() as u64,
        Value::Map(map) => map.map.len() as u64,
        _ => 1,
    }
}

fn length(value: &Value) -> u64 {
    let bytes = match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => return items.len() as u64,
        _ => 0,
    };
    (bytes / BYTES_A_STEP) as u64 + 1
}

/// Returns the steps that the expression may take for a bundle with [`ASSUMED_PROPERTIES`] properties.
pub(super) fn estimate(expression: &IdedExpr) -> u64 {
    match &expression.expr {
        Expr::Comprehension(comprehension) => {
            let ComprehensionExpr {
                iter_range,
                loop_cond,
                loop_step,
                result,
                ..
            } = &**comprehension;
            let elements = match &iter_range.expr {
                Expr::List(list) => list.elements.len() as u64,
                Expr::Map(map) => map.entries.len() as u64,
                _ => ASSUMED_PROPERTIES,
            };
            let round = estimate(loop_cond).saturating_add(estimate(loop_step));
            let loops = elements.saturating_mul(round.max(1));
            estimate(iter_range)
                .saturating_add(loops)
                .saturating_add(estimate(result))
        }
        _ => children(expression)
            .into_iter()
            .fold(0_u64, |sum, child| sum.saturating_add(estimate(child)))
            .max(1),
    }
}

fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Call(call) => call
            .target
            .iter()
            .map(|target| &**target)
            .chain(&call.args)
            .collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                EntryExpr::StructField(field) => vec![&field.value],
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the expression with its counting.
pub(super) fn metered(expression: IdedExpr) -> IdedExpr {
    let IdedExpr { id, expr } = expression;
    let expr = match expr {
        Expr::Call(call) => return metered_call(id, call),
        Expr::Comprehension(comprehension) => {
            let mut parts = *comprehension;
            parts.iter_range = charged(CHARGE_RANGE, metered(parts.iter_range));
            parts.accu_init = metered(parts.accu_init);
            parts.loop_cond = metered(parts.loop_cond);
            parts.loop_step = metered(parts.loop_step);
            parts.result = metered(parts.result);
            Expr::Comprehension(Box::new(parts))
        }
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(metered).collect();
            Expr::List(list)
        }
        Expr::Select(mut select) => {
            select.operand = Box::new(metered(*select.operand));
            Expr::Select(select)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = metered(std::mem::take(&mut entry.key));
                    entry.value = metered(std::mem::take(&mut entry.value));
                }
            }
            Expr::Map(map)
        }
        other => other,
    };
    IdedExpr { id, expr }
}

fn metered_call(id: u64, mut call: CallExpr) -> IdedExpr {
    call.target = call.target.map(|target| Box::new(metered(*target)));
    call.args = call.args.into_iter().map(metered).collect();
    // A macro's accumulator grows by elements that are paid for already. The interpreter has a fast path for
    // it, which wrapping would disable.
    let gathers = call
        .args
        .iter()
        .any(|arg| matches!(&arg.expr, Expr::Ident(name) if name.starts_with('@')));
    let grows = matches!(call.func_name.as_str(), operators::ADD | "string" | "bytes");
    if call.func_name == "matches" {
        call.args = call
            .args
            .into_iter()
            .map(|arg| charged(CHARGE_PATTERN, arg))
            .collect();
    }
    let call = IdedExpr {
        id,
        expr: Expr::Call(call),
    };
    if grows && !gathers {
        charged(CHARGE_SIZE, call)
    } else {
        call
    }
}

fn charged(function: &str, argument: IdedExpr) -> IdedExpr {
    IdedExpr {
        id: argument.id,
        expr: Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args: vec![argument],
        }),
    }
}
