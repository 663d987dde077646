//! Where clicks come from, by a geography database that is replaced while the binary runs.

use std::time::Duration;

use processor::geo::testing::{city, mmdb};
use serde_json::Value;
use tests::node::Node;

use crate::binary;

/// Longer than a click takes to be in a report, on a busy machine in a debug build.
const PATIENCE: Duration = Duration::from_secs(60);

fn groups(report: &Value) -> Vec<(String, u64)> {
    let rows = report["data"].as_array().unwrap().iter();
    let unknown = ("unknown".to_owned(), report["unknown"]["clicks"].as_u64().unwrap());
    rows.map(|row| (row["value"].as_str().unwrap().to_owned(), row["clicks"].as_u64().unwrap()))
        .chain([unknown])
        .collect()
}

async fn click(node: &Node, address: &str, country: &str) {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let request = client.get(format!("http://127.0.0.1:{}/k", node.redirect));
    let request =
        request.header("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0");
    let request = request.header("x-forwarded-for", address).header("x-country", country);
    assert_eq!(request.send().await.unwrap().status(), 302);
}

#[tokio::test]
async fn places_are_looked_up_and_the_file_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("places.mmdb");
    let places = |name: &str| {
        mmdb("City", &[("203.0.113.0/24", city("NL", "NH", name)), ("2001:db8::/32", city("FR", "IDF", "Paris"))])
    };
    std::fs::write(&path, places("Amsterdam")).unwrap();
    let settings = format!("[edge]\ncountry_header = \"x-country\"\n[geo]\nmmdb = {path:?}\n");
    let mut node = Node::new(binary(), "domains = [\"127.0.0.1\"]", &settings).unwrap();
    node.start().await.unwrap();
    node.ok(&["link", "add", "https://example.com/", "--code", "k"]).unwrap();
    for (address, country) in [("203.0.113.7", ""), ("203.0.113.7", "BE"), ("2001:db8::7", ""), ("198.51.100.7", "")] {
        click(&node, address, country).await;
    }
    let by = |dimension: &str| format!("/v1/reports/clicks?code=k&group_by={dimension}");
    let all = |report: &Value| report["totals"]["clicks"] == 4;
    let report = node.wait_for(&by("country"), PATIENCE, all).await.unwrap();
    let known = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<Vec<_>>();
    let mut countries = groups(&report);
    countries.sort();
    assert_eq!(countries, known(&[("BE", 1), ("FR", 1), ("NL", 1), ("unknown", 1)]));
    let mut cities = groups(&node.get(&by("city")).await.unwrap());
    cities.sort();
    assert_eq!(cities, known(&[("Amsterdam", 1), ("Paris", 1), ("unknown", 2)]), "the edge's country stands alone");
    assert_eq!(groups(&node.get(&by("continent")).await.unwrap()), known(&[("EU", 3), ("unknown", 1)]));

    std::fs::write(&path, b"no database").unwrap();
    node.log_says("stays in force").await.unwrap();
    let newer = folder.path().join("newer.mmdb");
    std::fs::write(&newer, places("Haarlem")).unwrap();
    std::fs::rename(&newer, &path).unwrap();
    node.log_says("a newer geography database is in force").await.unwrap();
    click(&node, "203.0.113.7", "").await;
    let path = "/v1/reports/clicks?code=k&group_by=city&city=Haarlem";
    node.wait_for(path, PATIENCE, |report| report["totals"]["clicks"] == 1).await.unwrap();
    node.stop().await.unwrap();
}

#[test]
fn a_database_that_can_not_be_used_is_named_at_the_start() {
    let node = Node::new(binary(), "", "[geo]\nmmdb = \"nowhere.mmdb\"\n").unwrap();
    let output = node.cli(&["up"]).unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("geo.mmdb") && told.contains("nowhere.mmdb can't be read"), "{told}");
}
