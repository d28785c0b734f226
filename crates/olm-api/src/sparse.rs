//! Collections that remember whether they were written although empty.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An optional list. Use it like a [`Vec`]; see [`Sparse`].
pub type List<T> = Sparse<Vec<T>>;
/// An optional map of text to text. Use it like a [`BTreeMap`]; see [`Sparse`].
pub type Map = Sparse<BTreeMap<String, String>>;

/// A collection that is omitted from the output when it is empty, unless the input had it as an empty collection.
///
/// Empty and absent mean the same to every reader, so they compare as equal. But a user who wrote `skips: []` finds it unchanged
/// after a read-modify-write. `null` in the input counts as absent.
#[derive(Clone, Debug, Default)]
pub struct Sparse<C> {
    items: C,
    written: bool,
}

impl<C> Sparse<C>
where
    for<'a> &'a C: IntoIterator,
{
    /// Returns true if the output omits the collection.
    pub fn is_absent(&self) -> bool {
        !self.written && (&self.items).into_iter().next().is_none()
    }
}

impl<C> Sparse<C> {
    /// Returns the plain collection.
    pub fn into_inner(self) -> C {
        self.items
    }
}

impl<C> Deref for Sparse<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.items
    }
}

impl<C> DerefMut for Sparse<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.items
    }
}

impl<C> From<C> for Sparse<C> {
    fn from(items: C) -> Self {
        Self {
            items,
            written: false,
        }
    }
}

impl<T, const N: usize> From<[T; N]> for List<T> {
    fn from(items: [T; N]) -> Self {
        Vec::from(items).into()
    }
}

impl<A, C: FromIterator<A>> FromIterator<A> for Sparse<C> {
    fn from_iter<I: IntoIterator<Item = A>>(items: I) -> Self {
        Self {
            items: items.into_iter().collect(),
            written: false,
        }
    }
}

impl<C: IntoIterator> IntoIterator for Sparse<C> {
    type Item = C::Item;
    type IntoIter = C::IntoIter;

    fn into_iter(self) -> C::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, C> IntoIterator for &'a Sparse<C>
where
    &'a C: IntoIterator,
{
    type Item = <&'a C as IntoIterator>::Item;
    type IntoIter = <&'a C as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (&self.items).into_iter()
    }
}

impl<'a, C> IntoIterator for &'a mut Sparse<C>
where
    &'a mut C: IntoIterator,
{
    type Item = <&'a mut C as IntoIterator>::Item;
    type IntoIter = <&'a mut C as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (&mut self.items).into_iter()
    }
}

impl<C: PartialEq> PartialEq for Sparse<C> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl<C: Eq> Eq for Sparse<C> {}

impl<C: PartialEq> PartialEq<C> for Sparse<C> {
    fn eq(&self, other: &C) -> bool {
        self.items == *other
    }
}

impl<C: Serialize> Serialize for Sparse<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

impl<'de, C: Default + Deserialize<'de>> Deserialize<'de> for Sparse<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Option::<C>::deserialize(deserializer)? {
            Some(items) => Self { items, written: true },
            None => Self::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, to_string};

    #[derive(Serialize, Deserialize)]
    struct Holder {
        #[serde(default, skip_serializing_if = "List::is_absent")]
        names: List<String>,
    }

    #[test]
    fn written_empty_list_survives_and_null_counts_as_absent() {
        for (input, output) in [
            ("{}", "{}"),
            (r#"{"names":null}"#, "{}"),
            (r#"{"names":[]}"#, r#"{"names":[]}"#),
            (r#"{"names":["a"]}"#, r#"{"names":["a"]}"#),
        ] {
            let holder: Holder = from_str(input).unwrap();
            assert_eq!(to_string(&holder).unwrap(), output);
        }
    }

    #[test]
    fn empty_and_absent_are_equal() {
        let written: List<String> = from_str("[]").unwrap();
        assert_eq!(written, List::default());
        assert!(!written.is_absent());
    }

    #[test]
    fn reads_like_a_vec() {
        let mut list: List<u8> = vec![1, 2].into();
        list.push(3);
        assert_eq!(list.iter().sum::<u8>(), 6);
        assert_eq!(list, vec![1, 2, 3]);
        assert_eq!((&list).into_iter().count(), 3);
    }
}
