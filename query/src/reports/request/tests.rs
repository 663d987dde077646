use super::super::values::PARAMETERS;
use super::*;
use proptest::prelude::*;

fn read(query: &str) -> Result<ReportRequest, Vec<FieldError>> {
    let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    ReportRequest::from_pairs(pairs).map_err(|error| match error {
        QueryError::Invalid(errors) => errors,
        other => panic!("{other}"),
    })
}

fn wrong(query: &str) -> String {
    let errors = read(query).expect_err(query);
    errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn nothing_given_is_all_human_clicks() {
    assert_eq!(read("").unwrap(), ReportRequest::default());
}

#[test]
fn a_series_without_a_span_is_as_long_as_people_look_at() {
    let preset = |query: &str| read(query).unwrap().period.preset;
    assert_eq!(preset("interval=minute"), Some(Preset::Day));
    assert_eq!(preset("interval=hour"), Some(Preset::Days(7)));
    assert_eq!(preset("interval=day"), Some(Preset::Days(30)));
    assert_eq!(preset("interval=month"), Some(Preset::Year));
    assert_eq!(preset("interval=hour&start=2026-01-01"), None);
    assert_eq!(preset("interval=hour&interval_preset=all"), Some(Preset::All));
}

#[test]
fn parameters_are_read() {
    let request = read(
        "code=a&code=B&domain=Go.Example.com&start=2026-10-25&end=2026-10-25&timezone=Europe/Berlin&interval=hour\
         &class=human&class=preview&country=NL&country=DE&not_device=tablet&utm_source=&referrer=t.co",
    )
    .unwrap();
    assert_eq!(request.code, ["a", "B"]);
    assert_eq!(request.domain, ["go.example.com"]);
    assert_eq!(request.timezone, chrono_tz::Europe::Berlin);
    assert_eq!(request.interval, Some(Interval::Hour));
    assert_eq!(request.class, Classes::Some(vec![Class::Human, Class::Preview]));
    let of = |map: &BTreeMap<Dimension, Vec<String>>, name| map[&Dimension::named(name).unwrap()].join(",");
    assert_eq!(of(&request.only, "country"), "NL,DE");
    assert_eq!(of(&request.only, "utm_source"), "");
    assert_eq!(of(&request.not, "device"), "tablet");
    assert_eq!(request.only.len(), 3);
    assert_eq!(read("class=all&class=human").unwrap().class, Classes::All);
    assert_eq!(read("group_by=city&limit=1000").unwrap().limit, 1000);
}

#[test]
fn each_wrong_parameter_is_named() {
    for (query, field) in [
        ("timezone=Mars/Base", "timezone"),
        ("timezone=", "timezone"),
        ("interval=decade", "interval"),
        ("interval=hour&interval=day", "interval"),
        ("group_by=visitor", "group_by"),
        ("group_by=city&interval=day", "group_by"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("class=person", "class"),
        ("not_class=person", "not_class"),
        ("continent=Europe", "continent"),
        ("country=Netherlands", "country"),
        ("country=nl", "country"),
        ("not_country=N1", "not_country"),
        ("device=phone", "device"),
        ("source=cdn", "source"),
        ("link_id=7", "link_id"),
        ("code=a&link_id=01890a5d-ac96-774b-bcce-b302099a8057", "link_id"),
        ("code=", "code"),
        ("start=now", "start"),
        ("interval_preset=2d", "interval_preset"),
        ("interval_preset=7d&start=2026-01-01", "interval_preset"),
        ("contry=NL", "contry"),
        ("not_visitor=1", "not_visitor"),
        ("timezone=x&limit=0&colour=red", "timezone limit colour"),
    ] {
        assert_eq!(wrong(query), field, "{query}");
    }
}

#[test]
fn what_is_wrong_is_said_with_what_is_known() {
    let message = |query: &str| read(query).expect_err(query).remove(0).message;
    let zone = message("timezone=Europe/Berln");
    assert_eq!(zone, "\"Europe/Berln\" is no zone's IANA name, such as Europe/Berlin; did you mean Europe/Berlin?");
    assert!(message("device=phone").contains("\"phone\" is not one of desktop, mobile, tablet"));
    assert!(message("country=Netherlands").contains("\"Netherlands\" is not a country's two letters"));
    let parameter = message("contry=NL");
    assert!(
        parameter.contains("did you mean country?") && parameter.contains("interval_preset, timezone"),
        "{parameter}"
    );
    for query in ["country=", "device=&device=unknown&not_source=import", "not_country=NL"] {
        read(query).expect(query);
    }
}

/// What the list of known parameters names is read: none of them is unknown.
#[test]
fn every_parameter_that_is_named_is_known() {
    for name in PARAMETERS {
        let errors = read(&format!("{name}=x")).err().unwrap_or_default();
        assert!(errors.iter().all(|error| !error.message.starts_with("unknown")), "{name}: {errors:?}");
    }
}

proptest! {
    #[test]
    fn any_query_is_a_request_or_named_errors(query in "[a-z_=&%0-9T:+-]{0,200}") {
        if let Err(errors) = read(&query) {
            prop_assert!(!errors.is_empty());
        }
    }
}
