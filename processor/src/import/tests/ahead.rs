//! A file whose lines are parsed before its turn.

use ingest::edge::Ids;
use tokio_util::sync::CancellationToken;

use super::super::ahead::{Parsers, Way};
use super::super::opened::Content;
use super::super::options::Body;
use super::super::pipeline::Retired;
use super::events::{as_origin, bench, told_at};
use super::*;

fn by_status() -> ImportOptions {
    ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() }
}

/// How a log by status is taken as the lake is now.
async fn way_now(bench: &Bench) -> Way {
    let content = Content::Log(Format::NginxJson, Ids::StatusOnly);
    let tables = bench.importer.shared.tables().await.unwrap();
    let run = bench.importer.run(by_status(), CancellationToken::new());
    let reading = run.reading(content.clone(), &tables).await.unwrap();
    Way { content, reading }
}

/// A log, read ahead while another one's last lines land.
async fn read_ahead(bench: &Bench, log: &str, way: Way) -> Input {
    bench.importer.shared.parsers.send_replace(Parsers::Free(Box::new(way), Retired::default()));
    let input = Input::stream("next.log", std::io::Cursor::new(log.as_bytes().to_vec()));
    let input = bench.importer.read_ahead(input, &by_status()).await.unwrap();
    let Body::Ahead(ahead) = &input.body else { unreachable!() };
    assert!(ahead.begun.is_some());
    input
}

async fn take_in(bench: &Bench, input: Input) -> Summary {
    let summary = bench.importer.import(input, by_status(), |_| {}).await.unwrap();
    assert!(summary.adds_up(), "{summary:?}");
    summary
}

#[tokio::test]
async fn what_was_parsed_ahead_lands_when_its_turn_comes() {
    let bench = bench();
    let log: String = (0..40).map(|n| line(n, 1_500, if n % 2 == 0 { "HIT" } else { "MISS" }, "k")).collect();
    let input = read_ahead(&bench, &log, way_now(&bench).await).await;
    assert_eq!(bench.count(Table::Clicks).await, 0);
    let summary = take_in(&bench, input).await;
    assert_eq!((summary.lines, summary.added.edge, summary.added.recovered), (40, 20, 20));
    // the same bytes once more, parsed although they will turn out to be there
    let again = read_ahead(&bench, &log, way_now(&bench).await).await;
    let again = take_in(&bench, again).await;
    assert_eq!((again.added.total(), again.already_counted), (0, 40));
    assert_eq!(bench.distinct_ids().await, 40);
}

#[tokio::test]
async fn a_guess_that_the_lake_contradicts_is_parsed_anew() {
    let bench = bench();
    let log = [line(1, 1_500, "HIT", "k"), line(2, 1_500, "MISS", "k")].concat();
    let input = read_ahead(&bench, &log, way_now(&bench).await).await;
    // the import before tells of the origin's own events: its lines of misses are counted already
    bench.import_with(&told_at(2_500), as_origin("nginx")).await.unwrap();
    let summary = take_in(&bench, input).await;
    assert_eq!((summary.added.edge, summary.added.recovered, summary.already_counted), (1, 0, 1));
}

#[tokio::test]
async fn another_sort_of_file_is_not_guessed_at() {
    let bench = bench();
    let way = Way { content: Content::Log(Format::Caddy, Ids::StatusOnly), ..way_now(&bench).await };
    bench.importer.shared.parsers.send_replace(Parsers::Free(Box::new(way), Retired::default()));
    let log = line(1, 1_500, "HIT", "k");
    let input = Input::stream("next.log", std::io::Cursor::new(log.into_bytes()));
    let input = bench.importer.read_ahead(input, &by_status()).await.unwrap();
    assert!(matches!(&input.body, Body::Ahead(ahead) if ahead.begun.is_none()));
    assert_eq!(take_in(&bench, input).await.added.edge, 1);
}
