//! What a report says of its own numbers.

use schemas::UtcMicros;

use super::{NOON, ask, request};
use crate::ports::Freshness;
use crate::testlake::{TestLake, at, click, operator, tenant};

#[tokio::test]
async fn meta_tells_of_freshness_and_gaps_that_are_touched() {
    let lake = TestLake::with(&[click(1, at(NOON))]);
    *lake.pipeline.0.lock().unwrap() =
        Some(Freshness { complete_through: Some(at(NOON)), final_through: Some(at("2026-03-12T12:00:00Z")) });
    lake.add_gap(None, at("2026-03-14T10:00:00Z"), at("2026-03-14T11:00:00Z"), 9);
    lake.add_gap(Some("a"), at("2026-03-14T09:00:00Z"), at("2026-03-14T09:30:00Z"), 4);
    lake.add_gap(Some("b"), at("2026-03-14T08:00:00Z"), at("2026-03-14T09:00:00Z"), 5);
    let before = UtcMicros::now();
    let report = ask(&lake, &tenant("a"), "start=2026-03-14&end=2026-03-14").await;
    assert!(report.meta.as_of >= before && report.meta.as_of <= UtcMicros::now());
    assert_eq!(report.meta.complete_through, Some(at(NOON)));
    assert_eq!(report.meta.final_through, Some(at("2026-03-12T12:00:00Z")));
    let lost: Vec<Option<u64>> = report.meta.gaps.iter().map(|gap| gap.lost).collect();
    assert_eq!(lost, [Some(4), None], "not b's, and not how many of a gap that may be others'");
    let all = ask(&lake, &operator(), "start=2026-03-14&end=2026-03-14").await;
    assert_eq!(all.meta.gaps.iter().filter_map(|gap| gap.lost).sum::<u64>(), 18);
    let untouched = ask(&lake, &operator(), "start=2026-03-15&end=2026-03-15").await;
    assert!(untouched.meta.gaps.is_empty());
}

#[tokio::test]
async fn meta_tells_when_final_numbers_of_the_span_have_changed() {
    let lake = TestLake::with(&[click(1, at(NOON))]);
    let service = lake.service_with(crate::QueryConfig { refresh: std::time::Duration::ZERO, ..lake.config() });
    let restated =
        async |principal, query: &str| service.report(&principal, &request(query)).await.unwrap().meta.restated_at;
    let day = "start=2026-03-14&end=2026-03-14";
    assert_eq!(restated(operator(), day).await, None);
    lake.add_restatement(Some("a"), at("2026-03-13T10:00:00Z"), at("2026-03-14T00:00:00Z"));
    lake.add_restatement(Some("a"), at("2026-03-14T10:00:00Z"), at("2026-03-14T11:00:00Z"));
    lake.add_restatement(Some("b"), at("2026-03-14T12:00:00Z"), at("2026-03-14T13:00:00Z"));
    assert_eq!(restated(operator(), day).await, Some(at("2026-03-14T13:00:00Z")));
    assert_eq!(restated(tenant("a"), day).await, Some(at("2026-03-14T11:00:00Z")), "not b's");
    assert_eq!(restated(tenant("c"), day).await, None);
    let before = "start=2026-03-14T00:00:00Z&end=2026-03-14T10:00:00Z";
    assert_eq!(restated(tenant("a"), before).await, Some(at("2026-03-14T00:00:00Z")), "its last instant");
    assert_eq!(restated(operator(), "start=2026-03-15&end=2026-03-15").await, None);
}

#[tokio::test]
async fn meta_tells_from_when_on_clicks_are_kept_where_that_cuts_the_span() {
    let lake = TestLake::with(&[click(1, at(NOON))]);
    let service = lake.service_with(crate::QueryConfig { refresh: std::time::Duration::ZERO, ..lake.config() });
    let meta = async |principal, query: &str| {
        let meta = service.report(&principal, &request(query)).await.unwrap().meta;
        assert_eq!(meta.restated_at, None, "what is kept no longer isn't another number");
        meta.kept_from
    };
    let (long, day) = ("start=2026-03-01&end=2026-03-14", "start=2026-03-14&end=2026-03-14");
    assert_eq!(meta(tenant("a"), long).await, None);
    lake.add_retention("a", at("2026-03-01T00:00:00Z"), at("2026-03-09T23:59:59.999999Z"));
    lake.add_retention("a", at("2026-03-01T00:00:00Z"), at("2026-03-01T23:59:59.999999Z"));
    lake.add_retention("b", at("2026-03-12T00:00:00Z"), at("2026-03-12T23:59:59.999999Z"));
    assert_eq!(meta(tenant("a"), long).await, Some(at("2026-03-10T00:00:00Z")));
    assert_eq!(meta(tenant("a"), day).await, None, "that day is whole");
    assert_eq!(meta(tenant("a"), "interval_preset=all").await, Some(at("2026-03-10T00:00:00Z")));
    assert_eq!(meta(tenant("a"), "").await, Some(at("2026-03-10T00:00:00Z")));
    assert_eq!(meta(tenant("c"), long).await, None);
    assert_eq!(meta(operator(), long).await, Some(at("2026-03-13T00:00:00Z")), "of the one that keeps the least");
}

#[tokio::test]
async fn meta_tells_which_changes_of_the_span_are_under_way() {
    let lake = TestLake::with(&[click(1, at(NOON))]);
    let one = |workspace: Option<&str>, start: &str, end: &str, reason: &str| crate::Changing {
        workspace: workspace.map(str::to_owned),
        start: at(start),
        end: at(end),
        reason: reason.to_owned(),
    };
    let any = one(None, "2026-03-14T10:00:00Z", "2026-03-14T10:59:59Z", "an hour");
    let of_b = one(Some("b"), "2026-03-10T10:00:00Z", "2026-03-14T00:00:00Z", "b's");
    *lake.pipeline.1.lock().unwrap() = vec![any.clone(), of_b, any];
    let day = "start=2026-03-14&end=2026-03-14";
    let told = async |principal, query: &str| {
        let changing = ask(&lake, &principal, query).await.meta.changing;
        changing.into_iter().map(|one| one.reason).collect::<Vec<_>>()
    };
    assert_eq!(told(operator(), day).await, ["b's", "an hour"]);
    assert_eq!(told(tenant("a"), day).await, ["an hour"]);
    assert_eq!(told(tenant("b"), "start=2026-03-12&end=2026-03-12").await, ["b's"]);
    assert!(told(operator(), "start=2026-03-15&end=2026-03-15").await.is_empty());
}
