//! Types of expressions, inferred without evaluating them. A type known only at run time is `dyn`. It fits
//! anywhere inside an expression, but is not enough for the whole.

use std::collections::BTreeMap;

use ::cel::IdedExpr;
use ::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators};

use super::signatures::overloads;
use super::types::Type;

/// Names of types.
const TYPE_NAMES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
    "uint",
];

/// Declared names with their types.
type Scope = BTreeMap<String, Type>;

/// Returns the type of an expression over `properties`.
///
/// # Errors
/// Undeclared names, and functions with arguments of wrong types.
pub(super) fn infer(expression: &IdedExpr) -> Result<Type, String> {
    let property = Type::Map(Box::new(Type::Text), Box::new(Type::Dyn));
    let scope = Scope::from([("properties".to_owned(), Type::List(Box::new(property)))]);
    type_of(expression, &scope)
}

fn type_of(expression: &IdedExpr, scope: &Scope) -> Result<Type, String> {
    match &expression.expr {
        Expr::Literal(literal) => Ok(literal_type(literal)),
        Expr::Ident(name) => scope
            .get(name)
            .cloned()
            .or_else(|| TYPE_NAMES.contains(&name.as_str()).then_some(Type::Meta))
            .ok_or_else(|| format!("undeclared reference to '{name}'")),
        Expr::Select(select) => select_type(select, scope),
        Expr::Call(call) => call_type(call, scope),
        Expr::Comprehension(comprehension) => comprehension_type(comprehension, scope),
        Expr::List(list) => {
            let mut element = Type::Free;
            for item in &list.elements {
                element = element.join(&type_of(item, scope)?).unwrap_or(Type::Dyn);
            }
            Ok(Type::List(Box::new(element)))
        }
        Expr::Map(map) => {
            let (mut keys, mut values) = (Type::Free, Type::Free);
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    keys = keys.join(&type_of(&entry.key, scope)?).unwrap_or(Type::Dyn);
                    values = values.join(&type_of(&entry.value, scope)?).unwrap_or(Type::Dyn);
                }
            }
            Ok(Type::Map(Box::new(keys), Box::new(values)))
        }
        Expr::Struct(object) => Err(format!("undeclared reference to '{}'", object.type_name)),
        Expr::Unspecified => Err("an expression is missing".to_owned()),
    }
}

fn literal_type(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::Text,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

fn select_type(select: &SelectExpr, scope: &Scope) -> Result<Type, String> {
    let value = match type_of(&select.operand, scope)? {
        Type::Map(_, value) => *value,
        Type::Dyn | Type::Free => Type::Dyn,
        other => return Err(format!("type '{other}' does not support field selection")),
    };
    Ok(if select.test { Type::Bool } else { value })
}

fn comprehension_type(comprehension: &ComprehensionExpr, scope: &Scope) -> Result<Type, String> {
    let element = match type_of(&comprehension.iter_range, scope)? {
        Type::List(element) => *element,
        Type::Map(key, _) => *key,
        Type::Dyn | Type::Free => Type::Dyn,
        other => {
            return Err(format!(
                "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
            ));
        }
    };
    let gathered = type_of(&comprehension.accu_init, scope)?;
    let mut inner = scope.clone();
    inner.insert(comprehension.iter_var.clone(), element);
    inner.insert(comprehension.accu_var.clone(), gathered.clone());
    expect(&Type::Bool, &type_of(&comprehension.loop_cond, &inner)?)?;
    let step = type_of(&comprehension.loop_step, &inner)?;
    expect(&gathered, &step)?;
    inner.insert(
        comprehension.accu_var.clone(),
        gathered.join(&step).unwrap_or(Type::Dyn),
    );
    type_of(&comprehension.result, &inner)
}

fn expect(wanted: &Type, found: &Type) -> Result<(), String> {
    if wanted.fits(found) {
        return Ok(());
    }
    Err(format!("expected type '{wanted}' but found '{found}'"))
}

fn call_type(call: &CallExpr, scope: &Scope) -> Result<Type, String> {
    let arguments = call.target.iter().map(|target| &**target).chain(&call.args);
    let types: Vec<Type> = arguments
        .map(|argument| type_of(argument, scope))
        .collect::<Result<_, _>>()?;
    let mismatch = || {
        let texts: Vec<String> = types.iter().map(ToString::to_string).collect();
        format!(
            "found no matching overload for '{}' applied to '({})'",
            call.func_name,
            texts.join(", ")
        )
    };
    if call.target.is_none()
        && let Some(found) = generic_type(&call.func_name, &types)
    {
        return found.ok_or_else(mismatch);
    }
    let known = overloads(&call.func_name, call.target.is_some())
        .ok_or_else(|| format!("undeclared reference to '{}'", call.func_name))?;
    let mut given = known
        .iter()
        .filter(|o| o.takes.len() == types.len() && o.takes.iter().zip(&types).all(|(a, b)| a.fits(b)))
        .map(|overload| &overload.gives);
    let first = given.next().ok_or_else(mismatch)?;
    Ok(if given.all(|other| other == first) {
        first.clone()
    } else {
        Type::Dyn
    })
}

/// Returns the type of an operator whose argument types depend on each other. `None` for other functions; an
/// inner `None` if the types do not fit it.
fn generic_type(function: &str, types: &[Type]) -> Option<Option<Type>> {
    Some(match (function, types) {
        (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => a.fits(b).then_some(Type::Bool),
        (operators::CONDITIONAL, [test, a, b]) => {
            if test.fits(&Type::Bool) {
                a.join(b)
            } else {
                None
            }
        }
        (operators::IN, [element, Type::List(elements)]) => element.fits(elements).then_some(Type::Bool),
        (operators::IN, [key, Type::Map(keys, _)]) => key.fits(keys).then_some(Type::Bool),
        (operators::IN, [_, Type::Dyn | Type::Free]) => Some(Type::Bool),
        (operators::IN, _) => None,
        (operators::INDEX, [Type::List(element), index]) => {
            index.fits(&Type::Int).then(|| (**element).clone())
        }
        (operators::INDEX, [Type::Map(keys, value), key]) => key.fits(keys).then(|| (**value).clone()),
        (operators::INDEX, [Type::Dyn | Type::Free, _]) => Some(Type::Dyn),
        (operators::INDEX, _) => None,
        (operators::ADD, [a @ Type::List(_), b @ Type::List(_)]) => a.join(b).or(Some(Type::named("list"))),
        (operators::ADD, [a @ Type::List(_), Type::Dyn])
        | (operators::ADD, [Type::Dyn, a @ Type::List(_)]) => Some(a.clone()),
        _ => return None,
    })
}
