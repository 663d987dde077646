//! What the calls do, and for whom.

use super::*;

#[tokio::test]
async fn a_link_from_its_making_to_its_tombstone() {
    let api = Api::new().await;
    let made = api.add(&api.write, "née").await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.header(header::CACHE_CONTROL), "no-store");
    let location = made.header(header::LOCATION).to_owned();
    let (id, created) = (&made.body["id"], &made.body["created_at"]);
    assert!(created.as_str().unwrap().ends_with('Z'));
    let expected = json!({
        "id": id, "workspace": "default", "domain": "sho.rt", "code": "née", "short_url": "https://sho.rt/n%C3%A9e",
        "destination": DESTINATION, "analytics": "billed", "status": "active", "checked_at": null, "revision": 1,
        "created_at": created, "title": null, "tags": [],
    });
    assert_eq!(made.body, expected);
    assert_eq!(api.get(&api.read, &location).await.body, expected);

    let change = json!({"destination": "https://example.com/2", "title": "T", "tags": ["a"], "analytics": "internal"});
    let changed = api.call(&api.write, "PATCH", &location, change).await;
    assert_eq!((changed.status, &changed.body["revision"], &changed.body["title"]), (200, &json!(2), &json!("T")));
    let at = |verb: &str| format!("/v1/links/n%C3%A9e/{verb}?domain=sho.rt");
    let down = api.call(&api.write, "POST", &at("disable"), json!({"reason": "phishing"})).await;
    assert_eq!(
        (down.status, &down.body["status"], &down.body["reason"]),
        (200, &json!("disabled"), &json!("phishing"))
    );
    let up = api.call(&api.write, "POST", &at("enable"), Value::Null).await;
    assert_eq!((up.status, &up.body["status"], &up.body["revision"]), (200, &json!("active"), &json!(4)));

    for _ in 0..2 {
        let gone = api.call(&api.write, "DELETE", &location, Value::Null).await;
        assert_eq!((gone.status, gone.body), (204, Value::Null));
    }
    assert_eq!(api.get(&api.read, &location).await.body["status"], "deleted");
    api.add(&api.write, "née").await.problem(409);
    api.add(&api.acme, "née").await.problem(409);
    for (method, uri, body) in [
        ("PATCH", location.clone(), json!({"title": "x"})),
        ("POST", at("enable"), json!({})),
        ("POST", at("disable"), json!({"reason": "r"})),
    ] {
        api.call(&api.write, method, &uri, body).await.problem(409);
    }
}

#[tokio::test]
async fn pages_are_followed_by_cursor() {
    let api = Api::new().await;
    for n in 0..5 {
        api.add(&api.write, &n.to_string()).await;
    }
    api.add(&api.acme, "theirs").await;
    let mut codes = Vec::new();
    let mut uri = "/v1/links?limit=2".to_owned();
    loop {
        let page = api.get(&api.read, &uri).await;
        assert_eq!(page.status, 200);
        codes
            .extend(page.body["data"].as_array().unwrap().iter().map(|link| link["code"].as_str().unwrap().to_owned()));
        match page.body["next_cursor"].as_str() {
            Some(cursor) => uri = format!("/v1/links?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(codes, ["4", "3", "2", "1", "0"]);
    let count = async |token: &str, uri: &str| api.get(token, uri).await.body["data"].as_array().unwrap().len();
    assert_eq!(count(&api.operator, "/v1/links").await, 6);
    assert_eq!(count(&api.operator, "/v1/links?workspace=acme").await, 1);
    assert_eq!(count(&api.acme, "/v1/links").await, 1);
    assert_eq!(count(&api.read, "/v1/links?status=disabled").await, 0);
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=", "cursor"),
        ("status=gone", "status"),
        ("limt=1", "limt"),
        ("limit=1&limit=2", "limit"),
    ] {
        assert_eq!(api.get(&api.read, &format!("/v1/links?{query}")).await.problem(400), [field], "{query}");
    }
}

#[tokio::test]
async fn nothing_is_answered_without_a_token() {
    let api = Api::new().await;
    let stranger = format!("Bearer hw_{}", "0".repeat(64));
    for uri in ["/v1/links", "/v1/links/a", "/nowhere"] {
        for authorization in [None, Some("Bearer"), Some("Bearer x"), Some("Basic eDp5"), Some(stranger.as_str())] {
            let request =
                authorization.into_iter().fold(Request::get(uri), |r, value| r.header("authorization", value));
            let answer = api.send(request, Body::empty()).await;
            answer.problem(401);
            assert!(answer.header(header::WWW_AUTHENTICATE).starts_with("Bearer"));
        }
    }
    let twice = Request::get("/v1/links").header("authorization", format!("Bearer {}", api.read));
    api.send(twice.header("authorization", stranger), Body::empty()).await.problem(401);
    let any_case = Request::get("/v1/links").header("authorization", format!("bearer {}", api.read));
    assert_eq!(api.send(any_case, Body::empty()).await.status, 200);
}

#[tokio::test]
async fn reading_is_not_writing() {
    let api = Api::new().await;
    api.add(&api.write, "a").await;
    for (method, uri, body) in [
        ("POST", "/v1/links", json!({"destination": DESTINATION})),
        ("PATCH", "/v1/links/a", json!({"title": "x"})),
        ("DELETE", "/v1/links/a", Value::Null),
        ("POST", "/v1/links/a/disable", json!({"reason": "r"})),
        ("POST", "/v1/links/a/enable", Value::Null),
    ] {
        let answer = api.call(&api.read, method, uri, body).await;
        answer.problem(403);
        assert!(answer.header(header::WWW_AUTHENTICATE).contains("insufficient_scope"));
    }
    assert_eq!(api.get(&api.read, "/v1/links/a").await.body["revision"], 1);
}

#[tokio::test]
async fn another_workspaces_link_is_no_link() {
    let api = Api::new().await;
    api.add(&api.acme, "a").await;
    for (method, path, body) in [
        ("GET", "", Value::Null),
        ("PATCH", "", json!({"title": "x"})),
        ("DELETE", "", Value::Null),
        ("POST", "/disable", json!({"reason": "r"})),
        ("POST", "/enable", Value::Null),
    ] {
        let theirs = api.call(&api.write, method, &format!("/v1/links/a{path}"), body.clone()).await;
        theirs.problem(404);
        let nobodys = api.call(&api.write, method, &format!("/v1/links/b{path}"), body).await;
        assert_eq!(theirs.body.to_string().replace("\\\"a\\\"", "\\\"b\\\""), nobodys.body.to_string());
    }
    assert_eq!(api.get(&api.acme, "/v1/links/a").await.body["revision"], 1);
    // Which workspaces there are is nothing a tenant learns either.
    let other = api.get(&api.write, "/v1/links?workspace=acme").await;
    other.problem(403);
    assert_eq!(other.body, api.get(&api.write, "/v1/links?workspace=nobody").await.body);
    assert_eq!(api.get(&api.write, "/v1/links?workspace=default").await.status, 200);
}

#[tokio::test]
async fn an_operator_acts_for_the_workspace_it_names() {
    let api = Api::new().await;
    let link =
        |code: &str, workspace: Option<&str>| json!({"destination": DESTINATION, "code": code, "workspace": workspace});
    for (uri, body, owner) in [
        ("/v1/links", link("a", None), "default"),
        ("/v1/links", link("b", Some("acme")), "acme"),
        ("/v1/links?workspace=acme", link("c", None), "acme"),
        ("/v1/links?workspace=acme", link("d", Some("acme")), "acme"),
    ] {
        let made = api.call(&api.operator, "POST", uri, body).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let (domain, code) = (made.body["domain"].as_str().unwrap(), made.body["code"].as_str().unwrap());
        assert_eq!(&*api.store.lookup(domain, code).await.unwrap().unwrap().workspace, owner);
    }
    let body = link("e", Some("nobody"));
    assert_eq!(api.call(&api.operator, "POST", "/v1/links", body).await.problem(400), ["workspace"]);
    let body = link("e", Some("default"));
    assert_eq!(api.call(&api.operator, "POST", "/v1/links?workspace=acme", body).await.problem(400), ["workspace"]);
    assert_eq!(api.get(&api.operator, "/v1/links?workspace=nobody").await.problem(400), ["workspace"]);
    assert_eq!(api.get(&api.operator, "/v1/links/b").await.status, 200);
    api.get(&api.operator, "/v1/links/b?workspace=default").await.problem(404);
    api.call(&api.operator, "DELETE", "/v1/links/a?workspace=acme", Value::Null).await.problem(404);
    assert_eq!(api.call(&api.operator, "DELETE", "/v1/links/a", Value::Null).await.status, 204);
}

#[tokio::test]
async fn an_operator_sees_all_and_changes_no_workspaces_link_without_naming_it() {
    let api = Api::new().await;
    api.add(&api.acme, "a").await;
    let calls = [
        ("PATCH", "", json!({"title": "x"}), 200),
        ("POST", "/disable", json!({"reason": "r"}), 200),
        ("POST", "/enable", json!({}), 200),
        ("DELETE", "", Value::Null, 204),
    ];
    for (method, path, body, _) in &calls {
        for query in ["", "?domain=sho.rt"] {
            let uri = format!("/v1/links/a{path}{query}");
            let refused = api.call(&api.operator, method, &uri, body.clone()).await;
            refused.problem(404);
            let detail = refused.body["detail"].as_str().unwrap();
            assert!(detail.contains("?workspace=NAME") && detail.contains("\"default\""), "{detail}");
        }
        let seen = api.get(&api.operator, "/v1/links/a").await;
        assert_eq!((seen.status, &seen.body["revision"]), (200, &json!(1)), "{method} {path}");
        // who names it is told as anybody is that there is none
        let named = api.call(&api.operator, method, "/v1/links/b?workspace=acme", body.clone()).await;
        assert!(!named.body["detail"].as_str().unwrap_or_default().contains("?workspace="), "{}", named.body);
    }
    for (method, path, body, status) in calls {
        let uri = format!("/v1/links/a{path}?workspace=acme");
        assert_eq!(api.call(&api.operator, method, &uri, body).await.status, status, "{method} {path}");
    }
}
