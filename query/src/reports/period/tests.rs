use super::*;

fn at(text: &str) -> UtcMicros {
    UtcMicros::from(DateTime::parse_from_rfc3339(text).unwrap().to_utc())
}

fn resolved(period: Period, zone: &str) -> (String, String) {
    let tz: Tz = zone.parse().unwrap();
    let now = at("2026-05-20T10:30:00Z");
    let span = period.resolve(tz, now, None, Some((at("2026-01-05T00:00:01Z"), at("2026-05-20T11:00:00Z")))).unwrap();
    let text = |instant: UtcMicros| instant.to_datetime().with_timezone(&tz).to_rfc3339();
    (text(span.start), text(span.end))
}

fn preset(word: &str, zone: &str) -> String {
    resolved(Period { preset: Some(word.parse().unwrap()), ..Period::default() }, zone).0
}

#[test]
fn presets_begin_with_a_date_of_the_zone() {
    assert_eq!(preset("24h", "UTC"), "2026-05-19T10:30:00+00:00");
    assert_eq!(preset("7d", "Europe/Berlin"), "2026-05-14T00:00:00+02:00");
    assert_eq!(preset("30d", "Pacific/Auckland"), "2026-04-21T00:00:00+12:00");
    assert_eq!(preset("1y", "UTC"), "2025-05-21T00:00:00+00:00");
    assert_eq!(preset("mtd", "UTC"), "2026-05-01T00:00:00+00:00");
    assert_eq!(preset("qtd", "Europe/Berlin"), "2026-04-01T00:00:00+02:00");
    assert_eq!(preset("ytd", "Europe/Berlin"), "2026-01-01T00:00:00+01:00");
    for (word, preset) in PRESETS {
        assert_eq!(preset.to_string(), *word);
    }
    assert!("2d".parse::<Preset>().unwrap_err().contains("24h"));
}

#[test]
fn all_is_from_the_first_click_to_the_last_or_now() {
    let all = ("2026-01-05T00:00:00+00:00".to_owned(), "2026-05-20T11:00:00.000001+00:00".to_owned());
    assert_eq!(resolved(Period::default(), "UTC"), all);
    assert_eq!(resolved(Period { preset: Some(Preset::All), ..Period::default() }, "UTC"), all);
    let nothing = Period::default().resolve(Tz::UTC, UtcMicros(5), None, None).unwrap();
    assert_eq!(nothing, Span { start: UtcMicros(5), end: UtcMicros(5) });
}

#[test]
fn all_begins_with_a_bucket_or_a_day() {
    let start = |zone: &str, interval, first: &str| {
        let (tz, now): (Tz, _) = (zone.parse().unwrap(), at("2026-12-01T00:00:00Z"));
        let all = Period { preset: Some(Preset::All), ..Period::default() };
        let span = all.resolve(tz, now, interval, Some((at(first), at(first)))).unwrap();
        span.start.to_datetime().with_timezone(&tz).to_rfc3339()
    };
    let first = "2026-05-20T00:52:57.052950Z";
    for (interval, expected) in [
        (None, "2026-05-20T00:00:00+05:45"),
        (Some(Interval::Minute), "2026-05-20T06:37:00+05:45"),
        (Some(Interval::Hour), "2026-05-20T06:00:00+05:45"),
        (Some(Interval::Day), "2026-05-20T00:00:00+05:45"),
        (Some(Interval::Week), "2026-05-18T00:00:00+05:45"),
        (Some(Interval::Month), "2026-05-01T00:00:00+05:45"),
    ] {
        assert_eq!(start("Asia/Kathmandu", interval, first), expected, "{interval:?}");
    }
    // the second time that the clock shows 02:30, and half an hour that comes twice
    assert_eq!(start("Europe/Berlin", Some(Interval::Hour), "2026-10-25T01:30:00Z"), "2026-10-25T02:00:00+01:00");
    assert_eq!(start("Australia/Lord_Howe", Some(Interval::Hour), "2026-04-04T15:10:00Z"), "2026-04-05T01:30:00+10:30");
}

#[test]
fn an_end_date_is_whole_and_an_end_instant_is_not_part() {
    let span = |start: &str, end: &str| {
        let period = Period { start: Some(start.parse().unwrap()), end: Some(end.parse().unwrap()), preset: None };
        resolved(period, "Europe/Berlin")
    };
    assert_eq!(
        span("2026-10-25", "2026-10-25"),
        ("2026-10-25T00:00:00+02:00".into(), "2026-10-26T00:00:00+01:00".into())
    );
    assert_eq!(span("2026-10-25T00:00:00Z", "2026-10-25T03:00:00 02:00").1, "2026-10-25T02:00:00+01:00");
}

#[test]
fn spans_that_end_before_they_begin_are_named() {
    let period = |start: Option<&str>, end: Option<&str>| Period {
        start: start.map(|text| text.parse().unwrap()),
        end: end.map(|text| text.parse().unwrap()),
        preset: None,
    };
    let now = at("2026-05-20T10:30:00Z");
    let resolve = |period: Period| period.resolve(Tz::UTC, now, None, None);
    assert_eq!(resolve(period(Some("2026-05-02"), Some("2026-05-01"))).unwrap_err().field, "end");
    assert_eq!(resolve(period(Some("2027-01-01"), None)).unwrap_err().field, "start");
    let before_all = resolve(period(None, Some("2020-01-01"))).unwrap();
    assert_eq!(before_all.start, before_all.end);
}

#[test]
fn bounds_need_an_offset_and_a_year_within_reason() {
    for text in ["2026-05-20T10:30:00", "yesterday", "", "2026-13-01", "0001-01-01", "9999-01-01T00:00:00Z"] {
        assert!(text.parse::<Bound>().is_err(), "{text}");
    }
}
