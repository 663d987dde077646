//! Output: JSON for machines, aligned columns and bars for people.

use serde::Serialize;

/// Prints a value as indented JSON.
///
/// # Errors
/// When it can't be serialised, or standard output is closed.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string_pretty(value)?)
}

/// Prints a line; a closed pipe (as of `| head`) ends the program quietly, as users of pipes expect.
///
/// # Errors
/// When standard output fails otherwise.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    bytes(format!("{text}\n").as_bytes())
}

/// Prints bytes as they are.
///
/// # Errors
/// As [`fn@line`].
pub(crate) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

/// Rows under a head, in aligned columns.
pub(crate) fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let one = |cells: Vec<&str>| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![one(head.to_vec())];
    lines.extend(rows.iter().map(|row| one(row.iter().map(String::as_str).collect())));
    lines.join("\n")
}

/// A bar of at most `width` blocks for `value` of `most`.
pub(crate) fn bar(value: f64, most: f64, width: usize) -> String {
    let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (share * width as f64 * 8.0).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    format!("{}{}", "█".repeat(eighths / 8), rest[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "12345".into()], vec!["long-ü".into(), "1".into()]];
        assert_eq!(columns(&["name", "n"], &rows), "name    n\na       12345\nlong-ü  1");
    }

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bar(5.0, 10.0, 4), "██");
        assert_eq!(bar(10.0, 10.0, 4), "████");
        assert_eq!(bar(0.0, 0.0, 4), "");
    }
}
