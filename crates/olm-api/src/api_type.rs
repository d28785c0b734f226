//! Structs of the APIs, which all treat absent, empty and unknown fields the same way.

/// Defines a struct of an API, with these rules for its JSON:
///
/// - Names of fields have camel case.
/// - An absent field and `null` read as the default.
/// - An `Option` that is `None`, and a [`List`](crate::List) or [`Map`](crate::Map) that is absent, are not
///   written. All other fields are. `#[null_when_absent]` before a field means that `null` is written instead,
///   as upstream does.
/// - Fields that the struct does not know are kept in `extra`, so that a read-modify-write loses nothing.
///
/// The macro takes one field after the other: `@fields` finds the attributes for its type, `@add` appends it.
macro_rules! api_type {
    ($(#[$($meta:tt)*])* pub struct $name:ident { $($fields:tt)* }) => {
        api_type! { @fields [$(#[$($meta)*])* pub struct $name] [] $($fields)* }
    };
    (@fields [$($head:tt)*] [$($done:tt)*]) => {
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        $($head)* {
            $($done)*
            /// Fields this version of the API does not know.
            #[serde(flatten)]
            pub extra: crate::Extra,
        }
    };
    (@fields $head:tt $done:tt #[null_when_absent] $($rest:tt)*) => {
        api_type! { @add [] $head $done $($rest)* }
    };
    (@fields $head:tt $done:tt $(#[$($meta:tt)*])* pub $field:ident: Option<$($rest:tt)*) => {
        api_type! {
            @add [#[serde(skip_serializing_if = "Option::is_none")]]
            $head $done $(#[$($meta)*])* pub $field: Option<$($rest)*
        }
    };
    (@fields $head:tt $done:tt $(#[$($meta:tt)*])* pub $field:ident: List<$($rest:tt)*) => {
        api_type! {
            @add [#[serde(skip_serializing_if = "crate::sparse::List::is_absent")]]
            $head $done $(#[$($meta)*])* pub $field: List<$($rest)*
        }
    };
    (@fields $head:tt $done:tt $(#[$($meta:tt)*])* pub $field:ident: Map, $($rest:tt)*) => {
        api_type! {
            @add [#[serde(skip_serializing_if = "crate::sparse::Map::is_absent")]]
            $head $done $(#[$($meta)*])* pub $field: Map, $($rest)*
        }
    };
    (@fields $head:tt $done:tt $($rest:tt)*) => {
        api_type! {
            @add [#[serde(deserialize_with = "crate::decode::or_default")]]
            $head $done $($rest)*
        }
    };
    (@add [$($added:tt)*] $head:tt [$($done:tt)*]
        $(#[$($meta:tt)*])* pub $field:ident: $ty:ty, $($rest:tt)*) => {
        api_type! { @fields $head [$($done)* $(#[$($meta)*])* $($added)* pub $field: $ty,] $($rest)* }
    };
}
pub(crate) use api_type;

/// Defines the spec of a kind, as [`api_type`] does, and the kind itself by the attribute `kube`.
macro_rules! api_kind {
    ($($spec:tt)*) => {
        api_type! {
            #[derive(kube_derive::CustomResource)]
            #[kube(
                derive = "Default",
                derive = "PartialEq",
                schema = "disabled",
                crates(kube_core = "kube_core")
            )]
            $($spec)*
        }
    };
}
pub(crate) use api_kind;
