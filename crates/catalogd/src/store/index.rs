//! Finds documents by schema, package and name.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::ops::Range;
use std::sync::Arc;

use olm_fbc::schema::Meta;

/// Wanted documents: those with all of these fields. An empty field accepts everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Schema.
    pub schema: String,
    /// Field `package`. The document of a package itself has none.
    pub package: String,
    /// Field `name`.
    pub name: String,
}

impl Query {
    /// True if every document is wanted.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    fn accepts(&self, document: &Document) -> bool {
        let accepts = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        accepts(&self.schema, &document.schema)
            && accepts(&self.package, &document.package)
            && accepts(&self.name, &document.name)
    }
}

/// Fields and ends of all documents of a content, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    documents: Vec<Document>,
}

/// A document begins where the one before it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Document {
    schema: Arc<str>,
    package: Arc<str>,
    name: Box<str>,
    end: u64,
}

/// Form of a document in the file: schema, package, name, length in bytes.
type Line<'a> = (
    std::borrow::Cow<'a, str>,
    std::borrow::Cow<'a, str>,
    std::borrow::Cow<'a, str>,
    u64,
);

impl Index {
    /// Returns the length of all documents in bytes.
    pub fn size(&self) -> u64 {
        self.documents.last().map_or(0, |document| document.end)
    }

    /// Returns the places of the wanted documents in the file, in its order. Adjacent documents are one range.
    pub fn find(&self, query: &Query) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut start = 0;
        for document in &self.documents {
            if query.accepts(document) {
                match ranges.last_mut() {
                    Some(last) if last.end == start => last.end = document.end,
                    _ => ranges.push(start..document.end),
                }
            }
            start = document.end;
        }
        ranges
    }

    /// Reads the index of a stored content.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub(super) fn read(mut lines: impl BufRead) -> io::Result<Self> {
        let mut documents = Vec::new();
        // Schemas and packages are few, and repeated by many documents.
        let mut known: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut shared = |text: &str| match known.get(text) {
            Some(text) => Arc::clone(text),
            None => {
                let text: Arc<str> = text.into();
                known.insert(Arc::clone(&text));
                text
            }
        };
        let (mut line, mut end) = (String::new(), 0_u64);
        while lines.read_line(&mut line)? > 0 {
            let (schema, package, name, length): Line<'_> = serde_json::from_str(&line)?;
            end = end.saturating_add(length);
            documents.push(Document {
                schema: shared(&schema),
                package: shared(&package),
                name: (*name).into(),
                end,
            });
            line.clear();
        }
        documents.shrink_to_fit();
        Ok(Self { documents })
    }
}

/// Writes a document of `length` bytes into the index of a content.
///
/// # Errors
/// The writer's errors.
pub(super) fn write_line(meta: &Meta, length: u64, mut out: impl Write) -> io::Result<()> {
    let line: Line<'_> = (
        meta.schema.as_str().into(),
        meta.package.as_str().into(),
        meta.name.as_str().into(),
        length,
    );
    serde_json::to_writer(&mut out, &line)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index_of(documents: &[(Meta, u64)]) -> Index {
        let mut text = Vec::new();
        for (meta, length) in documents {
            write_line(meta, *length, &mut text).unwrap();
        }
        Index::read(text.as_slice()).unwrap()
    }

    fn meta(schema: &str, package: &str, name: &str) -> Meta {
        Meta {
            schema: schema.into(),
            package: package.into(),
            name: name.into(),
        }
    }

    fn query(schema: &str, package: &str, name: &str) -> Query {
        Query {
            schema: schema.into(),
            package: package.into(),
            name: name.into(),
        }
    }

    #[test]
    fn fields_are_compared_as_they_are_in_the_documents() {
        let index = index_of(&[
            (meta("olm.package", "", "foo"), 10),
            (meta("olm.channel", "foo", "beta"), 5),
            (meta("olm.bundle", "foo", "foo.v1"), 7),
            (meta("olm.package", "", "bar"), 3),
            (meta("olm.deprecations", "foo", ""), 1),
        ]);
        assert_eq!(index.size(), 26);
        let rows: [(Query, &[(u64, u64)]); 7] = [
            (query("", "", ""), &[(0, 26)]),
            // The document of the package has only a name.
            (query("", "foo", ""), &[(10, 22), (25, 26)]),
            (query("olm.package", "", ""), &[(0, 10), (22, 25)]),
            (query("olm.package", "", "bar"), &[(22, 25)]),
            (query("olm.package", "foo", ""), &[]),
            (query("", "", "foo.v1"), &[(15, 22)]),
            (query("nope", "", ""), &[]),
        ];
        for (query, expected) in rows {
            let found = index.find(&query).into_iter();
            let found: Vec<(u64, u64)> = found.map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected, "{query:?}");
        }
    }

    #[test]
    fn a_damaged_index_is_an_error() {
        for text in ["[\"a\",\"b\"]\n", "x\n", "[\"a\",\"b\",\"c\",-1]\n"] {
            assert!(Index::read(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(Index::read(&b""[..]).unwrap(), Index::default());
    }

    proptest! {
        /// Every document is found by exactly the queries that name nothing else than its fields, and ranges are in order and apart.
        #[test]
        fn queries_select_the_documents_with_their_fields(
            documents in prop::collection::vec(("[ab]", "[ab\"\n]{0,1}", "[ab\u{e9}]{0,1}", 1_u64..9), 0..12),
            wanted in ("[abc]{0,1}", "[ab]{0,1}", "[ab]{0,1}"),
        ) {
            let documents: Vec<(Meta, u64)> = documents
                .iter()
                .map(|(schema, package, name, length)| (meta(schema, package, name), *length))
                .collect();
            let index = index_of(&documents);
            let query = query(&wanted.0, &wanted.1, &wanted.2);
            let found = index.find(&query);
            let mut start = 0;
            for (meta, length) in &documents {
                let range = start..start + length;
                let is_wanted = (wanted.0.is_empty() || wanted.0 == meta.schema)
                    && (wanted.1.is_empty() || wanted.1 == meta.package)
                    && (wanted.2.is_empty() || wanted.2 == meta.name);
                let is_found = found.iter().any(|found| found.start <= range.start && range.end <= found.end);
                prop_assert_eq!(is_found, is_wanted);
                start = range.end;
            }
            prop_assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
            let whole: u64 = documents.iter().map(|(_, length)| length).sum();
            prop_assert_eq!(index.size(), whole);
        }
    }
}
