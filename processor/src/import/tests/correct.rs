//! Lines that know better than the events of their requests, and lines that don't fit them.

use schemas::{Class, Click, ClickBuilder, ClickId, ClickRows, Source};

use super::*;
use crate::hot::testing::click;
use crate::lake::Change;

const CHROME: &str = "Mozilla/5.0%20(Windows%20NT%2010.0;%20Win64;%20x64)%20AppleWebKit/537.36%20(KHTML,%20like%20Gecko)%20Chrome/126.0.0.0%20Safari/537.36";
const SLACK: &str = "Slackbot-LinkExpanding%201.0%20(+https://api.slack.com/robots)";
const FIELDS: &str = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem \
                      sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type \
                      x-edge-request-id x-host-header\n";

/// Two hours ago, at a whole second.
fn then() -> UtcMicros {
    UtcMicros((UtcMicros::now().0 / SECOND - 7_200) * SECOND)
}

fn bench_behind(provider: &str) -> Bench {
    let now = UtcMicros::now();
    let journals = Journals::open(now.minus(Duration::from_secs(9_000_000)), now);
    bench_with(journals, ImportConfig { edge: behind(provider), ..ImportConfig::default() })
}

impl Bench {
    /// Rows of our own events.
    async fn appended(&self, rows: &[Click]) {
        let mut builder = ClickBuilder::new();
        rows.iter().for_each(|row| builder.push(row));
        let mut clicks = self.lake.table(Table::Clicks).await.unwrap();
        let add = clicks.write(&builder.finish().unwrap()).await.unwrap();
        clicks.commit(Change { add, ..Change::default() }).await.unwrap();
    }

    async fn clicks(&self) -> Vec<Click> {
        let mut found = Vec::new();
        for batch in self.batches(Table::Clicks, &[]).await {
            let rows = ClickRows::of(&batch).unwrap();
            found.extend((0..batch.num_rows()).map(|row| rows.row(row).unwrap()));
        }
        found.sort_by_key(|click| (click.event_time, click.click_id));
        found
    }
}

/// A CloudFront line of the request `number`, which was answered that many seconds later.
fn cloudfront(number: i64, method: &str, user_agent: &str, referrer: &str, result: &str) -> String {
    let time = UtcMicros(then().0 + number * SECOND).to_datetime();
    format!(
        "{}\tFRA56-P4\t512\t203.0.113.10\t{method}\td1.cloudfront.net\t/k\t302\t{referrer}\t{user_agent}\tutm_source=post\
         \t-\t{result}\tid{number}==\tgo.example.com\n",
        time.format("%Y-%m-%d\t%H:%M:%S"),
    )
}

/// The origin's event of the same request, from behind a CloudFront that forwards neither agent, referrer nor query.
fn hidden(number: i64) -> Click {
    let id = ClickId::from_edge("cloudfront", format!("id{number}==").as_bytes(), "k");
    let plain = Click {
        workspace: "w".into(),
        code: "k".into(),
        user_agent: Some("Amazon CloudFront".into()),
        client_net: Some("203.0.113.0/24".into()),
        ..click(id.as_u128(), then().0 + number * SECOND)
    };
    enricher().merged(&plain, &plain).unwrap()
}

#[tokio::test]
async fn what_cloudfront_hides_from_the_origin_its_log_tells() {
    let bench = bench_behind("cloudfront");
    bench.appended(&[hidden(1), hidden(2), hidden(3), hidden(9)]).await;
    let log = [
        FIELDS.to_owned(),
        cloudfront(1, "GET", CHROME, "https://news.example.org/post?id=7", "Miss"),
        cloudfront(2, "HEAD", CHROME, "-", "Miss"),
        cloudfront(3, "GET", SLACK, "-", "Miss"),
        cloudfront(4, "GET", CHROME, "-", "Hit"),
        cloudfront(5, "GET", "-", "-", "Hit"),
    ]
    .concat();
    let summary = bench.import(&log).await;
    assert_eq!((summary.added, summary.already_counted), (Added { edge: 2, ..Added::default() }, 3));
    assert_eq!((summary.waiting, summary.checks), (0, None), "{summary:?}");
    let before = bench.clicks().await;
    assert!(before.iter().filter(|row| row.source == Source::Origin).all(|row| row.verdict.class == Class::Monitor));
    assert_eq!(bench.importer.correct().await.unwrap().corrected, 3);

    let all = bench.clicks().await;
    let said: Vec<_> =
        all.iter().map(|row| (row.source, row.verdict.class, row.agent_info.browser.as_deref())).collect();
    use Source::{Edge, Origin};
    assert_eq!(
        said,
        [
            (Origin, Class::Human, Some("Chrome")),
            (Origin, Class::Probe, Some("Chrome")),
            (Origin, Class::Preview, said[2].2),
            (Edge, Class::Human, Some("Chrome")),
            (Edge, Class::Unknown, None),
            (Origin, Class::Monitor, said[5].2),
        ]
    );
    assert_eq!(all[0].referrer.as_deref(), Some("news.example.org"));
    assert_eq!((all[0].utm.source.as_deref(), all[0].import_id.as_deref()), (Some("post"), None));
    assert!(all[0].visitor.is_some() && all[0].visitor == all[1].visitor, "the same person, by the line's agent");
    assert_eq!(bench.count(Table::Arrivals).await, 0);
    let again = bench.import(&[&log, "\n"].concat()).await;
    assert_eq!((again.added, again.already_counted), (Added::default(), 5));
    assert_eq!(bench.importer.correct().await.unwrap().corrected, 0);
    assert_eq!(bench.clicks().await, all);
}

/// Killed at any write of it, an import that is repeated leaves the rows corrected once.
#[tokio::test]
async fn killed_while_corrections_come_in_a_repeat_comes_to_the_same() {
    let log = [FIELDS.to_owned(), cloudfront(1, "GET", CHROME, "-", "Miss"), cloudfront(2, "GET", CHROME, "-", "Hit")]
        .concat();
    for pattern in ["arrivals/_delta_log", "clicks/_delta_log", "edge_files/_delta_log"] {
        for fault in [Fault::Before, Fault::After] {
            let bench = bench_behind("cloudfront");
            bench.appended(&[hidden(1)]).await;
            for table in Table::ALL {
                bench.lake.table(*table).await.unwrap();
            }
            bench.store.arm(pattern, 1, fault.clone());
            // it may fail, or notice that all went well
            let _ = bench.import_with(&log, ImportOptions::default()).await;
            assert!(bench.store.is_spent(), "{pattern} {fault:?}");
            let summary = bench.import(&log).await;
            assert_eq!(summary.added.edge + summary.already_counted, 2);
            bench.importer.correct().await.unwrap();
            let classes: Vec<Class> = bench.clicks().await.iter().map(|row| row.verdict.class).collect();
            assert_eq!(classes, [Class::Human, Class::Human], "{pattern} {fault:?}");
            assert_eq!(bench.count(Table::Arrivals).await, 0);
        }
    }
}

#[tokio::test]
async fn lines_that_do_not_fit_our_events_are_told_whenever_the_file_is_asked_for() {
    let bench = bench_behind("nginx");
    let at = |number: u64| UtcMicros(then().0 + number as i64 * SECOND);
    let event = |number: u64| Click {
        workspace: "w".into(),
        client_net: (number >= 98).then(|| "198.51.100.0/24".into()),
        ..click(ClickId::from_edge("nginx", format!("{number:032x}").as_bytes(), "k").as_u128(), at(number).0)
    };
    bench.appended(&(0..100).map(event).collect::<Vec<_>>()).await;
    let log: String =
        (0..110).map(|number| line_at(number, at(number), if number < 5 { "HIT" } else { "MISS" }, "k")).collect();
    let told = Some(Checks { lost: 10, surprise: 5, reused_id: 2 });
    let summary = bench.import(&log).await;
    assert_eq!((summary.added.recovered, summary.already_counted, summary.checks), (10, 100, told));
    assert_eq!(bench.import(&log).await.checks, told);
    assert_eq!(stored(&bench.lake, Some(&summary.id)).await.unwrap()[0].summary.checks, told);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["checks"], serde_json::json!({"lost": 10, "surprise": 5, "reused_id": 2}));
    assert!(json.get("noted").is_none());
    assert_eq!(bench.importer.correct().await.unwrap().corrected, 98, "an id used twice corrects nothing");

    // where no event of our own can be, none is lost
    let elsewhere = bench_behind("fastly");
    assert_eq!(elsewhere.import(&log).await.checks, None);
}

/// What the settler finds out about lines that waited is told too.
#[tokio::test]
async fn an_event_that_comes_after_its_edge_line_is_a_surprise_of_that_lines_file() {
    let now = UtcMicros::now();
    let bench = bench_behind("nginx");
    bench.journals.set(UtcMicros(0), now.minus(Duration::from_secs(7_300)));
    let time = then();
    let log: String = (0..3).map(|number| line_at(number, time, "HIT", "k")).collect();
    let summary = bench.import(&log).await;
    assert_eq!((summary.waiting, summary.checks), (3, None));
    let id = ClickId::from_edge("nginx", format!("{:032x}", 1).as_bytes(), "k");
    bench.appended(&[Click { workspace: "w".into(), ..click(id.as_u128(), time.0) }]).await;
    bench.journals.set(UtcMicros(0), now);
    let told = Some(Checks { surprise: 1, ..Checks::default() });
    let again = bench.import(&log).await;
    assert_eq!((again.waiting, again.already_counted, again.checks), (0, 3, told));
    assert_eq!(stored(&bench.lake, Some(&summary.id)).await.unwrap()[0].summary.checks, told);
}
