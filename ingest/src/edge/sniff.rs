//! Which format a file is.

use std::fmt;

use super::format::{Format, Sample};

/// What a file was taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sniffed {
    /// The format.
    pub format: Format,
    /// In words, why.
    pub why: String,
}

/// How a file reads as one format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The format.
    pub format: Format,
    /// In words, why it fits or doesn't.
    pub why: String,
}

/// A file that can't be taken for one format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SniffError {
    /// It fits none.
    #[error("no known log format fits; the file begins {begins:?}{}", Readings(.readings))]
    None {
        /// Its first line, cut.
        begins: String,
        /// Why each format doesn't fit.
        readings: Vec<Reading>,
    },
    /// It fits several.
    #[error("more than one log format fits; name the right one with --format{}", Readings(.readings))]
    Several {
        /// Those that fit, and why.
        readings: Vec<Reading>,
    },
}

/// What the beginning of a file (unpacked) shows it to be; `None` when there is nothing in it.
///
/// # Errors
/// When no format fits, or several do: the error shows how the file reads as each.
pub fn sniff(head: &[u8]) -> Result<Option<Sniffed>, SniffError> {
    let sample = Sample::of(head);
    let Some(first) = sample.lines.first() else { return Ok(None) };
    let (mut fitting, mut others) = (Vec::new(), Vec::new());
    for &format in Format::ALL {
        let fit = format.recognise(&sample);
        let readings = if fit.fits() { &mut fitting } else { &mut others };
        readings.push(Reading { format, why: fit.why });
    }
    match fitting.len() {
        0 => Err(SniffError::None { begins: excerpt(first), readings: others }),
        1 => Ok(fitting.pop().map(|Reading { format, why }| Sniffed { format, why })),
        _ => Err(SniffError::Several { readings: fitting }),
    }
}

fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().take(80).collect()
}

/// Readings, each on a line of its own.
struct Readings<'a>(&'a [Reading]);

impl fmt::Display for Readings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for reading in self.0 {
            write!(f, "\n  {}: {}", reading.format, reading.why)?;
        }
        Ok(())
    }
}
