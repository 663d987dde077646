use super::super::testing::{Place, on_each_database};
use super::super::{Change, NewLink};
use super::*;

const NOW: UtcMicros = UtcMicros(1_773_480_413_123_456);

on_each_database!(
    domains_that_are_no_longer_served_are_named,
    a_link_of_another_workspace_is_not_found,
    without_a_domain_the_default_is_meant_else_the_only_one,
    without_a_domain_none_of_several_is_guessed,
    lookup_is_exact,
    pages_hold_every_link_once_newest_first,
    a_reader_never_waits_for_a_writer,
);

fn which(workspace: Option<&str>, domain: Option<&str>, code: &str) -> Which {
    Which { workspace: workspace.map(Into::into), domain: domain.map(Into::into), code: code.into() }
}

async fn add(store: &LinkStore, workspace: &str, domain: &str, code: &str) -> Link {
    let new = NewLink {
        workspace: workspace.into(),
        domain: Some(domain.into()),
        code: Some(code.into()),
        ..NewLink::to("https://example.com/")
    };
    store.create(new, NOW).await.unwrap()
}

async fn domains_that_are_no_longer_served_are_named(place: Place) {
    let store = place.store().await;
    for (domain, code) in [("sho.rt", "a"), ("sho.rt", "b"), ("second.example", "a")] {
        add(&store, "default", domain, code).await;
    }
    assert!(store.unserved_domains().await.unwrap().is_empty());
    let other = place.store_with(&["sho.rt", "third.example"]).await;
    assert_eq!(other.unserved_domains().await.unwrap(), ["second.example"]);
}

async fn a_link_of_another_workspace_is_not_found(place: Place) {
    let store = place.store().await;
    store.add_workspace("acme", NOW).await.unwrap();
    let link = add(&store, "acme", "sho.rt", "a").await;
    assert_eq!(store.get(&which(Some("acme"), None, "a")).await.unwrap(), link);
    assert_eq!(store.get(&which(None, None, "a")).await.unwrap(), link);
    let theirs = store.get(&which(Some("default"), None, "a")).await.unwrap_err().to_string();
    let nobodys = store.get(&which(Some("default"), None, "b")).await.unwrap_err().to_string();
    assert_eq!(theirs.replace('a', "b"), nobodys.replace('a', "b"));
    let change = store.change(&which(Some("default"), None, "a"), &Change::Delete, NOW).await;
    assert!(matches!(change, Err(LinkError::NotFound { .. })));
}

async fn without_a_domain_the_default_is_meant_else_the_only_one(place: Place) {
    let store = place.store().await;
    let second = add(&store, "default", "second.example", "a").await;
    assert_eq!(store.get(&which(None, None, "a")).await.unwrap(), second);
    let first = add(&store, "default", "sho.rt", "a").await;
    assert_eq!(store.get(&which(None, None, "a")).await.unwrap(), first);
    assert_eq!(store.get(&which(None, Some("Second.example."), "a")).await.unwrap(), second);
    assert!(matches!(store.get(&which(None, Some("other"), "a")).await, Err(LinkError::NotFound { .. })));
}

async fn without_a_domain_none_of_several_is_guessed(place: Place) {
    let store = place.store().await;
    add(&store, "default", "second.example", "a").await;
    add(&store, "default", "sho.rt", "a").await;
    let moved = place.store_with(&["third.example"]).await;
    let LinkError::Invalid(errors) = moved.get(&which(None, None, "a")).await.unwrap_err() else { panic!() };
    assert_eq!(errors[0].field, "domain");
    assert_eq!(moved.get(&which(None, Some("sho.rt"), "a")).await.unwrap().domain, "sho.rt");
}

async fn lookup_is_exact(place: Place) {
    let store = place.store().await;
    let link = add(&store, "default", "sho.rt", "Ab").await;
    let target = store.lookup("sho.rt", "Ab").await.unwrap().unwrap();
    assert_eq!((target.link_id, &*target.workspace, target.revision), (link.id, "default", 1));
    assert_eq!((target.status, target.analytics, target.reason), (LinkStatus::Active, Analytics::Billed, None));
    for (domain, code) in [("sho.rt", "ab"), ("SHO.RT", "Ab"), ("second.example", "Ab"), ("sho.rt", "Ab' OR '1'='1")] {
        assert_eq!(store.lookup(domain, code).await.unwrap(), None, "{domain} {code}");
    }
}

async fn pages_hold_every_link_once_newest_first(place: Place) {
    let store = place.store().await;
    store.add_workspace("acme", NOW).await.unwrap();
    for n in 0..7 {
        add(&store, if n % 3 == 2 { "acme" } else { "default" }, "sho.rt", &n.to_string()).await;
    }
    let gone = which(None, None, "4");
    store.change(&gone, &Change::Delete, NOW).await.unwrap();
    let pages = async |workspace: Option<&str>, status, limit| {
        let mut list = ListLinks { workspace: workspace.map(Into::into), status, after: None, limit };
        let mut codes = Vec::new();
        loop {
            let page = store.list(&list).await.unwrap();
            assert!(page.links.len() <= limit as usize);
            codes.extend(page.links.into_iter().map(|link| link.code));
            match page.next {
                Some(next) => list.after = Some(next),
                None => return codes.join(""),
            }
        }
    };
    for limit in [1, 2, 3, 6, 100] {
        assert_eq!(pages(None, None, limit).await, "653210");
        assert_eq!(pages(Some("default"), None, limit).await, "6310");
        assert_eq!(pages(Some("acme"), None, limit).await, "52");
        assert_eq!(pages(None, Some(LinkStatus::Deleted), limit).await, "4");
    }
}

async fn a_reader_never_waits_for_a_writer(place: Place) {
    let store = place.store().await;
    add(&store, "default", "sho.rt", "a").await;
    let other = place.store().await;
    let mut writing = other.pools.write().await.unwrap();
    writing.query("UPDATE links SET status = 'disabled'").run().await.unwrap();
    let seen = store.lookup("sho.rt", "a").await.unwrap().unwrap();
    assert_eq!(seen.status, LinkStatus::Active);
    writing.commit().await.unwrap();
    assert_eq!(store.lookup("sho.rt", "a").await.unwrap().unwrap().status, LinkStatus::Disabled);
}
