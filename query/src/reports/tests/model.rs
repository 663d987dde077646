//! Reports compared with counting by hand.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{NaiveTime, Timelike};
use chrono_tz::Tz;
use proptest::prelude::*;
use schemas::{Class, Click, UtcMicros};

use super::{Row, from, of_class, request};
use crate::testlake::{TestLake, at, click, tenant};

fn clicks() -> impl Strategy<Value = Vec<Click>> {
    // around the night in which Berlin, Lord Howe and New York are near a change of their clocks
    let one = (0i64..40 * 24 * 60, 0usize..3, 0usize..4, 0i64..6).prop_map(|(minute, class, country, visitor)| {
        let time = UtcMicros(at("2026-03-01T00:00:00Z").0 + minute * 60_000_000);
        let class = [Class::Human, Class::Human, Class::Crawler][class];
        let country = [None, Some("NL"), Some("DE"), Some("")][country];
        let click = from(country, of_class(class, click(minute as u64, time)));
        Click { visitor: (visitor > 0).then_some(visitor), ..click }
    });
    proptest::collection::vec(one, 0..60)
}

fn zone() -> impl Strategy<Value = Tz> {
    prop_oneof![
        Just(Tz::UTC),
        Just(chrono_tz::Europe::Berlin),
        Just(chrono_tz::America::New_York),
        Just(chrono_tz::Asia::Kathmandu),
        Just(chrono_tz::Australia::Lord_Howe),
    ]
}

/// When the bucket of `time` begins, by the wall clock.
fn begin(tz: Tz, interval: &str, time: UtcMicros) -> chrono::NaiveDateTime {
    let local = time.to_datetime().with_timezone(&tz).naive_local();
    match interval {
        "hour" => local.date().and_hms_opt(local.hour(), 0, 0).unwrap(),
        _ => local.date().and_time(NaiveTime::MIN),
    }
}

fn visitors<'a>(clicks: impl Iterator<Item = &'a Click>) -> Option<u64> {
    let clicks: Vec<&Click> = clicks.collect();
    let known: BTreeSet<(i32, i64)> =
        clicks.iter().filter_map(|click| Some((click.event_time.day(), click.visitor?))).collect();
    (clicks.is_empty() || !known.is_empty()).then_some(known.len() as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn reports_equal_counting_by_hand(clicks in clicks(), tz in zone(), hourly in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let lake = TestLake::with(&clicks);
        let service = lake.service();
        let ask = |query: &str| runtime.block_on(service.report(&tenant("a"), &request(query))).unwrap();
        let human: Vec<&Click> = clicks.iter().filter(|click| click.verdict.class == Class::Human).collect();

        let interval = if hourly { "hour" } else { "day" };
        let series = ask(&format!("start=2026-02-20&end=2026-04-20&timezone={tz}&interval={interval}"));
        prop_assert_eq!(series.totals.counts.clicks, human.len() as u64);
        prop_assert_eq!(series.totals.counts.visitors, visitors(human.iter().copied()));
        prop_assert_eq!(series.totals.by_class.values().sum::<u64>(), clicks.len() as u64);
        // an hour that comes twice is two buckets of one name, so they are added up by name
        let mut by_hand: BTreeMap<String, u64> = BTreeMap::new();
        for click in &human {
            *by_hand.entry(begin(tz, interval, click.event_time).format("%FT%H").to_string()).or_default() += 1;
        }
        let mut reported: BTreeMap<String, u64> = BTreeMap::new();
        for row in &series.data {
            let Row::Bucket { start, counts, .. } = row else { panic!("a group") };
            *reported.entry(start[..13].to_owned()).or_default() += counts.clicks;
        }
        reported.retain(|_, clicks| *clicks > 0);
        prop_assert_eq!(reported, by_hand);

        let groups = ask("group_by=country&class=all");
        let of = |country: &'static str| clicks.iter().filter(move |click| click.country.as_deref() == Some(country));
        for row in &groups.data {
            let Row::Group { value, counts } = row else { panic!("a bucket") };
            let country = if value == "NL" { "NL" } else { "DE" };
            prop_assert_eq!(counts.clicks, of(country).count() as u64);
            prop_assert_eq!(counts.visitors, visitors(of(country)));
        }
        let shown: u64 = groups.data.iter().map(|row| row.counts().clicks).sum();
        prop_assert_eq!(shown + groups.other.clicks + groups.unknown.clicks, clicks.len() as u64);
        prop_assert_eq!(groups.other.clicks, 0);
    }
}
