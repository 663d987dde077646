//! For long more clicks than the processor can bring in: how old the oldest gets, and what becomes of each link.
//!
//! The lake is a store that takes in only so many bytes a second, so that what can be done follows from the store and not from
//! the machine. What can be done is measured first, without sampling; of what is offered then, `billed`
//! links are half of that: all of them are to be brought in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ingest::ports::Registry as _;
use redirect::links::{Domains, LinkStore};
use schemas::UtcMicros;
use tests::load::{Connection, Request};
use tests::node::Node;
use tests::s3::S3;

use crate::{Setup, table::Table};

/// What the store takes in of an object, in a second.
const BYTES: f64 = 100_000.0;
/// The lag that is promised. Sampling begins at a part of it, and the second that has begun by then stays whole: what that
/// takes to be brought in, so many times too much as is offered, must go into the rest.
const LIMIT: Duration = Duration::from_secs(30);
/// So many times what can be done is offered.
const TIMES: f64 = 4.0;
/// Of so many clicks in turn, those that are of each heavy link.
const TURN: [(&str, &str, u64); 3] = [("paid", "billed", 2), ("viral", "internal", 9), ("hot", "internal", 5)];
/// Links of which a click comes now and then.
const LIGHT: [&str; 3] = ["light0", "light1", "light2"];
/// Clicks that what can be done is measured with, and how fast they are sent.
const MEASURED: u64 = 30_000;
const FAST: f64 = 5_000.0;
const SENDERS: u64 = 8;
/// The longest that clicks may take that are not in the lake yet.
const PATIENCE: Duration = Duration::from_secs(180);
/// An estimate may be so many standard deviations off before it is wrong.
const OFF: f64 = 5.0;

type Answered = BTreeMap<&'static str, u64>;

/// Redirect and processor over a slow store.
struct Pair {
    redirect: Node,
    process: Node,
    links: LinkStore,
    _store: S3,
}

impl Pair {
    async fn new(setup: &Setup, limit: Duration) -> Result<Self> {
        let store = S3::narrow(&["data"], BYTES).await?;
        let settings = format!(
            "[process]\nlag_limit = \"{}s\"\nbuffer_bytes = \"4MiB\"\ncommit_after = \"100ms\"\n",
            limit.as_secs()
        );
        let node = || -> Result<Node> {
            let node = Node::new(&setup.binary, "domains = [\"go.test\"]\nworkers = 1", &settings)?;
            let lake = vec![("HIGHWATER_LAKE", "s3://data/lake".to_owned())];
            Ok(node.with_environment(store.environment()).with_environment(lake))
        };
        let redirect = node()?;
        let process = node()?.sharing_data_of(&redirect);
        let links = TURN.map(|(code, analytics, _)| (code, analytics)).into_iter();
        for (code, analytics) in links.chain(LIGHT.map(|code| (code, "internal"))) {
            redirect.ok(&["link", "add", "https://example.com/", "--code", code, "--analytics", analytics])?;
        }
        let file = redirect.data().join("links.sqlite").display().to_string();
        let links = LinkStore::open(&file, Domains::new(&["go.test"])?).await?;
        Ok(Self { redirect, process, links, _store: store })
    }

    /// How old the oldest click is that isn't in the lake, as is published; the oldest that is waiting for a commit.
    async fn lag(&self) -> Result<(Duration, Duration)> {
        let now = UtcMicros::now();
        let complete = self.links.complete_through(now).await?;
        let text = self.process.metrics().await?;
        let told = text.lines().find_map(|line| line.strip_prefix("highwater_stream_lag_seconds "));
        let told = told.and_then(|seconds| seconds.parse().ok()).context("no lag is told")?;
        Ok((now.since(complete), Duration::from_secs_f64(told)))
    }

    /// Waits until the lake holds all clicks that were answered, but those that were sampled away.
    async fn until_landed(&self, answered: u64) -> Result<()> {
        let (begin, mut landed) = (Instant::now(), 0);
        while landed < answered {
            ensure!(begin.elapsed() < PATIENCE, "{landed} of {answered} have landed\n{}", self.process.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
            landed = 0;
            for name in ["highwater_clicks_committed_total", "highwater_sampled_away_total"] {
                landed += self.process.metric(name, &[]).await?;
            }
        }
        Ok(())
    }

    async fn stop(&mut self) -> Result<()> {
        self.redirect.stop().await?;
        self.process.stop().await
    }
}

/// Measures what can be done, then offers so many times that for `lasts`.
pub(crate) async fn run(setup: &Setup, lasts: Duration, table: &mut Table) -> Result<()> {
    let capacity = capacity(setup).await.context("measuring what can be done")?;
    let mut pair = Pair::new(setup, LIMIT).await?;
    pair.redirect.start_with(&["redirect"]).await?;
    pair.process.start_with(&["process"]).await?;
    let clicks = Load::start(pair.redirect.redirect, capacity * TIMES, u64::MAX);
    let (begin, mut most, mut most_told, mut lowest) = (Instant::now(), Duration::ZERO, Duration::ZERO, 1.0f64);
    while begin.elapsed() < lasts {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (lag, told) = pair.lag().await?;
        (most, most_told) = (most.max(lag), most_told.max(told));
        let text = pair.process.metrics().await?;
        let rate = text.lines().find_map(|line| line.strip_prefix("highwater_sampling_rate ")?.parse().ok());
        lowest = lowest.min(rate.unwrap_or(1.0));
    }
    let answered = clicks.end().await?;
    let all: u64 = answered.values().sum();
    pair.until_landed(all).await?;
    let offered = all as f64 / lasts.as_secs_f64();
    let what = format!("{:.1} times what can be done ({capacity:.0}/s), for {} s", offered / capacity, lasts.as_secs());
    let lag = format!("lag at most {:.1} s, {:.1} s as told", most.as_secs_f64(), most_told.as_secs_f64());
    let bar = format!("lag < {} s{}", LIMIT.as_secs(), if most < LIMIT { ": met" } else { ": MISSED" });
    table.row(&what, &lag, &format!("{all} clicks, kept at {lowest:.3} at least"), "", &bar);
    if most >= LIMIT {
        eprintln!("{}", pair.process.log());
    }
    for (code, truth) in answered {
        judge(&pair.redirect, code, truth, table)?;
    }
    pair.stop().await?;
    pair.redirect.ok(&["verify"]).map(drop)
}

/// Clicks a second that the processor brings in when nothing is sampled.
async fn capacity(setup: &Setup) -> Result<f64> {
    let mut pair = Pair::new(setup, Duration::from_secs(3_600)).await?;
    pair.redirect.start_with(&["redirect"]).await?;
    let clicks = Load::start(pair.redirect.redirect, FAST, MEASURED);
    let all = clicks.wait().await?.values().sum();
    pair.process.start_with(&["process"]).await?;
    let committed = async || pair.process.metric("highwater_clicks_committed_total", &[]).await;
    let mut first = committed().await?;
    while first == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        first = committed().await?;
    }
    let begin = Instant::now();
    pair.until_landed(all).await?;
    let capacity = (all - first) as f64 / begin.elapsed().as_secs_f64();
    pair.stop().await?;
    Ok(capacity)
}

/// Compares what the lake says of a link with how many clicks were answered.
fn judge(node: &Node, code: &str, truth: u64, table: &mut Table) -> Result<()> {
    let sql = format!(
        "SELECT count(*) AS n, sum(weight) AS w, sum(weight * (weight - 1)) AS v FROM clicks WHERE code = '{code}'"
    );
    let rows = node.json(&["sql", &sql, "--format", "json"])?;
    let number = |name: &str| rows[0][name].as_f64().unwrap_or_default();
    let (kept, weight, deviation) = (number("n"), number("w"), number("v").sqrt());
    let report = node.json(&["report", code, "--class", "all", "--json"])?;
    let bound = |name: &str| report["totals"][name].as_f64().context("no report");
    let (low, high) = (bound("clicks_low")?, bound("clicks_high")?);
    let truth = truth as f64;
    let is_exact = TURN.iter().all(|(of, analytics, _)| *of != code || *analytics == "billed");
    if is_exact {
        ensure!(
            (kept, weight, low, high) == (truth, truth, truth, truth),
            "{code}: {truth} answered, {rows}, {report:#}"
        );
        table.row(&format!("  {code}: {truth} answered"), "each a row that weighs one", "", "", "exact");
        return Ok(());
    }
    ensure!((weight - truth).abs() <= OFF * deviation.max(1.0), "{code}: {truth} answered, {rows}");
    let ours = format!("{weight:.0} by {kept} rows, within {low}..{high}");
    let bar = if (low..=high).contains(&truth) { "in its interval (95 %)" } else { "95 %: this is of the other 5" };
    table.row(&format!("  {code}: {truth} answered"), &ours, "", "", bar);
    Ok(())
}

/// Clicks of all links under way.
struct Load {
    stop: Arc<AtomicBool>,
    senders: Vec<tokio::task::JoinHandle<Result<Answered>>>,
}

impl Load {
    /// About `rate` clicks a second, and no more than `most`.
    fn start(port: u16, rate: f64, most: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let send = |number| tokio::spawn(send(port, number, rate / SENDERS as f64, most / SENDERS, Arc::clone(&stop)));
        Self { senders: (0..SENDERS).map(send).collect(), stop }
    }

    /// Waits until all have been sent.
    async fn wait(self) -> Result<Answered> {
        let mut all = Answered::new();
        for sender in self.senders {
            for (code, clicks) in sender.await?? {
                *all.entry(code).or_default() += clicks;
            }
        }
        Ok(all)
    }

    /// Sends no more.
    async fn end(self) -> Result<Answered> {
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
