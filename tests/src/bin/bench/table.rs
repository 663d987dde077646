//! The printed table.

use std::fmt;

/// Rows of (what, ours, peer, ratio, bar).
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<[String; 5]>);

impl Table {
    /// Adds a row; it is printed at once as well, since a run takes minutes.
    pub(crate) fn row(&mut self, what: &str, ours: &str, peer: &str, ratio: &str, bar: &str) {
        eprintln!("{what}: {ours} | {peer} | {ratio} | {bar}");
        self.0.push([what, ours, peer, ratio, bar].map(str::to_owned));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["what", "highwater", "peer", "ratio", "bar"].map(str::to_owned);
        let mut widths = [0; 5];
        for row in std::iter::once(&head).chain(&self.0) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in std::iter::once(&head).chain(&self.0) {
            for (width, cell) in widths.iter().zip(row) {
                write!(f, "{cell:<width$}  ")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
