//! A client that sends what it is told, byte for byte.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a test waits before it calls something hung.
const HUNG: Duration = Duration::from_secs(20);

pub(super) struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() }
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Says that nothing more will be sent.
    pub(super) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    pub(super) async fn ask(&mut self, head: &str) -> Reply {
        self.send(format!("{head}\r\n")).await;
        self.reply(head.starts_with("HEAD ")).await
    }

    /// The next answer; one to a `HEAD` has no body.
    pub(super) async fn reply(&mut self, to_head: bool) -> Reply {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await, "closed within a head: {:?}", String::from_utf8_lossy(&self.read));
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut reply = Reply { status, headers: lines.filter_map(header).collect(), body: String::new() };
        let length: usize = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
        if !to_head {
            while self.read.len() < length {
                assert!(self.more().await, "closed within a body");
            }
            reply.body = String::from_utf8(self.read.drain(..length).collect()).unwrap();
        }
        reply
    }

    /// Waits until the other side closes; returns what it said before.
    pub(super) async fn closed(mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Whether more has come; not when the other side has closed.
    async fn more(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match timeout(HUNG, self.stream.read(&mut bytes)).await.expect("the listener hangs") {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.read.extend_from_slice(&bytes[..read]);
                true
            }
        }
    }
}

impl Reply {
    /// A header's value; panics when it comes twice.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} comes twice");
        value
    }

    /// The names of all headers.
    pub(super) fn names(&self) -> Vec<&str> {
        self.headers.iter().map(|(name, _)| name.as_str()).collect()
    }
}
