//! The types of CEL.

use std::fmt;

/// A type of CEL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Known at run time only.
    Dyn,
    /// Element type of an empty list, which fits any type.
    Free,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    Timestamp,
    Duration,
    /// A type as a value.
    Meta,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
}

impl Type {
    /// Returns the type of a name in the table of functions.
    pub(super) fn named(name: &str) -> Type {
        match name {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::Text,
            "bytes" => Type::Bytes,
            "timestamp" => Type::Timestamp,
            "duration" => Type::Duration,
            "type" => Type::Meta,
            "list" => Type::List(Box::new(Type::Dyn)),
            "map" => Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn)),
            _ => Type::Dyn,
        }
    }

    /// Returns whether values of the two types are interchangeable.
    pub(super) fn fits(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Dyn | Type::Free, _) | (_, Type::Dyn | Type::Free) => true,
            (Type::List(a), Type::List(b)) => a.fits(b),
            (Type::Map(a, b), Type::Map(c, d)) => a.fits(c) && b.fits(d),
            _ => self == other,
        }
    }

    /// Returns the common type of both; `None` if only `dyn` fits.
    pub(super) fn join(&self, other: &Type) -> Option<Type> {
        Some(match (self, other) {
            (Type::Free, known) | (known, Type::Free) => known.clone(),
            (Type::Dyn, _) | (_, Type::Dyn) => Type::Dyn,
            (Type::List(a), Type::List(b)) => Type::List(Box::new(a.join(b)?)),
            (Type::Map(a, b), Type::Map(c, d)) => Type::Map(Box::new(a.join(c)?), Box::new(b.join(d)?)),
            _ if self == other => self.clone(),
            _ => return None,
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Dyn | Type::Free => "dyn",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::Text => "string",
            Type::Bytes => "bytes",
            Type::Null => "null",
            Type::Timestamp => "timestamp",
            Type::Duration => "duration",
            Type::Meta => "type",
            Type::List(element) => return write!(f, "list({element})"),
            Type::Map(key, value) => return write!(f, "map({key}, {value})"),
        })
    }
}
