//! `up --demo`: sample links, and visitors who come through the real redirect listener.

mod visitors;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use rand::SeedableRng;
use rand::rngs::StdRng;
use reqwest::redirect::Policy;
use reqwest::{Client, Method};
use tokio_util::sync::CancellationToken;

use crate::config::Config;

pub(crate) use visitors::LINKS;

/// The demo wakes up so often to send what is due.
const TICK: Duration = Duration::from_millis(100);
/// A visit that takes longer is given up.
const DEADLINE: Duration = Duration::from_secs(2);

/// The header in which visitors' countries come, where no edge brings one.
const COUNTRY_HEADER: &str = "x-demo-country";

/// The configuration, with the header that tells visitors' countries if none is configured.
pub(crate) fn configured(mut config: Config) -> Config {
    if config.edge.provider == "none" && config.edge.country_header.is_empty() {
        COUNTRY_HEADER.clone_into(&mut config.edge.country_header);
    }
    config
}

/// Plays visitors of `domain` against the listener at `to` until `stop`.
///
/// # Errors
/// When no HTTP client can be made.
pub(crate) async fn play(to: SocketAddr, domain: String, stop: CancellationToken) -> anyhow::Result<()> {
    let client = Client::builder().redirect(Policy::none()).timeout(DEADLINE).build().context("making a client")?;
    let mut chance = StdRng::from_os_rng();
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let (mut due_calm, mut due_hot) = (0.0, 0.0);
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = ticks.tick() => {}
        }
        let (calm, hot) = visitors::rate(begin.elapsed().as_secs_f64());
        due_calm += calm * TICK.as_secs_f64();
        due_hot += hot * TICK.as_secs_f64();
        while due_calm >= 1.0 {
            due_calm -= 1.0;
            send(&client, to, &domain, visitors::visit(&mut chance, false)).await;
        }
        while due_hot >= 1.0 {
            due_hot -= 1.0;
            send(&client, to, &domain, visitors::visit(&mut chance, true)).await;
        }
    }
}

/// One visit; whether it is answered is the listener's business.
async fn send(client: &Client, to: SocketAddr, domain: &str, visit: visitors::Visit) {
    let query = if visit.query.is_empty() { String::new() } else { format!("?{}", visit.query) };
    let method = if visit.head { Method::HEAD } else { Method::GET };
    let mut request = client
        .request(method, format!("http://{to}/{}{query}", visit.code))
        .header("host", domain)
        .header(COUNTRY_HEADER, visit.country())
        .header("x-forwarded-for", visit.address)
        .header("user-agent", visit.user_agent);
    if !visit.referrer.is_empty() {
        request = request.header("referer", visit.referrer);
    }
    if !visit.language.is_empty() {
        request = request.header("accept-language", visit.language);
    }
    if let Err(error) = request.send().await {
        tracing::debug!(%error, "a demo visit failed");
    }
}
