//! Where a request came from: what the edge says goes first, a geography database adds what it doesn't.
//!
//! | the edge tells | the row has |
//! | --- | --- |
//! | a country, and a region or city | what the edge tells |
//! | a country alone | that country; region and city of the database, if it has the address in the same country |
//! | no country | what the database tells, else what the edge does |
//!
//! So a place is never put together of two countries' parts. Continents follow from countries, when a report asks.

use std::borrow::Cow;
use std::net::IpAddr;

use super::locale;
use super::short::Short;
use crate::geo::{Geo, Place};

/// What an edge says of a place, as it writes it; empty where it says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told<'a> {
    pub(super) country: &'a str,
    pub(super) region: &'a str,
    pub(super) city: &'a str,
}

/// Where a request came from.
#[derive(Debug)]
pub(super) struct Located<'a> {
    country: Option<Short>,
    region: Option<Cow<'a, str>>,
    city: Option<Cow<'a, str>>,
    /// Of the database: each of its parts that isn't there already.
    found: Option<Place>,
}

impl<'a> Located<'a> {
    /// By what the edge says, and the database.
    pub(super) fn of(told: Told<'a>, address: Option<IpAddr>, geo: &Geo) -> Self {
        let country = locale::country(told.country);
        let region = locale::region(told.region, country.as_deref().unwrap_or_default());
        let city = locale::city(told.city);
        let is_whole = country.is_some() && (region.is_some() || city.is_some());
        let found = address.filter(|_| !is_whole).and_then(|address| geo.place(address));
        match (country, found) {
            (Some(country), Some(found)) if found.country() != &*country => {
                Self { country: Some(country), region, city, found: None }
            }
            (None, Some(found)) => Self { country: None, region: None, city: None, found: Some(found) },
            (country, found) => Self { country, region, city, found },
        }
    }

    pub(super) fn country(&self) -> Option<&str> {
        self.country.as_deref().or_else(|| Some(self.found.as_ref()?.country()))
    }

    pub(super) fn region(&self) -> Option<&str> {
        self.region.as_deref().or_else(|| self.found.as_ref()?.region())
    }

    pub(super) fn city(&self) -> Option<&str> {
        self.city.as_deref().or_else(|| self.found.as_ref()?.city())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::testing::{city, mmdb};

    #[test]
    fn the_edge_goes_first_and_no_place_is_of_two_countries() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), mmdb("City", &[("203.0.113.0/24", city("NL", "NH", "Amsterdam"))])).unwrap();
        let geo = Geo::open(file.path()).unwrap();
        let known: Option<IpAddr> = Some([203, 0, 113, 7].into());
        let unknown: Option<IpAddr> = Some([198, 51, 100, 7].into());
        for (told, address, expected) in [
            (["", "", ""], known, ["NL", "NH", "Amsterdam"]),
            (["nl", "", ""], known, ["NL", "NH", "Amsterdam"]),
            (["NL", "UT", ""], known, ["NL", "UT", ""]),
            (["NL", "", "Utrecht"], known, ["NL", "", "Utrecht"]),
            (["BE", "", ""], known, ["BE", "", ""]),
            (["BE", "BE-VLG", "Gent"], known, ["BE", "VLG", "Gent"]),
            (["XX", "", "Utrecht"], known, ["NL", "NH", "Amsterdam"]),
            (["XX", "NH", "?"], unknown, ["", "NH", ""]),
            (["BE", "", ""], unknown, ["BE", "", ""]),
            (["", "", ""], unknown, ["", "", ""]),
            (["", "", ""], None, ["", "", ""]),
        ] {
            let said = Told { country: told[0], region: told[1], city: told[2] };
            let located = Located::of(said, address, &geo);
            let parts = [located.country(), located.region(), located.city()].map(Option::unwrap_or_default);
            assert_eq!(parts, expected, "{told:?} {address:?}");
        }
    }
}
