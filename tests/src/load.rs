//! Bounded request loops over keep-alive connections, with a ledger of what was sent and what was answered.
//!
//! A request is written and its answer's head read with plain sockets: the sender must never retry by itself, or the
//! ledger would not know how many requests there were.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request to be sent.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET` or `HEAD`.
    pub method: &'static str,
    /// Path and query.
    pub target: String,
    /// Header `Host`.
    pub host: String,
    /// Header `User-Agent`.
    pub user_agent: String,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

/// An answer's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Everything before the body.
    pub head: String,
}

/// One keep-alive connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to a port of loopback.
    ///
    /// # Errors
    /// When nothing listens there.
    pub async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4_096) })
    }

    /// Sends one request and reads its answer whole. After an error the connection is of no use, and whether the
    /// request was answered is not known.
    ///
    /// # Errors
    /// When the connection ends or nothing comes for 20 s.
    pub async fn send(&mut self, request: &Request) -> Result<Answer> {
        let mut text = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\n",
            request.method, request.target, request.host, request.user_agent
        );
        for (name, value) in &request.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let exchange = async {
            self.stream.write_all(text.as_bytes()).await?;
            self.answer(request.method == "HEAD").await
        };
        tokio::time::timeout(Duration::from_secs(20), exchange).await.context("no answer in time")?
    }

    async fn answer(&mut self, is_head: bool) -> Result<Answer> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.fill().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status line")?;
        let length = header(&head, "content-length").and_then(|text| text.parse::<usize>().ok());
        let chunked = header(&head, "transfer-encoding").is_some_and(|text| text.eq_ignore_ascii_case("chunked"));
        let body = match (is_head, length) {
            (true, _) => 0,
            (false, Some(length)) => length,
            (false, None) if chunked => {
                while find(&self.buffer[end..], b"0\r\n\r\n").is_none() {
                    self.fill().await?;
                }
                find(&self.buffer[end..], b"0\r\n\r\n").map_or(0, |at| at + 5)
            }
            (false, None) => 0,
        };
        while self.buffer.len() < end + body {
            self.fill().await?;
        }
        self.buffer.drain(..end + body);
        Ok(Answer { status, head })
    }

    async fn fill(&mut self) -> Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("connection ended");
        }
        Ok(())
    }
}

/// A header's value.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
