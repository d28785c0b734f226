//! Tables in kubectl's format. Pure.

use crate::terminal::plain;

/// Spaces between columns.
const GAP: usize = 3;

/// Text that kubectl prints for an empty value.
pub(crate) const NONE: &str = "<none>";

/// A table: rows with as many cells as there are columns.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// The first row has the names of the columns.
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns an empty table with these columns.
    pub(crate) fn new(head: impl IntoIterator<Item = &'static str>) -> Self {
        let head = head.into_iter().map(str::to_owned).collect();
        Self { rows: vec![head] }
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
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (cell, width) in row.iter().zip(&mut widths) {
                *width = cell.chars().count().max(*width);
            }
        }
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths);
            let cells = cells.map(|(cell, width)| format!("{cell:<0$}", width + GAP));
            format!("{}\n", cells.collect::<String>().trim_end())
        };
        self.rows.iter().map(line).collect()
    }
}

/// A column: true if it is shown, its name, and the cell of a row.
pub(crate) type Column<'a, R> = (bool, &'static str, &'a dyn Fn(&R) -> String);

/// Returns a table of these rows as text.
pub(crate) fn of<R>(rows: &[R], columns: &[Column<'_, R>]) -> String {
    let shown = || columns.iter().filter(|(is_shown, ..)| *is_shown);
    let mut table = Table::new(shown().map(|(_, name, _)| *name));
    for row in rows {
        table.row(shown().map(|(.., cell)| cell(row)));
    }
    table.text()
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
    fn columns_are_aligned_and_empty_cells_show_none() {
        let mut table = Table::new(["NAME", "STATE"]);
        table.row(["größe-of-db".to_owned(), String::new()]);
        table.row(["\u{1b}[2J".to_owned(), "Ready".to_owned()]);
        let expected = "NAME          STATE\ngröße-of-db   <none>\n\\u{1b}[2J     Ready\n";
        assert_eq!(table.text(), expected);
    }
}
