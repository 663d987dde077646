//! A redirector that isn't ours: it answers behind an edge, keeps its own record of clicks, and knows nothing of us.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running redirector; it ends when dropped.
#[derive(Debug)]
pub struct Redirector {
    /// The port that it listens on.
    pub port: u16,
    events: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Redirector {
    /// Starts answering each path with a redirect; those whose path ends in an odd digit the edge may keep for a second.
    ///
    /// # Errors
    /// When no port can be listened on.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let recorded = Arc::clone(&events);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let recorded = Arc::clone(&recorded);
                // how a peer leaves is its own business
                tokio::spawn(async move { drop(serve(stream, &recorded).await) });
            }
        });
        Ok(Self { port, events, task })
    }

    /// The clicks that it has answered so far, as lines for `POST /v1/events`.
    pub fn events(&self) -> Vec<Value> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Redirector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, recorded: &Mutex<Vec<Value>>) -> Result<()> {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        buffer.drain(..end);
        let event = event(&head);
        let code = event["code"].as_str().unwrap_or_default();
        let is_kept = code.bytes().last().is_some_and(|last| last % 2 == 1);
        let cache = if is_kept { "max-age=0, s-maxage=1" } else { "private, max-age=0" };
        recorded.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        let answer = format!(
            "HTTP/1.1 302 Found\r\nLocation: https://example.com/\r\nCache-Control: {cache}\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await?;
    }
}

/// What it keeps of a request.
fn event(head: &str) -> Value {
    let mut first = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| {
        let mut headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    json!({
        "code": path.trim_matches('/'), "time": millis, "domain": header("host"), "request_id": header("x-request-id"),
        "method": method, "ip": header("x-forwarded-for"), "user_agent": header("user-agent"), "query": query,
    })
}
