//! Files that are found, taken, replaced, and refused.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tempfile::TempDir;

use super::testing::{city, mmdb};
use super::*;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("places.mmdb")
    }

    /// Writes a file that looks `age` older than it is, so that it never looks like the one before.
    fn write(&self, bytes: &[u8], age: u64) {
        std::fs::write(self.path(), bytes).unwrap();
        let file = std::fs::File::options().write(true).open(self.path()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
}

fn places(name: &str) -> Vec<u8> {
    mmdb(
        "Test-City",
        &[
            ("203.0.113.0/24", city("NL", "NH", "Amsterdam")),
            ("203.0.113.128/25", city("NL", "", "")),
            ("198.51.100.7/32", city("DE", "BE", name)),
            ("2001:db8::/32", city("FR", "IDF", "Paris")),
            ("192.0.2.0/24", json!({"registered_country": {"iso_code": "US"}})),
        ],
    )
}

fn told(geo: &Geo, address: &str) -> String {
    let place = geo.place(address.parse().unwrap());
    let told =
        |place: Place| format!("{}/{}/{}", place.country(), place.region().unwrap_or("-"), place.city().unwrap_or("-"));
    place.map_or_else(String::new, told)
}

#[test]
fn addresses_of_both_families_are_found() {
    let folder = Folder::new();
    folder.write(&places("Berlin"), 9);
    let geo = Geo::open(&folder.path()).unwrap();
    for _ in 0..2 {
        for (address, expected) in [
            ("203.0.113.7", "NL/NH/Amsterdam"),
            ("203.0.113.200", "NL/-/-"),
            ("198.51.100.7", "DE/BE/Berlin"),
            ("2001:db8::7", "FR/IDF/Paris"),
            ("2001:db9::7", ""),
            ("198.51.100.8", ""),
            ("192.0.2.1", ""),
        ] {
            assert_eq!(told(&geo, address), expected, "{address}");
        }
    }
    assert_eq!(geo.in_force(), Some(InForce { kind: "Test-City".into(), made: 1_773_480_413 }));
}

#[test]
fn without_a_file_nothing_is_known() {
    let geo = Geo::none();
    assert!(!geo.is_some() && geo.in_force().is_none());
    assert_eq!(told(&geo, "203.0.113.7"), "");
    assert!(geo.look().unwrap().is_none());
}

#[test]
fn a_file_that_can_not_be_used_is_refused_by_name() {
    let folder = Folder::new();
    let refused = || Geo::open(&folder.path()).unwrap_err().to_string();
    assert!(refused().contains("places.mmdb can't be read"), "{}", refused());
    folder.write(b"no database", 0);
    assert!(refused().contains("places.mmdb is no geography database"), "{}", refused());
    let whole = places("Berlin");
    folder.write(&whole[..whole.len() / 2], 0);
    assert!(refused().contains("is no geography database"), "{}", refused());
    folder.write(&mmdb("Test-ASN", &[("203.0.113.0/24", json!({"autonomous_system_number": 1}))]), 0);
    assert!(refused().contains("\"Test-ASN\", tell no country"), "{}", refused());
    let endless = format!("{:?}", Geo::open("/dev/zero".as_ref()).unwrap_err());
    assert!(endless.contains("no regular file"), "{endless}");
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let folder = Folder::new();
    let whole = places("Berlin");
    folder.write(&whole, 0);
    let most = whole.len() as u64;
    assert!(file::Database::read_up_to(&folder.path(), most).is_ok());
    let refused = file::Database::read_up_to(&folder.path(), most - 1).unwrap_err().to_string();
    assert!(
        refused.contains("places.mmdb") && refused.contains(&format!("larger than {} bytes", most - 1)),
        "{refused}"
    );
    // a hole of as many bytes as there may be, and one more
    let file = std::fs::File::options().write(true).open(folder.path()).unwrap();
    file.set_len(file::MAX_BYTES + 1).unwrap();
    let refused = Geo::open(&folder.path()).unwrap_err().to_string();
    assert!(refused.contains("larger than 1073741824 bytes"), "{refused}");
}

#[test]
fn a_newer_file_is_taken_and_a_bad_one_is_not() {
    let folder = Folder::new();
    folder.write(&places("Berlin"), 9);
    let geo = Geo::open(&folder.path()).unwrap();
    assert!(geo.look().unwrap().is_none());
    assert_eq!(told(&geo, "198.51.100.7"), "DE/BE/Berlin");
    folder.write(&places("Spandau"), 8);
    assert!(geo.look().unwrap().is_none(), "it may be being written");
    assert!(geo.look().unwrap().is_some());
    assert_eq!(told(&geo, "198.51.100.7"), "DE/BE/Spandau", "what was decoded of the old one is forgotten");
    folder.write(b"no database", 7);
    assert!(geo.look().unwrap().is_none());
    assert!(geo.look().is_err());
    for _ in 0..3 {
        assert!(geo.look().unwrap().is_none(), "said once");
    }
    std::fs::remove_file(folder.path()).unwrap();
    assert!(geo.look().is_err());
    assert!(geo.look().unwrap().is_none());
    assert_eq!(told(&geo, "198.51.100.7"), "DE/BE/Spandau");
    folder.write(&places("Mitte"), 6);
    assert!(geo.look().unwrap().is_none());
    assert_eq!(geo.look().unwrap().map(|now| now.kind).as_deref(), Some("Test-City"));
    assert_eq!(told(&geo, "198.51.100.7"), "DE/BE/Mitte");
}

#[test]
fn why_no_file_can_be_looked_at_is_said_once_each_time_it_is_another_reason() {
    let folder = Folder::new();
    folder.write(&places("Berlin"), 9);
    let geo = Geo::open(&folder.path()).unwrap();
    let refused = || geo.look().err().map(|error| error.to_string());
    std::fs::remove_file(folder.path()).unwrap();
    for _ in 0..2 {
        let missing = refused().unwrap();
        assert!(missing.contains("No such file") && refused().is_none(), "{missing}");
        std::fs::create_dir(folder.path()).unwrap();
        let other = refused().unwrap();
        assert!(other.contains("no regular file") && refused().is_none(), "{other}");
        std::fs::remove_dir(folder.path()).unwrap();
    }
    assert_eq!(told(&geo, "198.51.100.7"), "DE/BE/Berlin");
}

#[test]
fn one_of_the_same_size_and_time_is_another() {
    let folder = Folder::new();
    let at = SystemTime::now() - Duration::from_secs(9);
    let write = |path: &std::path::Path, name: &str| {
        std::fs::write(path, places(name)).unwrap();
        std::fs::File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
    };
    write(&folder.path(), "Berlin");
    let geo = Geo::open(&folder.path()).unwrap();
    let other = folder.0.path().join("other");
    write(&other, "Cochem");
    std::fs::rename(&other, folder.path()).unwrap();
    assert!(geo.look().unwrap().is_none() && geo.look().unwrap().is_some());
    assert_eq!(told(&geo, "198.51.100.7"), "DE/BE/Cochem");
}

#[test]
fn records_that_fall_to_one_place_are_all_told_apart() {
    let folder = Folder::new();
    let networks: Vec<(String, serde_json::Value)> = (0..20_000u32)
        .map(|n| (format!("{}/32", std::net::Ipv4Addr::from(0x0a00_0000 + n)), city("NL", "", &format!("City {n}"))))
        .collect();
    let networks: Vec<(&str, serde_json::Value)> = networks.iter().map(|(net, city)| (&**net, city.clone())).collect();
    folder.write(&mmdb("Test-City", &networks), 0);
    let geo = Geo::open(&folder.path()).unwrap();
    for n in (0..20_000u32).chain(0..20_000) {
        let place = geo.place(std::net::Ipv4Addr::from(0x0a00_0000 + n).into()).unwrap();
        assert_eq!(place.city(), Some(&*format!("City {n}")));
    }
}
