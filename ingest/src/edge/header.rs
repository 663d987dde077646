//! Request ids as a header carries them to the origin: which part of its value the edge's log line carries too.
//!
//! The redirect reads a header by its name; whoever makes events elsewhere may send the value as it came or the part
//! alone, so those are read by provider. Both must come to the same bytes, or line and event would be two clicks.

/// Which part of a header is the line key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdForm {
    /// All of it.
    Whole,
    /// Cloudflare appends `-` and the data centre.
    UpToHyphen,
    /// An ALB's `Root=…;Self=…`: `Self` if there, else `Root`.
    Trace,
}

impl IdForm {
    /// The form of a header, by its name in lower case.
    pub fn of_header(name: &str) -> Self {
        match name {
            "cf-ray" => Self::UpToHyphen,
            "x-amzn-trace-id" => Self::Trace,
            _ => Self::Whole,
        }
    }

    /// The line key in a header's value.
    pub fn part(self, value: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Whole => Some(value),
            Self::UpToHyphen => value.split(|&byte| byte == b'-').next(),
            Self::Trace => trace_part(value, b"Self=").or_else(|| trace_part(value, b"Root=")),
        }
    }
}

fn trace_part<'a>(value: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    value.split(|&byte| byte == b';').find_map(|part| part.trim_ascii().strip_prefix(name))
}

/// The line key of a request of `provider`, from an id that may be a header's whole value or the key itself.
pub fn line_key_of<'a>(provider: &str, id: &'a [u8]) -> &'a [u8] {
    let id = id.trim_ascii();
    match provider {
        // a data centre is three capitals; whatever else follows a hyphen belongs to an id of one's own
        "cloudflare" => match id {
            [ray @ .., b'-', a, b, c] if [a, b, c].iter().all(|byte| byte.is_ascii_uppercase()) => ray,
            _ => id,
        },
        "alb" => IdForm::Trace.part(id).unwrap_or(id),
        _ => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_and_its_key_come_to_the_same() {
        for (provider, header, value, key) in [
            ("cloudflare", "cf-ray", "8f1e2d3c4b5a6978-AMS", "8f1e2d3c4b5a6978"),
            ("alb", "x-amzn-trace-id", "Self=1-c-d;Root=1-a-b", "1-c-d"),
            ("alb", "x-amzn-trace-id", "Root=1-a-b", "1-a-b"),
            ("nginx", "x-request-id", "a-B-CDE", "a-B-CDE"),
        ] {
            assert_eq!(IdForm::of_header(header).part(value.as_bytes()), Some(key.as_bytes()), "{value}");
            assert_eq!(line_key_of(provider, value.as_bytes()), key.as_bytes(), "{value}");
            assert_eq!(line_key_of(provider, key.as_bytes()), key.as_bytes(), "{key}");
        }
    }

    #[test]
    fn an_id_of_ones_own_stays_whole() {
        for id in ["550e8400-e29b-41d4-a716-446655440000", "x-1", "-AM"] {
            assert_eq!(line_key_of("cloudflare", id.as_bytes()), id.as_bytes());
            assert_eq!(line_key_of("alb", id.as_bytes()), id.as_bytes());
        }
        assert_eq!(line_key_of("nginx", b" abc "), b"abc");
    }
}
