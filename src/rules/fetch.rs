//! A published list's text: from a file, standard input, or over HTTPS.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reqwest::redirect::Policy;

/// The largest list, in bytes: what the largest cloud publishes, several times over.
const MOST_BYTES: u64 = 32 << 20;
/// What packed files begin with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// All of a fetch.
const DEADLINE: Duration = Duration::from_secs(60);
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
const MOST_REDIRECTS: usize = 5;

/// Reads a list; `-` is standard input.
///
/// # Errors
/// Names the source, and why nothing came of it.
pub(crate) async fn fetch(source: &str) -> anyhow::Result<String> {
    let bytes = if source.contains("://") { over_http(source).await } else { read(source) };
    let bytes = bytes.with_context(|| source.to_owned())?;
    ensure!(
        !bytes.starts_with(&GZIP),
        "{source}: it is packed (gzip), expected text: `zcat FILE | highwater networks update - …` takes it in"
    );
    String::from_utf8(bytes).with_context(|| source.to_owned())
}

fn read(source: &str) -> anyhow::Result<Vec<u8>> {
    let input: Box<dyn Read> = if source == "-" { Box::new(io::stdin().lock()) } else { Box::new(File::open(source)?) };
    let mut bytes = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= MOST_BYTES, "more than {MOST_BYTES} bytes are too many for a list");
    Ok(bytes)
}

/// A list that anybody on the way could change is none: only a test's own machine is asked without encryption.
fn is_safe(url: &reqwest::Url) -> bool {
    let is_here = url.host_str().is_some_and(|host| host == "127.0.0.1" || host == "localhost" || host == "[::1]");
    url.scheme() == "https" || (url.scheme() == "http" && is_here)
}

async fn over_http(source: &str) -> anyhow::Result<Vec<u8>> {
    let url: reqwest::Url = source.parse().context("no URL")?;
    ensure!(is_safe(&url), "expected an https URL, a file, or - for standard input");
    let redirects = Policy::custom(|attempt| {
        if attempt.previous().len() > MOST_REDIRECTS {
            attempt.error("too many redirects")
        } else if is_safe(attempt.url()) {
            attempt.follow()
        } else {
            attempt.error("it redirects to where nothing is encrypted")
        }
    });
    let client = reqwest::Client::builder()
        .redirect(redirects)
        .timeout(DEADLINE)
        .connect_timeout(CONNECT_DEADLINE)
        .user_agent(concat!("highwater/", env!("CARGO_PKG_VERSION")))
        .build()?;
    let mut answer = client.get(url).send().await?;
    if !answer.status().is_success() {
        bail!("it answers {}", answer.status());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        bytes.extend_from_slice(&chunk);
        ensure!(bytes.len() as u64 <= MOST_BYTES, "more than {MOST_BYTES} bytes are too many for a list");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one request.
    async fn serving(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1_024];
            let _head = stream.read(&mut request).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        format!("http://{address}/list.txt")
    }

    async fn said(source: &str) -> String {
        crate::explain(&fetch(source).await.unwrap_err())
    }

    #[tokio::test]
    async fn a_list_is_fetched_or_it_is_said_why_not() {
        let url = serving("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n192.0.2.0/24\n").await;
        assert_eq!(fetch(&url).await.unwrap(), "192.0.2.0/24\n");
        let url = serving("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
        assert!(said(&url).await.contains("it answers 404"), "{url}");
        let url = serving("HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n").await;
        assert!(said(&url).await.contains("nothing is encrypted"));
        let url = serving("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\u{0}").await;
        assert!(fetch(&url).await.is_err(), "cut short");
        assert!(said("http://192.0.2.1/list").await.contains("expected an https URL"));
        assert!(said("ftp://192.0.2.1/list").await.contains("expected an https URL"));
        assert!(said("/nowhere/list.txt").await.contains("/nowhere/list.txt"));
        let packed = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(packed.path(), [0x1f, 0x8b, 8, 0]).unwrap();
        assert!(said(packed.path().to_str().unwrap()).await.contains("packed (gzip)"));
    }
}
