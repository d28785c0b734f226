//! Tables in kubectl's format. Pure.

use crate::terminal::plain;

/// Spaces between columns.
const GAP: usize = 3;

/// Text that kubectl prints for an empty value.
pub(crate) const NONE: &str = "<none>";

/// A table: column names, and rows with as many cells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns an empty table with these columns.
    pub(crate) fn new(head: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            head: head.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Cells are escaped; an empty one becomes [`NONE`].
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cell = |cell: String| match plain(&cell) {
            text if text.is_empty() => NONE.to_owned(),
            text => text,
        };
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    /// Returns the lines, each with a line end.
    pub(crate) fn text(&self) -> String {
        let head: Vec<String> = self.head.iter().map(|name| (*name).to_owned()).collect();
        let lines = || std::iter::once(&head).chain(&self.rows);
        let width = |column: usize| {
            let widths = lines().map(|row| row.get(column).map_or(0, |cell| cell.chars().count()));
            widths.max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let mut text = String::new();
        for row in lines() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                let missing = (width + GAP).saturating_sub(cell.chars().count());
                line.push_str(&" ".repeat(missing));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Returns lines of RESOURCE.GROUP/NAME, as `kubectl get -o name` prints them, from resources and names.
pub(crate) fn names<'a>(named: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let lines = named.into_iter();
    lines
        .map(|(resource, name)| format!("{resource}/{}\n", plain(name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_nothing_is_told_as_none() {
        let mut table = Table::new(["NAME", "STATE"]);
        table.row(["größe-of-db".to_owned(), String::new()]);
        table.row(["\u{1b}[2J".to_owned(), "Ready".to_owned()]);
        let expected = "NAME          STATE\ngröße-of-db   <none>\n\\u{1b}[2J     Ready\n";
        assert_eq!(table.text(), expected);
    }
}
