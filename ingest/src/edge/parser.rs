//! A file's parser. Blocks go through it in order, which costs next to nothing; the jobs that come out may be
//! parsed on any thread, each with an arena of its own.

use std::sync::Arc;

use super::arena::Arena;
use super::block::{Block, RawLine, Tail};
use super::format::{Format, Layout, Sample, Settings};
use super::judge::judge;
use super::nginx;
use super::request::{EdgeRequest, Line, Reject};

/// The parser of one file.
#[derive(Clone, Debug)]
pub struct FileParser {
    settings: Arc<Settings>,
    layout: Arc<dyn Layout>,
    has_id: bool,
}

/// A block, with all that is needed to parse it.
#[derive(Clone, Debug)]
pub struct Job {
    block: Block,
    settings: Arc<Settings>,
    /// The layout from each position on; the first is 0.
    layouts: Vec<(usize, Arc<dyn Layout>)>,
}

impl FileParser {
    /// For a file of `format` that begins with `head`.
    pub fn new(format: Format, head: &[u8], settings: Settings) -> Self {
        let sample = Sample::of(head);
        let layout = format.layout(&sample, &settings);
        // Formats with headers don't know before the first one.
        let mut headers = sample.lines.iter().filter_map(|line| layout.after_header(line));
        let has_id = layout.has_id() || headers.any(|layout| layout.has_id());
        Self { settings: Arc::new(settings), has_id, layout }
    }

    /// For a file whose lines are read by `layout`, and by no settings.
    pub fn of(layout: Arc<dyn Layout>) -> Self {
        Self { settings: Arc::new(Settings::default()), has_id: layout.has_id(), layout }
    }

    /// Whether the file's lines have a place for a request id. Where they don't, the file can only be taken with
    /// ids not trusted.
    pub fn layout_has_id(&self) -> bool {
        self.has_id
    }

    /// Takes the file's next block. Header lines in it hold for what comes after them.
    pub fn job(&mut self, block: Block) -> Job {
        let mut layouts = vec![(0, Arc::clone(&self.layout))];
        if let Some(mark) = self.layout.header_mark() {
            for start in header_starts(&block.bytes, mark) {
                let end = memchr::memchr(b'\n', &block.bytes[start..]).map_or(block.bytes.len(), |end| start + end);
                let line = &block.bytes[start..end];
                if let Some(layout) = self.layout.after_header(line.strip_suffix(b"\r").unwrap_or(line)) {
                    self.layout = Arc::clone(&layout);
                    layouts.push((end, layout));
                }
            }
        }
        Job { block, settings: Arc::clone(&self.settings), layouts }
    }
}

/// Whether a line without its end, the file's last, may be the beginning of a longer one with another id: a log that is
/// being written, or was cut while it was copied. The whole line would count the request a second time.
fn may_be_cut(request: &EdgeRequest<'_>, line: &[u8]) -> bool {
    // what is 32 digits long, or padded to its end, is whole
    let is_whole = |key: &[u8]| nginx::is_request_id(key) || key.ends_with(b"==");
    request.line_key.is_some_and(|key| line.ends_with(key) && !is_whole(key))
}

/// Where lines begin that begin with `mark`.
fn header_starts(bytes: &[u8], mark: u8) -> impl Iterator<Item = usize> {
    let first = (bytes.first() == Some(&mark)).then_some(0);
    let needle = [b'\n', mark];
    let others: Vec<usize> = memchr::memmem::find_iter(bytes, &needle).map(|end| end + 1).collect();
    first.into_iter().chain(others)
}

impl Job {
    /// The lines.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Parses every line, in order. What is handed to `sink` lives as long as job and arena. A line that holds
    /// several records comes several times.
    pub fn parse<'a>(&'a self, arena: &'a Arena, mut sink: impl FnMut(RawLine<'a>, Line<'a>)) {
        let mut later = self.layouts[1..].iter().peekable();
        let mut layout = &self.layouts[0].1;
        for raw in self.block.lines() {
            while let Some((_, next)) = later.next_if(|(from, _)| *from <= raw.start) {
                layout = next;
            }
            if let Some(reject) = raw.fault {
                sink(raw, Line::Reject(reject));
            } else if raw.bytes.trim_ascii_start().is_empty()
                || (!raw.bytes.is_empty() && layout.header_mark() == Some(raw.bytes[0]))
            {
                sink(raw, Line::Header);
            } else {
                let is_open = self.block.tail == Tail::Unterminated && raw.end() >= self.block.bytes.len();
                layout.parse(raw.bytes, arena, &mut |found| match judge(found, &self.settings) {
                    Line::Request(request) if is_open && may_be_cut(&request, raw.bytes) => {
                        sink(raw, Line::Reject(Reject::CUT_SHORT));
                    }
                    line => sink(raw, line),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::block;
    use super::super::{Ids, Reject, fingerprint};
    use super::*;

    const FIELDS: &str = "#Fields: date time cs-uri-stem sc-status";

    fn seen(jobs: &[Job]) -> Vec<(u64, Option<String>)> {
        let arena = Arena::new();
        let mut seen = Vec::new();
        for job in jobs {
            job.parse(&arena, |raw, line| {
                seen.push((
                    raw.number,
                    match line {
                        Line::Request(request) => Some(request.code.to_owned()),
                        Line::Reject(reject) => Some(reject.reason.to_owned()),
                        _ => None,
                    },
                ));
            });
        }
        seen
    }

    #[test]
    fn headers_hold_for_later_blocks_whenever_those_are_parsed() {
        let row = |code: &str| format!("2026-03-14\t09:26:53\t/{code}\t302\n");
        let first = format!("{FIELDS}\n{}", row("a"));
        let second = format!("{}#Fields: sc-status cs-uri-stem date time\n302\t/c\t2026-03-14\t09:26:53\n\n", row("b"));
        let mut parser = FileParser::new(Format::CloudFrontV1, first.as_bytes(), Settings::default());
        let mut jobs: Vec<Job> =
            [first, second, row("d")].iter().map(|bytes| parser.job(block(bytes.as_bytes()))).collect();
        let codes: Vec<Option<String>> = seen(&jobs).into_iter().map(|(_, code)| code).collect();
        let some = |code: &str| Some(code.to_owned());
        assert_eq!(codes, [None, some("a"), some("b"), None, some("c"), None, some("bad_timestamp")]);
        jobs.reverse();
        assert_eq!(seen(&jobs)[0].1, some("bad_timestamp"));
    }

    #[test]
    fn a_last_line_whose_id_may_go_on_waits_for_its_end() {
        let names = "#Fields: date time cs-uri-stem sc-status x-edge-request-id\n";
        let row = |id: &str| format!("{names}2026-03-14\t09:26:53\t/k\t302\t{id}");
        let last = |format: Format, file: &str| {
            let mut parser = FileParser::new(format, file.as_bytes(), Settings::default());
            seen(&[parser.job(block(file.as_bytes()))]).pop().and_then(|(_, code)| code)
        };
        assert_eq!(last(Format::CloudFrontV1, &row("HIvlii7g2p")).as_deref(), Some("cut_short"));
        assert_eq!(last(Format::CloudFrontV1, &format!("{}\n", row("HIvlii7g2p"))).as_deref(), Some("k"));
        let turned = row("x").replace("sc-status x-edge-request-id", "x-edge-request-id sc-status");
        assert_eq!(last(Format::CloudFrontV1, &turned.replace("302\tx", "HIvlii7g2p\t302")).as_deref(), Some("k"));
        let combined = |id: &str| {
            format!("203.0.113.10 - - [14/Mar/2026:09:26:53 +0000] \"GET /k HTTP/2.0\" 302 0 \"-\" \"a\" HIT {id}")
        };
        let whole = "2ceb65d3ed0c5af6e38ef489d8072a59";
        assert_eq!(last(Format::NginxCombined, &combined(whole)).as_deref(), Some("k"), "an id that can't go on");
        let file = format!("{}\n{}", combined(whole), combined("operators-own-id"));
        assert_eq!(last(Format::NginxCombined, &file).as_deref(), Some("cut_short"));
    }

    #[test]
    fn lines_are_numbered_and_faults_are_rejects() {
        let mut block = block(format!("{FIELDS}\n\n{}\ncut", "x".repeat(90)).as_bytes());
        block.line_limit = 80;
        block.first_line = 7;
        block.tail = super::super::block::Tail::CutShort;
        let mut parser = FileParser::new(Format::CloudFrontV1, b"", Settings::default());
        let reasons = [Reject::TOO_LONG.reason, Reject::CUT_SHORT.reason].map(|reason| Some(reason.to_owned()));
        let [long, cut] = reasons;
        assert_eq!(seen(&[parser.job(block)]), [(7, None), (8, None), (9, long), (10, cut)]);
    }

    /// Bytes that come near to being lines: pieces of real ones, cut, joined and sprinkled with anything.
    fn near_lines() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop::sample::select(vec![
            "#Fields: date time cs-uri-stem sc-status cs(User-Agent) c-ip x-edge-request-id\n",
            "2026-03-14\t09:26:53\t/%25E5\t302\tMozilla%2520x\t[::1%1]:2\tid\n",
            "203.0.113.10 - - [14/Mar/2026:09:26:53 +0000] \"GET /k HTTP/2.0\" 302 0 \"-\" \"a\\x22\" HIT 2ceb65d3ed0c5af6e38ef489d8072a59\n",
            "{\"msec\":1.5,\"uri\":\"/k?\",\"method\":\"GET\",\"status\":302,\"remote_addr\":\"::1\",\"request_id\":\"x\"}\n",
            "{\"timestamp(ms)\":1773480413123,\"cs-method\":\"GET\",\"cs_uri_stem\":\"/%25E5\",\"sc-status\":302,\"x-edge-request-id\":\"x\"}\n",
            "{\"EdgeStartTimestamp\":1773480413123456789,\"ClientRequestMethod\":\"GET\",\"ClientRequestURI\":\"/k?\",\"EdgeResponseStatus\":302,\"RayID\":\"\\u0078\"}\n",
            "{\"insertId\":\"x\",\"timestamp\":\"2026-03-14T09:26:53Z\",\"httpRequest\":{\"requestMethod\":\"GET\",\"requestUrl\":\"http://[::1]:80/k\",\"status\":302}}\n",
            "{\"time\":\"2026-03-14T09:26:53.1234567Z\",\"category\":\"FrontDoorAccessLog\",\"properties\":{\"httpMethod\":\"GET\",\"requestUri\":\"https://x:443/k\",\"httpStatusCode\":\"302\"}}\n",
            "<134>x c[1]: {\"timestamp\":1773480413,\"url\":\"http://[::1]/k\",\"response_status\":302,\"response_state\":\"HIT\",\"request_id\":\"x\"}\n",
            "{\"reqTimeSec\":1773480413.5,\"reqPath\":\"/k\",\"statusCode\":302,\"UA\":\"a%2F+%\",\"reqId\":\"x\",\"cacheStatus\":0,\"breadcrumbs\":\"%5Bc=c\"}\n",
            "x 1773480413.5 302 /k a%2F+%28 0 [c=c]\n",
            "{\"ts\":1773480413.5,\"request\":{\"method\":\"GET\",\"uri\":\"/k\",\"headers\":{\"User-Agent\":[\"x\"]}},\"status\":302,\"resp_headers\":{\"Cache-Status\":[\"a; hit\"]}}\n",
            "HIT|302|1773480413123|1|1|::|-|https://x/k|DE|a|b|8fa912192319a0d06b341649d4bd1cf5|DE\n",
            "::1 - - [14/Mar/2026:09:26:53 +0000] \"GET http://x:80/k HTTP/1.1\" 302 - \"-\" \"a\\t\" hit 1 \"x\"\n",
            "Mar 14 h[1]: ::1:5 [14/Mar/2026:09:26:53.123] f b/s 0/0/1/2/+3 302 1 - - ---- 1/1/0/0/0 0/0 {a#22|b} \"GET /k HTTP/1.1\" id\n",
            "h2 2026-03-14T09:26:53Z a [::1]:5 t:1 0 0 0 302 302 1 1 \"GET https://x:443/k HTTP/2.0\" \"a\" - - t \"Root=1-x\" \"-\" \"-\" 0 - \"forward\" \"-\"\n",
            "1773480413.5|::1|\"GET http://x/k\"|302|\"a\\\"\\x22\"|id\n",
            "{\"time\":{},\"request\":\"GET \",\"status\":[],\"remote_addr\":null}\n",
            "\\",
            "\"",
            "%",
            "\t",
            "\n",
            "#",
            "[",
            "] \"",
            "{",
            "\u{feff}",
            "\0",
            "-",
            " ",
        ]);
        let piece = prop_oneof![
            4 => (pieces, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(piece, a, b)| {
                let (a, b) = (a.index(piece.len() + 1), b.index(piece.len() + 1));
                if a == b { piece.as_bytes().to_vec() } else { piece.as_bytes()[a.min(b)..a.max(b)].to_vec() }
            }),
            1 => prop::collection::vec(any::<u8>(), 0..20),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    /// Nothing configured, or everything.
    fn any_settings() -> impl Strategy<Value = Settings> {
        let configured = Settings {
            nginx_log_format: r#"$msec|$remote_addr|"$request_method $scheme://$host$uri$is_args$args"|$status|"$http_user_agent"|$request_id"#.to_owned(),
            akamai: ["-", "reqTimeSec", "statusCode", "reqPath", "UA", "cacheStatus", "breadcrumbs"].map(str::to_owned).to_vec(),
            fastly: [("time", "msec"), ("url", "uri")].map(|(name, key)| (name.to_owned(), key.to_owned())).into(),
            haproxy_timezone: chrono_tz::Tz::Europe__Berlin,
            haproxy_captures: ["host", "user-agent"].map(str::to_owned).to_vec(),
            ..Settings::default()
        };
        prop::sample::select(vec![Settings::default(), configured])
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(head in near_lines(), bytes in near_lines(), settings in any_settings()) {
            let _ = super::super::sniff(&bytes, &settings);
            for &format in Format::ALL {
                let mut parser = FileParser::new(format, &head, settings.clone());
                let job = parser.job(block(&bytes));
                let (arena, mut lines) = (Arena::new(), 0);
                job.parse(&arena, |raw, line| {
                    lines += 1;
                    prop_assert_line(raw.bytes, &line);
                });
                prop_assert_eq!(lines, job.block().line_count(), "one verdict a line");
            }
        }
    }

    /// What holds of every request, whatever it was made from.
    fn prop_assert_line(bytes: &[u8], line: &Line<'_>) {
        if let Line::Request(request) = line {
            assert!(request.path.starts_with('/') && request.status == 302, "{bytes:?}");
            assert!(request.code.len() <= bytes.len() * 3, "{bytes:?}");
            assert_eq!(Ids::Trusted.key(request).is_ok(), request.line_key.is_some());
            assert_eq!(fingerprint(request), fingerprint(request));
        }
    }
}
