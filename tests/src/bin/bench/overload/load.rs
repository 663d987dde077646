//! Clicks of all links, at a rate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tests::load::{Connection, Request};

/// Of so many clicks in turn, those that are of each heavy link.
pub(super) const TURN: [(&str, &str, u64); 3] =
    [("paid", "billed", 2), ("viral", "internal", 9), ("hot", "internal", 5)];
/// Links of which a click comes now and then.
pub(super) const LIGHT: [&str; 3] = ["light0", "light1", "light2"];
const SENDERS: u64 = 8;

/// Clicks answered of each link.
pub(super) type Answered = BTreeMap<&'static str, u64>;

/// Clicks of all links under way.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    senders: Vec<tokio::task::JoinHandle<Result<Answered>>>,
}

impl Load {
    /// About `rate` clicks a second, and no more than `most`.
    pub(super) fn start(port: u16, rate: f64, most: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let send = |number| tokio::spawn(send(port, number, rate / SENDERS as f64, most / SENDERS, Arc::clone(&stop)));
        Self { senders: (0..SENDERS).map(send).collect(), stop }
    }

    /// Waits until all have been sent.
    pub(super) async fn wait(self) -> Result<Answered> {
        let mut all = Answered::new();
        for sender in self.senders {
            for (code, clicks) in sender.await?? {
                *all.entry(code).or_default() += clicks;
            }
        }
        Ok(all)
    }

    /// Sends no more.
    pub(super) async fn end(self) -> Result<Answered> {
        self.stop.store(true, Ordering::Relaxed);
        self.wait().await
    }
}

async fn send(port: u16, sender: u64, rate: f64, most: u64, stop: Arc<AtomicBool>) -> Result<Answered> {
    let mut connection = Connection::open(port).await?;
    let (mut answered, begin, mut n) = (Answered::new(), Instant::now(), 0);
    let turn: u64 = TURN.iter().map(|(_, _, clicks)| clicks).sum();
    while n < most && !stop.load(Ordering::Relaxed) {
        tokio::time::sleep_until((begin + Duration::from_secs_f64(n as f64 / rate)).into()).await;
        let mut place = n % turn;
        let heavy = TURN.iter().find(|(_, _, clicks)| {
            let is_here = place < *clicks;
            place = place.saturating_sub(*clicks);
            is_here
        });
        let mut code = heavy.map_or("paid", |(code, _, _)| code);
        // one of each light link every two seconds or so
        if let Some(light) = LIGHT.get(sender as usize)
            && n % (2.0 * rate) as u64 == 0
        {
            code = light;
        }
        let request = Request {
            method: "GET",
            target: format!("/{code}"),
            host: "go.test".into(),
            user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0".into(),
            headers: vec![
                ("X-Forwarded-For", format!("203.0.113.{}", n % 250 + 1)),
                ("Referer", format!("https://example{}.net/", n % 50)),
            ],
        };
        ensure!(connection.send(&request).await?.status == 302, "{code} is no redirect");
        *answered.entry(code).or_default() += 1;
        n += 1;
    }
    Ok(answered)
}
