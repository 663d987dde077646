use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use schemas::Click;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::testlake::{TestLake, at, click};

struct Page {
    status: StatusCode,
    headers: header::HeaderMap,
    text: String,
}

impl Page {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

fn lake() -> TestLake {
    let evil = Click { code: "<script>alert(1)</script>".into(), ..click(2, schemas::UtcMicros::now()) };
    TestLake::with(&[
        click(1, at("2026-03-14T12:00:00Z")),
        evil,
        Click { workspace: "b".into(), ..click(3, at("2026-03-14T12:00:00Z")) },
    ])
}

async fn send(service: &QueryService, request: Request<Body>) -> Page {
    let response: Response<Body> = router(service.clone()).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Page { status: parts.status, headers: parts.headers, text: String::from_utf8_lossy(&bytes).into_owned() }
}

async fn get_as(service: &QueryService, token: &str, path: &str, accept: &str) -> Page {
    let request = Request::get(path)
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::ACCEPT, accept)
        .body(Body::empty());
    send(service, request.unwrap()).await
}

async fn post(service: &QueryService, token: &str, sql: &str) -> Page {
    let body = serde_json::json!({ "sql": sql }).to_string();
    let request = Request::post("/v1/sql")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body));
    send(service, request.unwrap()).await
}

#[tokio::test]
async fn nothing_is_reachable_without_a_token() {
    let lake = lake();
    let service = lake.service();
    for path in ["/v1/reports/clicks", "/v1/status", "/v1/openapi.json"] {
        for token in ["", "wrong", "t_a"] {
            let page = get_as(&service, token, path, "*/*").await;
            assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{path} {token}");
            assert_eq!(page.header("content-type"), "application/problem+json");
            assert_eq!(page.header("www-authenticate"), "Bearer");
        }
    }
    assert_eq!(post(&service, "wrong", "select 1").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(get_as(&service, "op", "/v1/nothing", "*/*").await.status, StatusCode::NOT_FOUND);
    assert_eq!(get_as(&service, "op", "/v1/sql", "*/*").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

/// A token that nobody can check is not a bad one: its owner tries again.
#[tokio::test]
async fn a_token_that_cannot_be_checked_is_no_wrong_token() {
    let lake = lake();
    let service = lake.service();
    let mut pages = vec![post(&service, "away", "select 1").await];
    for path in ["/v1/reports/clicks", "/v1/status", "/v1/openapi.json"] {
        pages.push(get_as(&service, "away", path, "*/*").await);
    }
    for page in &pages {
        assert_eq!((page.status, page.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, "1"));
        assert_eq!(page.header("content-type"), "application/problem+json");
        assert!(page.header("www-authenticate").is_empty() && !page.text.contains("db.internal"), "{}", page.text);
    }
    let session = service.sessions().begin("away", std::time::Instant::now(), false);
    let home = send(&service, Request::get("/").header("cookie", session).body(Body::empty()).unwrap()).await;
    let form = Request::post("/login").header("content-type", "application/x-www-form-urlencoded");
    let form = form.header("sec-fetch-site", "same-origin").body(Body::from("token=away")).unwrap();
    for page in [home, send(&service, form).await] {
        assert_eq!((page.status, page.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, "1"), "{}", page.text);
        assert!(page.text.contains("the link store doesn't answer") && page.header("set-cookie").is_empty());
    }
}

#[tokio::test]
async fn a_report_has_the_contracts_shape() {
    let lake = lake();
    let service = lake.service();
    let page = get_as(&service, "t-a", "/v1/reports/clicks?code=x&interval_preset=all&interval=month", "*/*").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let report = page.json();
    assert_eq!(report["totals"]["clicks"], 1);
    assert_eq!(report["totals"]["by_class"]["human"], 1);
    for key in [
        "as_of",
        "complete_through",
        "final_through",
        "sampled",
        "lowest_rate",
        "confidence",
        "visitors",
        "restated_at",
        "kept_from",
        "gaps",
        "changing",
        "remark",
        "note",
    ] {
        assert!(report["meta"].get(key).is_some(), "{key}");
    }
    for key in ["start", "end", "clicks", "clicks_low", "clicks_high", "visitors"] {
        assert!(report["data"][0].get(key).is_some(), "{key}");
    }
    assert_eq!(report["query"]["code"], serde_json::json!(["x"]));
    assert_eq!((&report["other"]["clicks"], &report["unknown"]["clicks"]), (&0.into(), &0.into()));
}

#[tokio::test]
async fn a_report_comes_in_other_formats_with_its_meta_in_headers() {
    let lake = lake();
    let service = lake.service();
    let path = "/v1/reports/clicks?start=2026-03-14&end=2026-03-14&group_by=code";
    let page = get_as(&service, "t-a", path, "text/csv").await;
    assert_eq!(page.text, "value,clicks,clicks_low,clicks_high,visitors\nx,1,1,1,1\n");
    let meta: Value = serde_json::from_str(page.header("highwater-meta")).unwrap();
    assert_eq!(meta["sampled"], false);
    let page = get_as(&service, "t-a", "/v1/reports/clicks?end=2026-03-14", "text/csv").await;
    assert_eq!(page.text, "clicks,clicks_low,clicks_high,visitors\n1,1,1,1\n");
    for media_type in ["application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"] {
        let page = get_as(&service, "t-a", path, media_type).await;
        assert_eq!((page.status, page.header("content-type")), (StatusCode::OK, media_type));
    }
    assert_eq!(get_as(&service, "t-a", path, "image/png").await.status, StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn wrong_parameters_are_problems_that_name_them() {
    let lake = lake();
    let service = lake.service();
    let page = get_as(&service, "t-a", "/v1/reports/clicks?timezone=Mars&colour=red", "*/*").await;
    assert_eq!((page.status, page.header("content-type")), (StatusCode::BAD_REQUEST, "application/problem+json"));
    let problem = page.json();
    assert_eq!((&problem["status"], &problem["title"]), (&400.into(), &"Bad Request".into()));
    assert_eq!(problem["errors"][0]["field"], "timezone");
    assert_eq!(problem["errors"][1]["field"], "colour");
}

#[tokio::test]
async fn sql_is_for_operators_and_errors_are_problems() {
    let lake = lake();
    let service = lake.service();
    let page = post(&service, "op", "select count(*) as n from clicks").await;
    assert_eq!((page.status, page.text.as_str()), (StatusCode::OK, r#"[{"n":3}]"#));
    assert_eq!(post(&service, "t-a", "select 1").await.status, StatusCode::FORBIDDEN);
    let page = post(&service, "op", "drop table clicks").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    assert_eq!(page.json()["errors"][0]["field"], "sql");
    let request = Request::post("/v1/sql").header(header::AUTHORIZATION, "Bearer op").body(Body::from("select 1"));
    let page = send(&service, request.unwrap()).await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, "application/problem+json")
    );
}

#[tokio::test]
async fn limits_are_problems_too() {
    let lake = lake();
    let mut config = lake.config();
    (config.max_rows, config.queued) = (1, 0);
    let service = lake.service_with(config);
    assert_eq!(post(&service, "op", "select * from clicks").await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let busy: Problem = crate::QueryError::Busy { retry_after: std::time::Duration::from_secs(1) }.into();
    let response = axum::response::IntoResponse::into_response(busy);
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "1");
}

#[tokio::test]
async fn what_broke_inside_is_not_told_outside() {
    let lake = lake();
    let log = lake.path(schemas::tables::Table::Clicks).join("_delta_log/00000000000000000001.json");
    std::fs::write(&log, "{\"add\": 7}\n").unwrap();
    let page = get_as(&lake.service(), "t-a", "/v1/reports/clicks", "*/*").await;
    assert_eq!(page.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!page.text.contains("delta") && !page.text.contains("json\""), "{}", page.text);
}

#[tokio::test]
async fn status_is_whole_for_operators_only() {
    let lake = lake();
    let service = lake.service();
    assert!(get_as(&service, "op", "/v1/status", "*/*").await.json().get("journals").is_some());
    assert!(get_as(&service, "t-a", "/v1/status", "*/*").await.json().get("journals").is_none());
}

#[tokio::test]
async fn the_description_names_every_route() {
    let lake = lake();
    let page = get_as(&lake.service(), "op", "/v1/openapi.json", "*/*").await;
    let description = page.json();
    assert!(description["openapi"].as_str().unwrap().starts_with("3."));
    for path in ["/v1/reports/clicks", "/v1/sql", "/v1/status", "/v1/openapi.json"] {
        assert!(description["paths"].get(path).is_some(), "{path}");
    }
}

#[tokio::test]
async fn the_description_has_what_a_reports_meta_says() {
    let lake = lake();
    let service = lake.service();
    let description = get_as(&service, "op", "/v1/openapi.json", "*/*").await.json();
    let described =
        description["components"]["schemas"]["Report"]["properties"]["meta"]["properties"].as_object().unwrap();
    let report = get_as(&service, "op", "/v1/reports/clicks?interval_preset=24h", "*/*").await.json();
    let said = report["meta"].as_object().unwrap();
    assert_eq!(said.keys().collect::<Vec<_>>(), described.keys().collect::<Vec<_>>());
}

#[tokio::test]
async fn the_description_has_what_status_says() {
    let lake = lake();
    let service = lake.service();
    let description = get_as(&service, "op", "/v1/openapi.json", "*/*").await.json();
    let described = &description["components"]["schemas"]["Status"];
    let said = get_as(&service, "op", "/v1/status", "*/*").await.json();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
    let parts = ["", "/stream", "/stream/partitions/0", "/journals/0", "/edge_logs", "/hot_links/0"];
    for part in parts {
        let path = part.replace("/0", "/items").replace('/', "/properties/").replace("/properties/items", "/items");
        let described = described.pointer(&format!("{path}/properties")).unwrap();
        assert_eq!(keys(said.pointer(part).unwrap()), keys(described), "{part}");
    }
}

async fn browse(service: &QueryService, cookie: &str, path: &str) -> Page {
    send(service, Request::get(path).header(header::COOKIE, cookie).body(Body::empty()).unwrap()).await
}

async fn log_in(service: &QueryService, token: &str) -> Page {
    let form = Request::post("/login").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    send(service, form.body(Body::from(format!("token={token}"))).unwrap()).await
}

#[tokio::test]
async fn a_browser_logs_in_looks_and_logs_out() {
    let lake = lake();
    let service = lake.service();
    assert_eq!(browse(&service, "", "/").await.header("location"), "/login");
    assert_eq!(browse(&service, "", "/login").await.status, StatusCode::OK);
    assert_eq!(log_in(&service, "wrong").await.status, StatusCode::UNAUTHORIZED);
    let page = log_in(&service, "t-a").await;
    assert_eq!(page.status, StatusCode::OK);
    let set = page.header("set-cookie").to_owned();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    let cookie = set.split(';').next().unwrap();
    let page = browse(&service, cookie, "/?range=24h").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.header("content-security-policy").contains("default-src 'none'"));
    assert!(page.text.contains("&lt;script&gt;alert(1)") && !page.text.contains("<script>alert"), "{}", page.text);
    assert!(page.text.contains("Complete through"));
    assert_eq!(browse(&service, cookie, "/v1/status").await.status, StatusCode::OK);
    let sql = Request::post("/v1/sql").header(header::COOKIE, cookie).body(Body::from("{}")).unwrap();
    assert_eq!(send(&service, sql).await.status, StatusCode::UNAUTHORIZED, "a cookie is for reading");
    let out = Request::post("/logout").header(header::COOKIE, cookie).body(Body::empty()).unwrap();
    assert!(send(&service, out).await.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(browse(&service, cookie, "/").await.header("location"), "/login");
}

#[tokio::test]
async fn page_and_csv_say_that_numbers_are_estimates() {
    let now = schemas::UtcMicros::now();
    let kept: Vec<Click> = (0..100).map(|n| Click { weight: 4.0, ..click(n, now) }).collect();
    let shed: Vec<Click> = (100..400).map(|n| click(n, now)).collect();
    let lake = TestLake::with(&kept);
    lake.add_shed(&shed, 0.25);
    let service = lake.service();
    let cookie = log_in(&service, "t-a").await.header("set-cookie").to_owned();
    let page = browse(&service, cookie.split(';').next().unwrap(), "/?range=7d").await;
    for told in [
        "<b>400</b><span>clicks by people, 337\u{2009}–\u{2009}472 at 95 %</span>",
        "<b>400</b><span>visitors, estimated</span>",
        ": 400 (337\u{2009}–\u{2009}472)</title>",
        "Estimated from a sample (at least 25.0 % kept); visitors: estimated with a standard error of 0.8 %",
    ] {
        assert!(page.text.contains(told), "{told}: {}", page.text);
    }
    let csv = get_as(&service, "t-a", "/v1/reports/clicks?group_by=code", "text/csv").await;
    assert_eq!(csv.text, "value,clicks,clicks_low,clicks_high,visitors\nx,400,337,472,400\n");
    let other: Value = serde_json::from_str(csv.header("highwater-other")).unwrap();
    assert_eq!((&other["clicks"], &other["clicks_low"]), (&0.into(), &0.into()));
    assert!(other["clicks_high"].as_u64() > Some(0), "{other}");
}

#[tokio::test]
async fn another_site_logs_nobody_in_or_out() {
    let lake = lake();
    let service = lake.service();
    let cookie = log_in(&service, "t-a").await.header("set-cookie").split(';').next().unwrap().to_owned();
    for (path, good) in [("/login", StatusCode::OK), ("/logout", StatusCode::SEE_OTHER)] {
        for (name, value, status) in [
            ("origin", "https://evil.example", StatusCode::FORBIDDEN),
            ("sec-fetch-site", "cross-site", StatusCode::FORBIDDEN),
            ("origin", "http://stats.example", good),
        ] {
            let form = Request::post(path)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .header(header::HOST, "stats.example")
                .header(header::COOKIE, &cookie)
                .header(name, value);
            let page = send(&service, form.body(Body::from("token=t-a")).unwrap()).await;
            assert_eq!(page.status, status, "{path} {name}: {value}");
            assert_eq!(page.header("set-cookie").is_empty(), status == StatusCode::FORBIDDEN);
        }
    }
}

#[tokio::test]
async fn a_login_link_works_once() {
    let lake = lake();
    let service = lake.service();
    let path = format!("/login?key={}", service.issue_login_key("op"));
    let look = send(&service, Request::head(&path).body(Body::empty()).unwrap()).await;
    assert_eq!((look.status, look.header("set-cookie")), (StatusCode::OK, ""), "a preview's look is no login");
    let page = browse(&service, "", &path).await;
    assert_eq!(page.status, StatusCode::OK);
    let cookie = page.header("set-cookie").split(';').next().unwrap().to_owned();
    assert!(browse(&service, &cookie, "/").await.text.contains("all workspaces"));
    assert_eq!(browse(&service, "", &path).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn assets_are_ours() {
    let lake = lake();
    let service = lake.service();
    for (path, media_type) in [("/assets/style.css", "text/css"), ("/assets/refresh.js", "text/javascript")] {
        let page = browse(&service, "", path).await;
        assert_eq!((page.status, page.header("content-type")), (StatusCode::OK, media_type));
        assert!(!page.text.contains("://"), "{path} loads from elsewhere");
    }
}
