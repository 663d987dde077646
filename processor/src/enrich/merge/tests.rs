//! Merging is a join: order, grouping and repetition of records don't matter, and facts tell when it would change a row.

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use proptest::prelude::*;
use schemas::visitor::{VisitorKey, visitor};
use schemas::{Class, Click, ClickBuilder, Method, Source, UtcMicros};

use super::super::facts::FactColumns;
use super::super::{EnrichConfig, Enricher, Facts};
use crate::classify::Mark;
use crate::hot::testing::click;

const CHROME: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
const HIDDEN: &str = "Amazon CloudFront";
const DESTINATION: &str = "https://shop.example/?utm_source=site";

static ENRICHER: LazyLock<Enricher> = LazyLock::new(|| Enricher::new(&EnrichConfig::default()).unwrap());

/// A record of one request, with all that follows from its fields.
fn record(source: Source, method: Option<Method>, user_agent: Option<&str>) -> Click {
    let (verdict, agent_info) = ENRICHER.judged(user_agent.unwrap_or_default(), method, None, None);
    let key = VisitorKey([1; 16]);
    let visitor = visitor(&key, [203, 0, 113, 9].into(), user_agent.unwrap_or_default());
    Click {
        source,
        method,
        verdict,
        agent_info,
        user_agent: user_agent.map(Arc::from),
        visitor: Some(visitor),
        destination: Some(DESTINATION.into()),
        utm: schemas::click::Utm { source: Some("site".into()), ..Default::default() },
        ..click(7, 1_000_000)
    }
}

fn known(text: &str) -> Option<Arc<str>> {
    Some(text.into())
}

#[test]
fn what_the_cdn_hides_from_the_origin_the_line_tells() {
    let event = record(Source::Origin, Some(Method::Get), Some(HIDDEN));
    assert_eq!(event.verdict.class, Class::Monitor);
    let line = Click {
        event_time: UtcMicros(3_000_000),
        ingest_time: UtcMicros(9_000_000),
        import_id: known("import"),
        referrer: known("news.example"),
        ..record(Source::Recovered, Some(Method::Get), Some(CHROME))
    };
    let merged = ENRICHER.merged(&event, &line).unwrap();
    assert_eq!((merged.verdict.class, merged.agent_info.browser.as_deref()), (Class::Human, Some("Chrome")));
    assert_eq!((merged.user_agent.as_deref(), merged.visitor), (Some(CHROME), line.visitor));
    assert_eq!((merged.source, merged.event_time, merged.referrer), (Source::Origin, event.event_time, line.referrer));
    assert_eq!((merged.import_id, merged.ingest_time), (None, event.ingest_time), "it is still the stream's");
}

#[test]
fn a_head_stays_one_and_is_no_person() {
    let event = record(Source::Origin, Some(Method::Get), Some(CHROME));
    let line = record(Source::Recovered, Some(Method::Head), Some(CHROME));
    for merged in [ENRICHER.merged(&event, &line).unwrap(), ENRICHER.merged(&line, &event).unwrap()] {
        assert_eq!((merged.method, merged.verdict.class), (Some(Method::Head), Class::Probe));
        assert_eq!(merged.source, Source::Origin);
    }
}

#[test]
fn a_fetch_ahead_of_a_click_stays_one_whatever_its_agent() {
    let ahead = ENRICHER.classifier().by_header("header/sec-purpose").unwrap();
    let event = Click { verdict: ahead.clone(), ..record(Source::Origin, Some(Method::Get), Some(HIDDEN)) };
    let line = record(Source::Recovered, Some(Method::Get), Some(CHROME));
    let merged = ENRICHER.merged(&event, &line).unwrap();
    assert_eq!((merged.verdict.clone(), merged.agent_info.browser.as_deref()), (ahead, Some("Chrome")));
    let head = record(Source::Recovered, Some(Method::Head), Some(CHROME));
    assert_eq!(ENRICHER.merged(&merged, &head).unwrap().verdict.class, Class::Probe);
}

/// The event has the client's address, but its agent is hidden; the line knows the agent, but shows no address.
#[test]
fn a_scanners_network_and_an_agent_that_looks_like_a_persons_meet_in_whatever_order() {
    let classifier = ENRICHER.classifier();
    let mut event = record(Source::Origin, Some(Method::Get), Some(HIDDEN));
    event.verdict = classifier.with_mark(&event.verdict, Mark::Scanner("mail"));
    assert_eq!((event.verdict.class, &*event.verdict.reason), (Class::Monitor, "monitor/aws+network/mail"));
    let line = record(Source::Recovered, Some(Method::Get), Some(CHROME));
    for merged in [ENRICHER.merged(&event, &line).unwrap(), ENRICHER.merged(&line, &event).unwrap()] {
        assert_eq!((merged.verdict.class, &*merged.verdict.reason), (Class::Scanner, "network/mail"));
        assert_eq!(merged.verdict.agent.as_deref(), Some("mail"));
    }
    let seen = Click { verdict: classifier.with_mark(&line.verdict, Mark::Scanner("mail")), ..line.clone() };
    assert!(
        Facts::of(&seen).knows_better_than(&Facts::of(&line)) && !Facts::of(&line).knows_better_than(&Facts::of(&seen))
    );
}

#[test]
fn an_event_takes_over_a_row_that_its_line_has_made() {
    let line = Click {
        event_time: UtcMicros(3_000_000),
        import_id: known("import"),
        ..record(Source::Edge, Some(Method::Get), Some(CHROME))
    };
    let event = record(Source::Origin, Some(Method::Get), Some(CHROME));
    assert!(Facts::of(&event).knows_better_than(&Facts::of(&line)));
    let merged = ENRICHER.merged(&line, &event).unwrap();
    assert_eq!(
        (merged.source, merged.event_time, merged.import_id.is_none()),
        (Source::Origin, event.event_time, true)
    );
    assert!(!Facts::of(&line).knows_better_than(&Facts::of(&merged)));
}

/// Nobody can bring a posted event again once the log whose row it met is taken back.
#[test]
fn a_posted_event_takes_a_row_over_from_a_log_and_no_log_takes_it_back() {
    let line = Click {
        ingest_time: UtcMicros(5),
        import_id: known("log"),
        ..record(Source::Edge, Some(Method::Get), Some(CHROME))
    };
    for source in [Source::Origin, Source::Import] {
        let event = Click { source, ingest_time: UtcMicros(6), import_id: known("posts"), ..line.clone() };
        assert!(Facts::of(&event).knows_better_than(&Facts::of(&line)), "so that it is merged");
        let merged = ENRICHER.merged(&line, &event).unwrap();
        assert_eq!((merged.import_id.as_deref(), merged.source), (Some("posts"), source));
        let earlier = Click { ingest_time: UtcMicros(1), import_id: known("another log"), ..line.clone() };
        assert_eq!(ENRICHER.merged(&merged, &earlier).unwrap().import_id.as_deref(), Some("posts"));
        let streamed = record(Source::Origin, Some(Method::Get), Some(CHROME));
        assert_eq!(ENRICHER.merged(&merged, &streamed).unwrap().import_id, None, "the stream's is nobody's to take");
    }
}

#[test]
fn of_two_imports_the_first_keeps_the_row() {
    let row = Click {
        ingest_time: UtcMicros(5),
        import_id: known("z"),
        ..record(Source::Recovered, Some(Method::Get), Some(HIDDEN))
    };
    let later = Click { ingest_time: UtcMicros(6), import_id: known("a"), ..record(Source::Edge, None, Some(CHROME)) };
    let merged = ENRICHER.merged(&row, &later).unwrap();
    assert_eq!((merged.import_id.as_deref(), merged.source), (Some("z"), Source::Edge));
}

#[test]
fn a_query_that_the_origin_never_saw_beats_its_destinations_parameters() {
    let event = record(Source::Origin, Some(Method::Get), Some(CHROME));
    let mut line = record(Source::Recovered, Some(Method::Get), Some(CHROME));
    line.utm.medium = known("post");
    assert!(Facts::of(&line).knows_better_than(&Facts::of(&event)));
    assert!(!Facts::of(&event).knows_better_than(&Facts::of(&line)) || line.source > event.source);
    let merged = ENRICHER.merged(&event, &line).unwrap();
    assert_eq!((merged.utm.source.as_deref(), merged.utm.medium.as_deref()), (Some("site"), Some("post")));
}

#[test]
fn an_id_of_two_networks_agents_or_tenants_is_no_correction() {
    let row = Click { client_net: known("203.0.113.0/24"), ..record(Source::Edge, None, Some(CHROME)) };
    let with = |change: fn(&mut Click)| {
        let mut other = record(Source::Origin, Some(Method::Head), Some(CHROME));
        change(&mut other);
        other
    };
    for (other, same) in [
        (with(|_| ()), true),
        (with(|click| click.user_agent = known(HIDDEN)), true),
        (with(|click| click.user_agent = None), true),
        (with(|click| click.user_agent = known("curl/8")), false),
        (with(|click| click.client_net = known("198.51.100.0/24")), false),
        (with(|click| click.workspace = "another".into()), false),
    ] {
        assert_eq!(ENRICHER.merged(&row, &other).is_some(), same, "{other:?}");
        assert_eq!(Facts::of(&row).is_of_one_request_with(&Facts::of(&other)), same);
    }
}

#[test]
fn a_log_line_tells_nothing_of_who_asked_the_origin_for_privacy() {
    let event = Click { visitor: None, private: true, ..record(Source::Origin, Some(Method::Get), Some(CHROME)) };
    let line = Click {
        client_net: known("203.0.113.0/24"),
        country: known("NL"),
        region: known("UT"),
        city: known("Utrecht"),
        ..record(Source::Recovered, Some(Method::Get), Some(CHROME))
    };
    assert!(Facts::of(&event).knows_better_than(&Facts::of(&line)), "a late event corrects the row");
    let again = ENRICHER.merged(&event, &line).unwrap();
    assert!(!Facts::of(&line).knows_better_than(&Facts::of(&again)), "and its line no more");
    for merged in [again, ENRICHER.merged(&line, &event).unwrap()] {
        assert_eq!((merged.visitor, merged.client_net, merged.city, merged.private), (None, None, None, true));
        assert_eq!((merged.country.as_deref(), merged.region.as_deref()), (Some("NL"), Some("UT")));
    }
}

/// Records that can be of one request: one client, of whom each record knows more or less.
fn any_record() -> impl Strategy<Value = Click> {
    let pick = |words: &'static [Option<&'static str>]| proptest::sample::select(words);
    let whose = (proptest::sample::select(Source::ALL), 0i64..4, 0i64..3, pick(&[None, Some("a"), Some("b")]));
    let who = (
        pick(&[None, Some(HIDDEN), Some(CHROME)]),
        proptest::sample::select(&[None, Some(Method::Get), Some(Method::Head)][..]),
        any::<bool>(),
        pick(&[None, Some("mail"), Some("gate"), Some("+own"), Some("+other")]),
    );
    let where_from = (
        pick(&[None, Some("203.0.113.0/24")]),
        pick(&[None, Some("news.example"), Some("t.example")]),
        pick(&[None, Some("nl"), Some("en")]),
        pick(&[None, Some("NL"), Some("BE")]),
        pick(&[None, Some("Utrecht"), Some("Gent")]),
        pick(&[None, Some("post"), Some("mail")]),
        pick(&[None, Some("UT"), Some("VLG")]),
        pick(&[None, Some("ref=1"), Some("ref=2")]),
        proptest::bool::weighted(0.2),
    );
    (whose, who, where_from).prop_map(|((source, time, ingest, import), (agent, method, ahead, network), from)| {
        let (net, referrer, language, country, city, medium, region, query, private) = from;
        let ahead = (ahead && method != Some(Method::Head)).then(|| ENRICHER.classifier().by_header("header/purpose"));
        let mut click = record(source, method, agent);
        if let Some(ahead) = ahead.flatten() {
            click.verdict = ahead;
        }
        if let Some(network) = network {
            let mark = network.strip_prefix('+').map_or(Mark::Scanner(network), Mark::Confirmed);
            click.verdict = ENRICHER.classifier().with_mark(&click.verdict, mark);
        }
        click.utm.medium = medium.map(Arc::from);
        Click {
            event_time: UtcMicros(time),
            ingest_time: UtcMicros(ingest),
            import_id: import.map(Arc::from),
            referrer: referrer.map(Arc::from),
            language: language.map(Arc::from),
            country: country.map(Arc::from),
            region: country.and(region).map(Arc::from),
            city: country.and(city).filter(|_| !private).map(Arc::from),
            client_net: net.filter(|_| !private).map(Arc::from),
            visitor: click.visitor.filter(|_| !private),
            query: query.map(Arc::from),
            private,
            ..click
        }
    })
}

fn merged(a: &Click, b: &Click) -> Click {
    ENRICHER.merged(a, b).unwrap()
}

fn batch(click: &Click) -> RecordBatch {
    let mut builder = ClickBuilder::new();
    builder.push(click);
    builder.finish().unwrap()
}

proptest! {
    #[test]
    fn order_grouping_and_repetition_do_not_matter(a in any_record(), b in any_record(), c in any_record()) {
        prop_assert_eq!(merged(&a, &a), a.clone());
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        let both = merged(&a, &b);
        prop_assert_eq!(merged(&both, &b), both);
    }

    /// Only one of the records may know.
    #[test]
    fn who_asked_for_privacy_has_it_whoever_tells(a in any_record(), b in any_record(), c in any_record()) {
        let all = merged(&merged(&a, &b), &c);
        prop_assert_eq!(all.private, a.private || b.private || c.private);
        prop_assert!(!all.private || (&all.visitor, &all.client_net, &all.city) == (&None, &None, &None));
    }

    #[test]
    fn nothing_known_is_lost(a in any_record(), b in any_record()) {
        let both = merged(&a, &b);
        for one in [&a, &b] {
            prop_assert!(both.referrer.is_some() || one.referrer.is_none());
            prop_assert!(both.language.is_some() || one.language.is_none());
            prop_assert!(both.country.is_some() || one.country.is_none());
            prop_assert!(both.client_net.is_some() || one.client_net.is_none() || both.private);
            prop_assert!(both.query.is_some() || one.query.is_none());
            prop_assert!(both.private || !one.private);
            prop_assert!(both.method == Some(Method::Head) || one.method != Some(Method::Head));
            prop_assert!(both.user_agent.as_deref() == Some(CHROME) || one.user_agent.as_deref() != Some(CHROME));
            prop_assert!(both.method != Some(Method::Head) || both.verdict.class != Class::Human);
            let scanner = |click: &Click| click.verdict.reason.contains("network/");
            prop_assert!(scanner(&both) || !scanner(one));
            prop_assert!(!scanner(&both) || both.verdict.class != Class::Human);
        }
    }

    /// Facts see of a merge what they see of its parts, so that they tell when it would change a row.
    #[test]
    fn facts_join_as_rows_merge(a in any_record(), b in any_record()) {
        let both = merged(&a, &b);
        prop_assert_eq!(Facts::of(&both), Facts::of(&a).join(Facts::of(&b)));
        let read = batch(&a);
        prop_assert_eq!(FactColumns::of(&read).unwrap().row(0), Facts::of(&a));
        prop_assert!(Facts::of(&a).is_of_one_request_with(&Facts::of(&b)));
        if !Facts::of(&b).knows_better_than(&Facts::of(&a)) {
            // what facts don't look at: when it was, who brought it, which visitor an agent has
            let seen = |click: &Click| (click.source, click.method, click.user_agent.clone(), click.referrer.clone(), click.language.clone(), click.country.clone(), click.city.clone(), click.client_net.clone(), click.utm.clone(), (click.region.clone(), click.query.clone(), click.private));
            prop_assert_eq!(seen(&both), seen(&a));
        }
    }
}
