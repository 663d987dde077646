//! Which format a file is.

use std::fmt;

use super::format::{Format, Sample, Settings};

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
pub fn sniff(head: &[u8], settings: &Settings) -> Result<Option<Sniffed>, SniffError> {
    let sample = Sample::of(head);
    let Some(first) = sample.lines.first() else { return Ok(None) };
    let (mut fitting, mut others) = (Vec::new(), Vec::new());
    for &format in Format::ALL {
        let fit = format.recognise(&sample, settings);
        let readings = if fit.fits() { &mut fitting } else { &mut others };
        readings.push(Reading { format, why: fit.why });
    }
    match fitting.len() {
        0 => Err(SniffError::None { begins: excerpt(first), readings: others }),
        1 => Ok(fitting.pop().map(|Reading { format, why }| Sniffed { format, why })),
        _ => Err(SniffError::Several { readings: fitting }),
    }
}

/// The beginning of a line. Of a single word only a little: it may be a key or a token, and errors are logged.
fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let is_word = !text.contains(|c: char| c.is_whitespace() || "{[\"|,;".contains(c));
    let most = if is_word { 8 } else { 80 };
    let mut shown: String = text.chars().take(most).collect();
    if is_word && text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Readings, each on a line of its own, but formats of which the same is said on one.
struct Readings<'a>(&'a [Reading]);

impl fmt::Display for Readings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Reading { format, why }) in self.0.iter().enumerate() {
            if self.0[..at].iter().any(|before| before.why == *why) {
                continue;
            }
            write!(f, "\n  {format}")?;
            for other in self.0[at + 1..].iter().filter(|other| other.why == *why) {
                write!(f, ", {}", other.format)?;
            }
            write!(f, ": {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"time_iso8601":"2026-03-14T10:26:53+01:00","msec":"1773480413.123","remote_addr":"203.0.113.10","host":"go.example.com","request_method":"GET","request_uri":"/k7Qp2","status":"302","request_id":"87edc48b25ee78e474b46ddef4d1cff6"}"#;
    const COMBINED: &str = r#"203.0.113.10 - - [14/Mar/2026:09:26:53 +0000] "GET /k7Qp2 HTTP/2.0" 302 0 "-" "Mozilla/5.0" HIT 2ceb65d3ed0c5af6e38ef489d8072a59"#;
    const W3C: &str = "#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status x-edge-request-id\n2026-03-14\t09:26:53\t203.0.113.10\tGET\t/k7Qp2\t302\tabc\n";

    #[test]
    fn each_format_is_told_and_says_why() {
        for (file, format, why) in [
            (JSON, Format::NginxJson, "1 of the first 1 lines are JSON objects with nginx's names"),
            (
                COMBINED,
                Format::NginxCombined,
                "1 of the first 1 lines are nginx's combined format, with cache status and request id behind the agent",
            ),
            (
                W3C,
                Format::CloudFrontV1,
                "a #Fields line names 7 columns of CloudFront, and 3 of the first 3 lines fit it",
            ),
        ] {
            assert_eq!(sniff(file.as_bytes(), &Settings::default()), Ok(Some(Sniffed { format, why: why.to_owned() })));
        }
    }

    #[test]
    fn broken_lines_among_good_ones_do_no_harm() {
        let file = format!("{COMBINED}\n\u{16}\u{3}\nbroken\n{COMBINED}\n{COMBINED}\n");
        assert_eq!(sniff(file.as_bytes(), &Settings::default()).unwrap().unwrap().format, Format::NginxCombined);
    }

    #[test]
    fn a_key_that_was_mistaken_for_a_log_is_not_shown() {
        let error = sniff(b"hw_0123456789abcdef0123456789abcdef\n", &Settings::default()).unwrap_err().to_string();
        assert!(error.contains("begins \"hw_01234…\"") && !error.contains("56789"), "{error}");
        let error = sniff(b"dear diary, today I saw a bird\n", &Settings::default()).unwrap_err().to_string();
        assert!(error.contains("today I saw a bird"), "{error}");
    }

    #[test]
    fn an_empty_file_is_no_error() {
        for empty in ["", "\n", "\r\n\r\n", "\u{feff}"] {
            assert_eq!(sniff(empty.as_bytes(), &Settings::default()), Ok(None), "{empty:?}");
        }
    }

    #[test]
    fn a_file_that_fits_none_shows_every_reading() {
        // Rows of a real-time log have no header: they must not be read as anything.
        let error = sniff(b"1773480413.123\t203.0.113.10\t0.001\t302\n", &Settings::default()).unwrap_err();
        let text = error.to_string();
        let mut lines = text.lines();
        let begins = "no known log format fits; the file begins \"1773480413.123\\t203.0.113.10\\t0.001\\t302\"";
        assert_eq!(lines.next(), Some(begins));
        // Formats of which the same is to be said share a line.
        let json = lines.next().unwrap();
        assert!(json.starts_with("  nginx-json, ") && json.contains(", cloudfront-v2-json"), "{text}");
        assert!(json.ends_with(": no JSON object a line (expected `{` at line 1 column 1)"), "{text}");
        for (format, why) in [
            (
                "nginx-combined",
                "no line is like `address - user [time] \"request\" status bytes \"referrer\" \"agent\"`",
            ),
            ("cloudfront-v1", "no #Fields line"),
        ] {
            let said = |line: &str| line.trim_start().starts_with(format) && line.ends_with(&format!(": {why}"));
            assert!(lines.clone().any(said), "{text}");
        }
        let SniffError::None { readings, .. } = error else { panic!() };
        assert_eq!(readings.len(), Format::ALL.len(), "each is shown");
        let error = sniff(b"{\"a\":1}\n", &Settings::default()).unwrap_err().to_string();
        assert!(error.contains("but none with time, request_uri (or uri), status and remote_addr"), "{error}");
        let error =
            sniff(b"#Version: 1.0\n#Fields: date time x-host-header\n", &Settings::default()).unwrap_err().to_string();
        assert!(
            error.contains("its #Fields line lacks date and time (or timestamp), cs-uri-stem or sc-status"),
            "{error}"
        );
        let whole = COMBINED.replace("GET /", "GET http://go.example.com/");
        let fit = Format::NginxCombined.recognise(&Sample::of(whole.as_bytes()), &Settings::default());
        assert!(fit.why.contains("1 of 1 request lines hold a whole URL"), "{}", fit.why);
    }

    #[test]
    fn a_file_that_fits_two_shows_both_readings() {
        let Err(SniffError::Several { readings }) =
            sniff(format!("{JSON}\n{COMBINED}\n").as_bytes(), &Settings::default())
        else {
            panic!()
        };
        let formats: Vec<Format> = readings.iter().map(|reading| reading.format).collect();
        assert_eq!(formats, [Format::NginxJson, Format::NginxCombined]);
        let text = SniffError::Several { readings }.to_string();
        assert!(text.starts_with("more than one log format fits; name the right one with --format\n  nginx-json: 1"));
    }
}
