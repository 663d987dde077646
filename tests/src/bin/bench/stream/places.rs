//! A geography database as large as lookups need to be honest: no two neighbours share a record.

use std::path::Path;

use anyhow::Result;
use processor::geo::testing::{city, mmdb};

/// Countries that its networks are in.
const COUNTRIES: [&str; 8] = ["US", "DE", "JP", "IN", "ES", "NL", "BR", "FR"];
/// Cities of each.
const CITIES: usize = 2_500;

/// The bytes of the database: every network of sixteen bits halved, each half in another of 20,000 cities.
pub(super) fn database() -> Vec<u8> {
    let networks: Vec<(String, serde_json::Value)> = (0..1usize << 17)
        .map(|n| {
            let (at, number) = ((n as u32) << 15, n.wrapping_mul(0x9e37) % (COUNTRIES.len() * CITIES));
            let country = COUNTRIES[number % COUNTRIES.len()];
            let record = city(country, &format!("R{}", number % 40), &format!("City {number}"));
            (format!("{}/17", std::net::Ipv4Addr::from_bits(at)), record)
        })
        .collect();
    let networks: Vec<(&str, serde_json::Value)> =
        networks.iter().map(|(network, record)| (network.as_str(), record.clone())).collect();
    mmdb("City", &networks)
}

/// Writes it into a folder. Gives the settings of a node that uses it.
pub(super) fn settings(folder: &Path) -> Result<String> {
    let path = folder.join("places.mmdb");
    std::fs::write(&path, database())?;
    Ok(format!("[geo]\nmmdb = {path:?}\n"))
}
