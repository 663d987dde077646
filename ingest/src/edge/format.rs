//! The table of formats, and what each one provides.
//!
//! A format's file has two functions:
//! * `recognise(&Sample, &Settings) -> Fit`: how many of a file's first lines are this format, and in words why or why
//!   not;
//! * `layout(&Sample, &Settings) -> Arc<dyn Layout>`: how to read lines of this file, with whatever the first lines
//!   tell (which columns there are).

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::str::FromStr;
use std::sync::Arc;

use chrono_tz::Tz;

use super::arena::Arena;
use super::judge::Found;

/// How lines of one file are read. Pure and shared between threads; where lines in the middle of a file change the
/// layout, they make a new one.
pub trait Layout: Send + Sync + Debug {
    /// Reads a line that is neither blank nor a header, and hands on each record that it holds, usually one.
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>));

    /// Whether lines of this layout have a place for a request id.
    fn has_id(&self) -> bool;

    /// The byte that header lines begin with; `None` where the format has none.
    fn header_mark(&self) -> Option<u8> {
        None
    }

    /// The layout of the lines after a header line; `None` when it changes nothing.
    fn after_header(&self, line: &[u8]) -> Option<Arc<dyn Layout>> {
        let _ = line;
        None
    }
}

/// What formats and judge can't know by themselves (configuration `[edge_logs]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Statuses that links answer with.
    pub link_statuses: Vec<u16>,
    /// Whether programs at the edge (CloudFront functions, for one) serve links, so that their redirects are clicks.
    pub edge_functions: bool,
    /// `cloudfront_realtime.fields`: the field list of the real-time log configuration, in its order.
    pub cloudfront_realtime: Vec<String>,
    /// `nginx.log_format`: the text of the directive, whole or in part; empty: the formats known here.
    pub nginx_log_format: String,
    /// `fastly.fields`: our name of a field to the key that the log has for it.
    pub fastly: BTreeMap<String, String>,
    /// `akamai.fields`: the order of a structured stream's fields.
    pub akamai: Vec<String>,
    /// `akamai.id_field`: the field that holds the id which the origin sees too; empty: none does.
    pub akamai_id_field: String,
    /// `haproxy.timezone`: the zone of the clock that HAProxy's dates are of.
    pub haproxy_timezone: Tz,
    /// `haproxy.captures`: the request headers between the braces, in order; empty: the usual two.
    pub haproxy_captures: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            link_statuses: vec![302],
            edge_functions: false,
            cloudfront_realtime: Vec::new(),
            nginx_log_format: String::new(),
            fastly: BTreeMap::new(),
            akamai: Vec::new(),
            akamai_id_field: String::new(),
            haproxy_timezone: Tz::UTC,
            haproxy_captures: Vec::new(),
        }
    }
}

/// A file's first lines: whole, not blank, at most [`Sample::LINES`].
#[derive(Clone, Debug, Default)]
pub struct Sample<'a> {
    /// In order.
    pub lines: Vec<&'a [u8]>,
}

impl<'a> Sample<'a> {
    /// How many lines are looked at.
    pub const LINES: usize = 200;

    /// The first lines of `head`, the beginning of a file. A last line without its end is left out, as it may go
    /// on, unless it is the only one.
    pub fn of(head: &'a [u8]) -> Self {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let whole = match memchr::memrchr(b'\n', head) {
            Some(end) if !head[..end].trim_ascii().is_empty() => &head[..end],
            _ => head,
        };
        let lines = whole.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        Self { lines: lines.filter(|line| !line.trim_ascii().is_empty()).take(Self::LINES).collect() }
    }
}

/// How well a file's first lines fit a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Lines that are this format.
    pub matched: usize,
    /// Lines looked at.
    pub of: usize,
    /// In words, why or why not.
    pub why: String,
}

impl Fit {
    /// Whether the file is taken for this format: half of its lines are, as logs may hold broken ones.
    pub fn fits(&self) -> bool {
        self.matched > 0 && self.matched * 2 >= self.of
    }
}

macro_rules! formats {
    ($($(#[$meta:meta])* $variant:ident = $name:literal $(| $alias:literal)*, of $provider:literal, in $module:ident;)+) => {
        /// A log format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Format { $($(#[$meta])* $variant),+ }

        impl Format {
            /// Every format, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name as given on the command line and shown in summaries.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Who writes it: part of every click id (design §4.1).
            pub fn provider(self) -> &'static str {
                match self { $(Self::$variant => $provider),+ }
            }

            /// How well a file's first lines fit.
            pub fn recognise(self, sample: &Sample<'_>, settings: &Settings) -> Fit {
                match self { $(Self::$variant => super::$module::recognise(sample, settings)),+ }
            }

            /// How to read a file that begins like this.
            pub fn layout(self, sample: &Sample<'_>, settings: &Settings) -> Arc<dyn Layout> {
                match self { $(Self::$variant => super::$module::layout(sample, settings)),+ }
            }
        }

        impl FromStr for Format {
            type Err = UnknownFormat;

            fn from_str(word: &str) -> Result<Self, UnknownFormat> {
                match word {
                    $($name $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err(UnknownFormat { word: word.to_owned() }),
                }
            }
        }
    };
}

formats! {
    /// nginx, a JSON object a line.
    NginxJson = "nginx-json", of "nginx", in nginx_json;
    /// nginx, the combined format with cache status and request id behind it.
    NginxCombined = "nginx-combined", of "nginx", in nginx_combined;
    /// nginx with the `log_format` that is configured.
    NginxLogFormat = "nginx-log-format", of "nginx", in nginx_log_format;
    /// Varnish, varnishncsa's format with handling and request id behind it.
    Varnish = "varnish", of "varnish", in varnish;
    /// Caddy's access log, a JSON object a line.
    Caddy = "caddy", of "caddy", in caddy;
    /// HAProxy with `option httplog`.
    Haproxy = "haproxy", of "haproxy", in haproxy;
    /// AWS Application Load Balancer.
    Alb = "alb", of "alb", in alb;
    /// bunny.net's raw log, version 1.
    Bunny = "bunny", of "bunny", in bunny;
    /// Akamai DataStream 2, JSON or structured.
    AkamaiDs2 = "akamai-ds2" | "akamai", of "akamai", in akamai_ds2;
    /// Fastly real-time log streaming, a JSON object a line.
    Fastly = "fastly", of "fastly", in fastly;
    /// CloudFront standard logs as W3C tables, legacy or version 2: columns named by `#Fields`.
    CloudFrontV1 = "cloudfront-v1" | "cloudfront" | "cloudfront-v2", of "cloudfront", in cloudfront_v1;
    /// CloudFront standard logs, version 2: a JSON object a record, or Parquet.
    CloudFrontV2Json = "cloudfront-v2-json", of "cloudfront", in cloudfront_v2_json;
    /// CloudFront real-time logs: tab-separated, the columns as configured.
    CloudFrontRealtime = "cloudfront-realtime", of "cloudfront", in cloudfront_realtime;
    /// Cloudflare Logpush, a JSON object a line.
    Cloudflare = "cloudflare", of "cloudflare", in cloudflare;
    /// Google Cloud's load balancer and CDN, entries of Cloud Logging.
    GcpLb = "gcp-lb", of "gcp", in gcp_lb;
    /// Azure Front Door's access log.
    AzureFrontDoor = "azure-front-door", of "azure", in azure_front_door;
}

impl Format {
    /// The names of all formats, for messages.
    pub fn known() -> String {
        Self::ALL.iter().map(|format| format.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is no log format; known are {}", Format::known())]
pub struct UnknownFormat {
    /// The word.
    pub word: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for format in Format::ALL {
            assert_eq!(format.as_str().parse::<Format>(), Ok(*format));
        }
        assert_eq!("cloudfront".parse(), Ok(Format::CloudFrontV1));
        let error = "nginx".parse::<Format>().unwrap_err().to_string();
        assert!(error.starts_with("\"nginx\" is no log format; known are nginx-json, nginx-combined, "), "{error}");
    }

    #[test]
    fn every_format_has_its_section_in_the_documentation() {
        let pages = include_str!("../../../docs/formats.md");
        for format in Format::ALL {
            let heading = format!("### `{format}`");
            assert!(pages.lines().any(|line| line == heading), "docs/formats.md lacks {heading}");
            let link = format!("| [`{format}`](#{format}) |");
            assert!(pages.lines().any(|line| line.starts_with(&link)), "the table of docs/formats.md lacks {format}");
        }
    }

    #[test]
    fn a_sample_is_of_whole_lines() {
        let lines = |head: &'static [u8]| Sample::of(head).lines;
        assert_eq!(lines(b""), Vec::<&[u8]>::new());
        assert_eq!(lines(b"\xef\xbb\xbfa\r\n\r\n  \nb\ncut"), [b"a", b"b"]);
        assert_eq!(lines(b"only"), [b"only"]);
        assert_eq!(lines(b"\r\n\nonly"), [b"only"], "blank lines are none");
    }
}
