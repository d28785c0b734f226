//! CEL rules of `olm.constraint` properties (`docs/reference/resolution.md`).
//!
//! A rule sees one variable, `properties`: the candidate's properties as a list of `{type, value}`. Beside
//! the standard functions and macros it may call `semver_compare(a, b)`. It must be of type bool by its text
//! alone.
//!
//! # Limits
//! A rule comes from a catalog's publisher, so its cost is bounded twice:
//!
//! * before, by its text: [`MAX_RULE_SIZE`] bytes, nesting of [`MAX_RULE_DEPTH`], and an estimate of
//!   [`MAX_ESTIMATE`] steps for a bundle with [`ASSUMED_PROPERTIES`] properties. That admits a loop within a
//!   loop but no third one;
//! * while it runs, by a [`Budget`] of steps for each bundle and another one for a whole catalog. A step is
//!   an element that a loop visits, or a piece of a text or list that is built. Steps are counted instead of
//!   seconds, so that a rule is too costly on every machine or on none.
//!
//! A rule that exceeds a limit makes the bundle that carries it unusable, with the reason; nothing else is
//! affected.

mod check;
mod meter;
mod signatures;
mod types;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use ::cel::objects::{Key, Map};
use ::cel::{Context, Env, ExecutionError, IdedExpr, Value};
use go_compat::semver::Version;
use olm_fbc::entry::EntryProperty;

pub use self::meter::{BUNDLE_STEPS, Budget, CATALOG_STEPS, CATALOG_STEPS_PER_ENTRY, TooCostly};

/// Longest rule, in bytes.
pub const MAX_RULE_SIZE: usize = 16 << 10;

/// Deepest nesting of a rule, as the parser counts it.
pub const MAX_RULE_DEPTH: u16 = 96;

/// Highest estimate of steps for one bundle.
pub const MAX_ESTIMATE: u64 = 1_000_000;

/// Number of elements that the estimate assumes in a list that the rule does not spell out.
pub const ASSUMED_PROPERTIES: u64 = 100;

/// A compiled rule. Two rules are the same if their texts are.
#[derive(Clone, Debug)]
pub struct Rule {
    text: Arc<str>,
    expression: Arc<IdedExpr>,
}

impl Rule {
    /// Compiles a rule and checks its type and cost.
    ///
    /// # Errors
    /// The reason why the rule is unusable: it is not CEL, yields another type than bool, is too long, or takes too many steps.
    pub fn compile(text: &str) -> Result<Self, String> {
        if text.len() > MAX_RULE_SIZE {
            let size = text.len();
            return Err(format!("the rule has {size} bytes, more than {MAX_RULE_SIZE}"));
        }
        let parser = environment().parser().max_recursion_depth(MAX_RULE_DEPTH);
        let expression = parser.parse(text).map_err(|errors| {
            let texts: Vec<String> = errors.errors.iter().map(ToString::to_string).collect();
            first_line(&texts.join("; "))
        })?;
        let found = check::infer(&expression)?;
        if found != types::Type::Bool {
            return Err(format!(
                "cel expressions must have type Bool, this one has type {found}"
            ));
        }
        let estimate = meter::estimate(&expression);
        if estimate > MAX_ESTIMATE {
            return Err(format!(
                "the rule may take {estimate} steps for one bundle, more than {MAX_ESTIMATE}: use fewer loops within loops"
            ));
        }
        Ok(Rule {
            text: text.into(),
            expression: Arc::new(meter::metered(expression)),
        })
    }

    /// Returns the rule as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the properties meet the rule. An evaluation error, such as a missing field, means no.
    /// An exhausted budget means no too; [`Budget::check`] reports it.
    pub fn test(&self, properties: &[EntryProperty], budget: &Budget) -> bool {
        let steps = budget.begin();
        let mut context = Context::with_env(environment());
        context.add_variable_from_value("properties", Value::List(Arc::new(values(properties))));
        // These names are free, so adding them cannot fail.
        let _ = context.add_function("semver_compare", semver_compare);
        meter::add_functions(&mut context, &steps);
        let met = matches!(Value::resolve(&self.expression, &context), Ok(Value::Bool(true)));
        budget.end(&steps) && met
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rule {}

impl PartialOrd for Rule {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rule {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

fn environment() -> Arc<Env> {
    static ENVIRONMENT: LazyLock<Arc<Env>> =
        LazyLock::new(|| Arc::new(Env::stdlib().with_optional_support(false)));
    Arc::clone(&ENVIRONMENT)
}

/// Returns the first line. Parser errors continue with the source and a pointer into it, which do not fit
/// into a condition.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the properties as CEL values. An invalid JSON value becomes an empty map, so that its fields are
/// errors.
fn values(properties: &[EntryProperty]) -> Vec<Value> {
    let value = |property: &EntryProperty| {
        let mut fields: HashMap<Key, Value> = HashMap::new();
        if let Ok(parsed) = serde_json::from_str(&property.value) {
            fields.insert("type".into(), Value::String(Arc::new(property.kind.to_string())));
            fields.insert("value".into(), from_json(parsed));
        }
        Value::Map(Map {
            map: Arc::new(fields),
        })
    };
    properties.iter().map(value).collect()
}

/// Converts JSON. Numbers are doubles, as Go reads JSON.
fn from_json(value: serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(value),
        serde_json::Value::Number(number) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => Value::String(Arc::new(text)),
        serde_json::Value::Array(items) => Value::List(Arc::new(items.into_iter().map(from_json).collect())),
        serde_json::Value::Object(fields) => Value::Map(Map {
            map: Arc::new(
                fields
                    .into_iter()
                    .map(|(key, value)| (key.into(), from_json(value)))
                    .collect(),
            ),
        }),
    }
}

/// Returns -1, 0 or 1, as the first version is lower than, equal to or higher than the second.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the interpreter hands over arguments by value"
)]
fn semver_compare(a: Value, b: Value) -> Result<i64, ExecutionError> {
    let (a, b) = (version(&a)?, version(&b)?);
    Ok(match a.cmp(&b) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

fn version(value: &Value) -> Result<Version, ExecutionError> {
    let text = match value {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => format!("{:?}", other.type_of()),
    };
    Version::parse_tolerant(&text).map_err(|_| {
        ExecutionError::function_error(
            "semver_compare",
            format!("unable to parse '{text}' to semver format"),
        )
    })
}

#[cfg(test)]
mod tests;
