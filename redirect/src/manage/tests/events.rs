//! Events posted: for whom they are taken, and what is refused.

use super::*;

impl Api {
    async fn post(&self, token: &str, query: &str, body: impl Into<Body>) -> Answer {
        let request = Request::builder().method("POST").uri(format!("/v1/events{query}"));
        self.send(request.header("authorization", format!("Bearer {token}")), body).await
    }

    /// For whom, and as what, a post is taken: by the length of the words, as the stand-in says.
    async fn is_taken_as(&self, token: &str, query: &str, told: &str) {
        let answer = self.post(token, query, "{}").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.body["duplicates"], told.len(), "{query}: {told}");
    }
}

#[tokio::test]
async fn events_are_of_the_tokens_workspace() {
    let api = Api::new().await;
    let answer = api.post(&api.write, "?provider=nginx", "{}\n").await;
    assert_eq!(answer.status, 200);
    let expected = json!({"accepted": 3, "duplicates": 20, "rejected": [{"line": 3, "reason": "unknown_code"}]});
    assert_eq!(answer.body, expected);
    api.is_taken_as(&api.acme, "", "acme origin none").await;
    api.is_taken_as(&api.acme, "?as=import&provider=bit.ly", "acme import bit.ly").await;
    api.is_taken_as(&api.operator, "", "default origin none").await;
    api.is_taken_as(&api.operator, "?workspace=acme", "acme origin none").await;
    assert_eq!(api.post(&api.acme, "?workspace=default", "{}").await.problem(403), [""; 0]);
    assert_eq!(api.post(&api.read, "", "{}").await.problem(403), [""; 0]);
    assert_eq!(api.post("hw_nobody", "", "{}").await.problem(401), [""; 0]);
}

#[tokio::test]
async fn what_is_wrong_with_a_post_is_named() {
    let api = Api::new().await;
    let post = async |query: &str| api.post(&api.write, query, "{}").await;
    assert_eq!(post("?provider=acme").await.problem(400), ["provider"]);
    assert_eq!(post("?as=edge&provider=nginx").await.problem(400), ["as"]);
    assert_eq!(post("?provder=nginx").await.problem(400), ["provder"]);
    assert_eq!(api.get(&api.write, "/v1/events").await.status, 405);
    for (body, status) in [("cut", 400), ("much", 413), ("down", 503)] {
        let answer = api.post(&api.write, "", body).await;
        answer.problem(status);
        assert!(!answer.body.to_string().contains("secret"), "{}", answer.body);
    }
    let answer = api.post(&api.write, "", vec![b' '; (10 << 20) + 1]).await;
    answer.problem(413);
    assert!(answer.body["detail"].as_str().unwrap().contains("10485760 bytes"), "{}", answer.body);
    let packed = Request::builder().method("POST").uri("/v1/events").header("content-encoding", "br");
    api.send(packed.header("authorization", format!("Bearer {}", api.write)), "x").await.problem(415);
}
