//! Behaviour on tables in memory: what is moved and what isn't, beside merges, told, looked at in parts, and judged again.

use std::sync::Arc;
use std::time::Duration;

use schemas::tables::Table;
use schemas::{Class, Click, ClickBuilder, ClickRows, LinkId, Source};
use uuid::Uuid;

use super::super::tests::{append_rows, at, memory, restated};
use super::*;
use crate::hot::testing::click;
use crate::import::testing::{Journals, enricher};
use crate::lake::Lake;
use crate::settle::{BehaviourConfig, SettleConfig};

const MANY: usize = 5;

/// A person's click, as far as it tells by itself.
fn visit(id: u128, seconds: i64, visitor: i64, link: u128) -> Click {
    let verdict =
        enricher().classifier().agent("Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0");
    Click {
        source: Source::Origin,
        link_id: Some(LinkId(Uuid::from_u128(link))),
        code: format!("of-{link}-").into(),
        client_net: Some("8.8.4.0/24".into()),
        visitor: Some(visitor),
        verdict,
        ..click(id, at(seconds).0)
    }
}

/// One visitor on [`MANY`] links, each a second later, with ids from `first` on.
fn scan(first: u128, seconds: i64) -> Vec<Click> {
    (0..MANY as u128).map(|n| visit(first + n, seconds + n as i64, 7, n)).collect()
}

async fn put(lake: &Lake, clicks: &[Click]) {
    let mut builder = ClickBuilder::new();
    clicks.iter().for_each(|click| builder.push(click));
    append_rows(lake, &builder.finish().unwrap()).await;
}

/// Reasons by id.
async fn reasons(lake: &Lake) -> Vec<(u128, String)> {
    let clicks = lake.table(Table::Clicks).await.unwrap();
    let mut found = Vec::new();
    for file in clicks.files() {
        for batch in clicks.read(file, &[]).await.unwrap() {
            let rows = ClickRows::of(&batch).unwrap();
            for row in (0..batch.num_rows()).map(|row| rows.row(row).unwrap()) {
                assert_eq!(row.verdict.class == Class::Human, row.verdict.reason.starts_with("person"));
                found.push((row.click_id.as_u128(), row.verdict.reason.to_string()));
            }
        }
    }
    found.sort();
    found
}

async fn moved(lake: &Lake) -> Vec<u128> {
    reasons(lake).await.into_iter().filter(|(_, reason)| reason == "behaviour/many-links").map(|(id, _)| id).collect()
}

async fn settler_with(lake: &Lake, journals: &Arc<Journals>) -> Settler {
    let behaviour = BehaviourConfig { many_links: MANY, ..BehaviourConfig::default() };
    let config = SettleConfig { behaviour, ..SettleConfig::default() };
    Settler::new(lake, Arc::clone(journals) as _, enricher(), config).await.unwrap()
}

#[tokio::test]
async fn who_opens_many_links_leaves_the_people_and_nobody_else_does() {
    let (lake, _) = memory();
    let mut others: Vec<Click> = (100..110).map(|n| visit(n, n as i64 - 100, 8, n % 3)).collect();
    // of a log, behind a proxy, of nobody known, and in an app's browser
    others.extend((0..MANY as u128).map(|n| Click { source: Source::Edge, ..visit(200 + n, 1, 9, n) }));
    others.extend(
        (0..MANY as u128).map(|n| Click { client_net: Some("10.0.0.0/24".into()), ..visit(300 + n, 1, 10, n) }),
    );
    others.extend((0..MANY as u128).map(|n| Click { visitor: None, ..visit(400 + n, 1, 0, n) }));
    let app = |row: Click| {
        let agent = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/22B1 Instagram 350.0.0.1";
        Click { verdict: enricher().classifier().agent(agent), ..row }
    };
    others.extend((0..MANY as u128).map(|n| app(visit(500 + n, 1, 11, n))));
    put(&lake, &others).await;
    put(&lake, &scan(1, 0)).await;
    let journals = Arc::new(Journals::default());
    let mut settler = settler_with(&lake, &journals).await;
    let settled = settler.pass_at(at(30)).await.unwrap();
    assert_eq!(settled.moved, MANY as u64);
    assert_eq!(moved(&lake).await, [1, 2, 3, 4, 5]);
    assert_eq!(reasons(&lake).await.len(), others.len() + MANY);
    // a sixth link, as soon as it is time to look again: those that are moved still show what it is
    put(&lake, &[visit(6, 9, 7, 50), visit(7, 45, 7, 51)]).await;
    assert_eq!(settler.pass_at(at(31)).await.unwrap().moved, 0);
    assert_eq!(settler.pass_at(at(50)).await.unwrap().moved, 0, "what comes late into a stretch that is over");
    let mut another = settler_with(&lake, &journals).await;
    assert_eq!(another.pass_at(at(60)).await.unwrap().moved, 1, "a start looks back");
    assert_eq!(moved(&lake).await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(another.pass_at(at(90)).await.unwrap().moved, 0);
}

#[tokio::test]
async fn it_is_told_when_it_was_final_and_left_when_its_hour_is() {
    let (lake, _) = memory();
    put(&lake, &scan(1, -30)).await; // across nothing: the hour before ten
    put(&lake, &scan(11, 5)).await;
    let journals = Arc::new(Journals::default());
    journals.set_final(at(20));
    let mut settler = settler_with(&lake, &journals).await;
    assert_eq!(settler.pass_at(at(60)).await.unwrap().moved, MANY as u64);
    assert_eq!(moved(&lake).await, [11, 12, 13, 14, 15]);
    let told = restated(&lake).await;
    assert!(told.iter().any(|row| format!("{row:?}").contains("behaviour")), "{told:?}");
}

#[tokio::test]
async fn more_visitors_than_memory_holds_are_looked_at_in_parts() {
    let (lake, _) = memory();
    let mut all = scan(1, 0);
    all.extend((0..40u128).map(|n| visit(100 + n, 1, 1_000 + n as i64, n)));
    put(&lake, &all).await;
    let clicks = lake.table(Table::Clicks).await.unwrap();
    let times = at(-60)..at(60);
    let counts = read::counts(&clicks, &times).await.unwrap();
    let everybody = Wanted { times, often: Some((&counts, 1)), hosted: false };
    let all = read::rows(&clicks, &everybody, Share { number: 0, of: 1 }, 20, |_| Sort::Ordinary).await.unwrap();
    assert!(all.is_none(), "more than 20");
    let mut parts = Vec::new();
    for number in 0..4 {
        let rows =
            read::rows(&clicks, &everybody, Share { number, of: 4 }, 20, |_| Sort::Ordinary).await.unwrap().unwrap();
        parts.extend(rows.iter().map(|row| row.id.as_u128()));
    }
    parts.sort_unstable();
    assert_eq!(parts, (1..6).chain(100..140).collect::<Vec<u128>>(), "each in one part");
    let ids =
        |rows: Vec<read::Row>| rows.iter().map(|row| row.id.as_u128()).collect::<std::collections::BTreeSet<u128>>();
    let (whole, often) = (Share { number: 0, of: 1 }, Wanted { often: Some((&counts, 3)), ..everybody });
    let rows = read::rows(&clicks, &often, whole, 20, |_| Sort::Ordinary).await.unwrap().unwrap();
    assert_eq!(ids(rows), (1..6).collect(), "who asks once or twice is left out");
    let hosted = Wanted { often: None, hosted: true, ..often };
    let rows = read::rows(&clicks, &hosted, whole, 50, |_| Sort::Hosting).await.unwrap().unwrap();
    assert_eq!(rows.len(), 45, "unless it is hosted");
    assert!(read::rows(&clicks, &hosted, whole, 50, |_| Sort::Ordinary).await.unwrap().unwrap().is_empty());
}

#[tokio::test]
async fn a_moved_row_stays_what_it_is_when_a_record_or_other_rules_judge_it_again() {
    let row = Click {
        user_agent: Some("Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0".into()),
        ..visit(1, 0, 7, 1)
    };
    let reason = Sign::ManyLinks.reason();
    let agent = row.user_agent.clone().unwrap();
    let (verdict, _) = enricher().rejudge(&agent, row.method, reason).unwrap();
    assert_eq!((verdict.class, &*verdict.reason), (Class::Scanner, reason));
    let moved = Click { verdict, ..row.clone() };
    let line = Click { source: Source::Edge, referrer: Some("news.example".into()), ..row };
    for (a, b) in [(&moved, &line), (&line, &moved)] {
        let merged = enricher().merged(a, b).unwrap();
        assert_eq!((merged.verdict.class, &*merged.verdict.reason), (Class::Scanner, reason));
        assert_eq!(merged.referrer.as_deref(), Some("news.example"));
    }
    // a rule that knows its agent by now tells more
    let (verdict, _) =
        enricher().rejudge("Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", None, reason).unwrap();
    assert_eq!((verdict.class, &*verdict.reason), (Class::Preview, "preview/slack+behaviour/many-links"));
    // and one that doesn't, once that is taken back, as much as before
    let (verdict, _) = enricher().rejudge(&agent, None, &verdict.reason).unwrap();
    assert_eq!((verdict.class, &*verdict.reason), (Class::Scanner, reason));
}

#[tokio::test]
async fn behind_a_relay_of_people_there_may_be_anybody() {
    let (lake, _) = memory();
    put(&lake, &scan(1, 0)).await;
    let clicks = lake.table(Table::Clicks).await.unwrap();
    let times = at(-60)..at(60);
    let counts = read::counts(&clicks, &times).await.unwrap();
    let wanted = Wanted { times, often: Some((&counts, 1)), hosted: true };
    let share = Share { number: 0, of: 1 };
    let config = BehaviourConfig { many_links: MANY, ..BehaviourConfig::default() };
    for (sort, expected) in [(Sort::Ordinary, MANY), (Sort::Peoples, 0)] {
        let rows = read::rows(&clicks, &wanted, share, 50, |_| sort).await.unwrap().unwrap();
        assert_eq!(rows.len(), MANY);
        let mut requests: Vec<_> = rows.iter().map(read::Row::request).collect();
        assert_eq!(signs(&mut requests, &config).len(), expected, "{sort:?}");
    }
}

#[test]
fn nothing_is_read_when_all_is_off() {
    let off = BehaviourConfig { new_link: Duration::ZERO, many_links: 0, keystrokes: false, within: Duration::ZERO };
    assert!(off.is_off() && !BehaviourConfig::default().is_off());
}
