//! What the fuzz targets share.

use std::io::Read;

use ingest::edge::{Ids, Line, LineReader, ReadError, ReadLimits, Settings, fingerprint};

/// Settings under which every format can read something.
pub fn settings() -> Settings {
    let fields = "timestamp c-ip sc-status cs-method cs-host cs-uri-stem x-edge-request-id cs-user-agent cs-uri-query";
    let akamai = "reqTimeSec reqId cliIP statusCode reqHost reqMethod reqPath queryStr UA cacheStatus edgeIP";
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    Settings {
        cloudfront_realtime: words(fields),
        akamai: words(akamai),
        nginx_log_format: "$remote_addr [$time_local] \"$request\" $status \"$http_user_agent\" $request_id".to_owned(),
        ..Settings::default()
    }
}

/// What holds of every line, whatever it was made from.
pub fn check(bytes: &[u8], line: &Line<'_>) {
    let Line::Request(request) = line else { return };
    assert!(request.path.starts_with('/') && request.status == 302);
    for text in [request.host, request.path, request.code, request.query, request.user_agent, request.referrer] {
        // A byte that is no UTF-8 takes three.
        assert!(text.len() <= bytes.len() * 3);
    }
    assert_eq!(Ids::Trusted.key(request).is_ok(), request.line_key.is_some());
    assert_eq!(fingerprint(request), fingerprint(request));
}

/// The lines of a file, each with its number.
///
/// # Errors
/// Why it can't be read.
pub fn lines(file: impl Read, limits: ReadLimits) -> Result<Vec<(u64, Vec<u8>)>, ReadError> {
    let mut reader = LineReader::new(file, limits)?;
    let mut lines = Vec::new();
    while let Some(block) = reader.next_block()? {
        assert!(block.bytes.len() <= limits.block.max(limits.line * 4) + limits.line + 1, "a block is bounded");
        lines.extend(block.lines().map(|line| (line.number, line.bytes.to_vec())));
    }
    assert_eq!(reader.finish()?.lines, lines.len() as u64);
    Ok(lines)
}

/// Hands out bytes so many at a time.
pub struct Pieces<'a> {
    /// Those that are left.
    pub bytes: &'a [u8],
    /// How many at most.
    pub size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = self.size.min(buffer.len()).min(self.bytes.len());
        buffer[..size].copy_from_slice(&self.bytes[..size]);
        self.bytes = &self.bytes[size..];
        Ok(size)
    }
}
