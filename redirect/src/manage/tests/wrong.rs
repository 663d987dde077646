//! Input that is wrong in each way it can be.

use super::*;

#[tokio::test]
async fn every_field_at_fault_is_named() {
    let api = Api::new().await;
    let good = json!({"destination": DESTINATION});
    for (wrong, fields) in [
        (json!({"destination": null}), vec!["destination"]),
        (json!({"destination": 7}), vec!["destination"]),
        (json!({"destination": "javascript:alert(1)"}), vec!["destination"]),
        (json!({"destination": "https://sho.rt/x"}), vec!["destination"]),
        (json!({"code": "a/b"}), vec!["code"]),
        (json!({"code": 5}), vec!["code"]),
        (json!({"domain": "elsewhere.example"}), vec!["domain"]),
        (json!({"analytics": "some"}), vec!["analytics"]),
        (json!({"tags": "a"}), vec!["tags"]),
        (json!({"tags": ["a", 1]}), vec!["tags"]),
        (json!({"destiny": "x", "revision": 3}), vec!["destiny", "revision"]),
        (json!({"code": "a b", "title": "a\nb"}), vec!["code", "title"]),
    ] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let answer = api.call(&api.write, "POST", "/v1/links", body).await;
        assert_eq!(answer.problem(400), fields, "{wrong}");
    }
    assert_eq!(api.call(&api.write, "POST", "/v1/links", json!({})).await.problem(400), ["destination"]);
    assert_eq!(api.call(&api.write, "POST", "/v1/links", Value::Null).await.problem(400), ["destination"]);
    assert_eq!(api.call(&api.write, "POST", "/v1/links?x=1", good).await.problem(400), ["x"]);

    api.add(&api.write, "a").await;
    for (body, field) in [
        (json!({"destination": null}), "destination"),
        (json!({"analytics": null}), "analytics"),
        (json!({"code": "b"}), "code"),
    ] {
        assert_eq!(api.call(&api.write, "PATCH", "/v1/links/a", body).await.problem(400), [field]);
    }
    for body in [json!({}), json!({"reason": ""}), json!({"reason": "a\u{0}b"})] {
        assert_eq!(api.call(&api.write, "POST", "/v1/links/a/disable", body).await.problem(400), ["reason"]);
    }
    let body = json!({"reason": "r"});
    assert_eq!(api.call(&api.write, "POST", "/v1/links/a/enable", body).await.problem(400), ["reason"]);
    assert_eq!(api.get(&api.write, "/v1/links/a").await.body["revision"], 1);
}

#[tokio::test]
async fn a_field_given_twice_is_named() {
    let api = Api::new().await;
    api.add(&api.write, "a").await;
    for (method, uri, body, fields) in [
        (
            "POST",
            "/v1/links",
            r#"{"destination": "https://example.com/1", "destination": "https://example.com/2"}"#,
            vec!["destination"],
        ),
        ("POST", "/v1/links", r#"{"destination": null, "destination": "https://example.com/2"}"#, vec!["destination"]),
        ("PATCH", "/v1/links/a", r#"{"title": "a", "\u0074itle": "a"}"#, vec!["title"]),
        ("POST", "/v1/links/a/disable", r#"{"reason": "a", "reason": "b"}"#, vec!["reason"]),
        ("POST", "/v1/links/a/enable", r#"{"x": 1, "x": 2}"#, vec!["x", "x"]),
    ] {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("authorization", format!("Bearer {}", api.write));
        let answer = api.send(request.header("content-type", "application/json"), body).await;
        assert_eq!(answer.problem(400), fields, "{body}");
    }
    assert_eq!(api.get(&api.write, "/v1/links/a").await.body["revision"], 1);
}

#[tokio::test]
async fn bodies_that_are_no_json_object() {
    let api = Api::new().await;
    let request = |content_type: &str| {
        let request = Request::post("/v1/links").header("authorization", format!("Bearer {}", api.write));
        if content_type.is_empty() { request } else { request.header("content-type", content_type) }
    };
    let good = json!({"destination": DESTINATION}).to_string();
    for body in ["{", "", "[]", "\"x\"", "nul", "{\"destination\":\"https://example.com/\"} x", &"[".repeat(10_000)] {
        api.send(request("application/json"), body.to_owned()).await.problem(400);
    }
    api.send(request("application/json"), vec![b'{', b'"', 0xff, b'"', b':', b'1', b'}']).await.problem(400);
    for content_type in ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"] {
        api.send(request(content_type), good.clone()).await.problem(415);
    }
    for content_type in ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"] {
        assert_eq!(api.send(request(content_type), good.clone()).await.status, 201);
    }
    let max = ManageConfig::default().max_body;
    let padded = |size: usize| format!("{good}{}", " ".repeat(size - good.len()));
    assert_eq!(api.send(request("application/json"), padded(max)).await.status, 201);
    api.send(request("application/json"), padded(max + 1)).await.problem(413);
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let (_dir, store) = testing::store().await;
    let token = store.add_operator_token(UtcMicros::now()).await.unwrap();
    let config = ManageConfig { body_deadline: Duration::ZERO, ..ManageConfig::default() };
    let router = router(store, Arc::new(super::uploads::InMemory::default()), Arc::new(Taking), config);
    let body = Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let request = Request::post("/v1/links").header("authorization", format!("Bearer {}", token.reveal()));
    let request = request.header("content-type", "application/json").body(body).unwrap();
    Answer::of(router.oneshot(request).await.unwrap()).await.problem(408);
}

#[tokio::test]
async fn paths_and_methods_that_are_not_there() {
    let api = Api::new().await;
    for uri in ["/", "/v1", "/v1/links/", "/v1/links/a/b", "/v1/links/a/disable/", "/v1/links/%ff", "/v1/links/a%2Fb"] {
        api.get(&api.read, uri).await.problem(404);
    }
    for (method, uri, allow) in [
        ("PUT", "/v1/links", "GET,HEAD,POST"),
        ("POST", "/v1/links/a", "GET,HEAD,PATCH,DELETE"),
        ("GET", "/v1/links/a/disable", "POST"),
    ] {
        let answer = api.call(&api.write, method, uri, Value::Null).await;
        answer.problem(405);
        assert_eq!(answer.header(header::ALLOW), allow);
    }
}

#[tokio::test]
async fn what_ails_the_store_is_not_for_tenants() {
    let api = Api::new().await;
    testing::break_links(&api.store).await;
    for answer in [api.get(&api.read, "/v1/links").await, api.add(&api.write, "a").await] {
        answer.problem(503);
        assert_eq!(answer.header(header::RETRY_AFTER), "1");
        assert_eq!(answer.body["detail"], "the link store doesn't answer; try again");
    }
}
