//! What a record of a geography database says of a place, whoever made the database. Pure.
//!
//! | | GeoLite2, GeoIP2, DB-IP | flat ones |
//! | --- | --- | --- |
//! | country | `country.iso_code` | `country_code`, `country` |
//! | region | `subdivisions[0].iso_code`, else its English name | `region_code`, `region`, `region_name`, `state` |
//! | city | `city.names.en` | `city`, `city_name` |
//!
//! Where an address is registered (`registered_country`) is not where its user is, and is never taken for it.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::enrich::locale;

/// A place, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// ISO 3166 alpha-2, upper case.
    pub country: Option<Arc<str>>,
    /// Region within the country: its ISO 3166-2 code without the country's, else its name.
    pub region: Option<Arc<str>>,
    /// City, by its English name where the database has one.
    pub city: Option<Arc<str>>,
}

impl Place {
    /// Of a record; nothing of one that is about something else.
    pub(super) fn of(record: &Node<'_>) -> Self {
        let country = [record.at(&["country", "iso_code"]), record.at(&["country_code"]), record.at(&["country"])];
        let country = country.into_iter().flatten().find_map(locale::country);
        let Some(country) = country else { return Self::default() };
        let first = record.get("subdivisions").and_then(Node::first);
        let region = [
            first.and_then(|region| region.at(&["iso_code"])),
            first.and_then(|region| region.get("names")).and_then(Node::english),
            record.at(&["region_code"]),
            record.at(&["region"]),
            record.at(&["region_name"]),
            record.at(&["state"]),
        ];
        let city = record.get("city");
        let city = [
            city.and_then(|city| city.get("names")).and_then(Node::english),
            city.and_then(Node::text),
            record.at(&["city_name"]),
        ];
        let region = region.into_iter().flatten().find_map(|text| locale::region(text, &country));
        let city = city.into_iter().flatten().find_map(locale::city);
        let owned = |text: std::borrow::Cow<'_, str>| Arc::<str>::from(text);
        Self { country: Some(Arc::from(&*country)), region: region.map(owned), city: city.map(owned) }
    }
}

/// A value of a record, as far as it can say something of a place.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Text(&'a str),
    Map(Vec<(&'a str, Node<'a>)>),
    List(Vec<Node<'a>>),
    Other,
}

impl<'a> Node<'a> {
    fn get(&self, name: &str) -> Option<&Self> {
        let Self::Map(pairs) = self else { return None };
        pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn at(&self, path: &[&str]) -> Option<&'a str> {
        path.iter().try_fold(self, |node, name| node.get(name))?.text()
    }

    fn text(&self) -> Option<&'a str> {
        let Self::Text(text) = self else { return None };
        Some(text)
    }

    fn first(&self) -> Option<&Self> {
        let Self::List(values) = self else { return None };
        values.first()
    }

    /// Of names by language the English one, else whichever comes first.
    fn english(&self) -> Option<&'a str> {
        let Self::Map(names) = self else { return None };
        self.at(&["en"]).or_else(|| names.iter().find_map(|(_, name)| name.text()))
    }
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a geography database")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Node<'de>, E> {
        Ok(Node::Text(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry::<&'de str, Node<'de>>()? {
            pairs.push(pair);
        }
        Ok(Node::Map(pairs))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node<'de>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Node::List(values))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node<'de>, E> {
        Ok(Node::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node<'de>, E> {
        Ok(Node::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node<'de>, E> {
        Ok(Node::Other)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node<'de>, E> {
        Ok(Node::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node<'de>, E> {
        Ok(Node::Other)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node<'de>, E> {
        Ok(Node::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(record: &str) -> [Option<String>; 3] {
        let place = Place::of(&serde_json::from_str(record).unwrap());
        [place.country, place.region, place.city].map(|text| text.map(|text| text.to_string()))
    }

    #[test]
    fn each_makers_records_are_read() {
        for (record, country, region, city) in [
            (
                r#"{"city":{"geoname_id":2759794,"names":{"de":"Amsterdam!","en":"Amsterdam"}},"continent":{"code":"EU"},
                    "country":{"iso_code":"NL","names":{"en":"Netherlands"}},"location":{"latitude":52.37},
                    "registered_country":{"iso_code":"US"},
                    "subdivisions":[{"iso_code":"NH","names":{"en":"North Holland"}},{"iso_code":"XX"}]}"#,
                "NL",
                "NH",
                "Amsterdam",
            ),
            (r#"{"country":{"iso_code":"de"}}"#, "DE", "", ""),
            (
                r#"{"country":{"iso_code":"US"},"subdivisions":[{"names":{"en":"New York"}}],"city":{"names":{"en":"New York"}}}"#,
                "US",
                "New York",
                "New York",
            ),
            (r#"{"country_code":"FR","region_name":"Bretagne","city":"Rennes"}"#, "FR", "Bretagne", "Rennes"),
            (r#"{"country":"JP","region":"Tokyo","region_code":"JP-13","city_name":"Shibuya"}"#, "JP", "13", "Shibuya"),
            (r#"{"country":{"iso_code":"BE"},"city":{"names":{"nl":"Gent"}}}"#, "BE", "", "Gent"),
            (r#"{"country":"Netherlands","country_code":"NL","city":"-"}"#, "NL", "", ""),
        ] {
            let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            assert_eq!(place(record), [known(country), known(region), known(city)], "{record}");
        }
    }

    #[test]
    fn what_is_about_something_else_says_nothing() {
        for record in [
            r#"{"registered_country":{"iso_code":"US"},"city":{"names":{"en":"Nowhere"}}}"#,
            r#"{"represented_country":{"iso_code":"US"}}"#,
            r#"{"autonomous_system_number":1,"autonomous_system_organization":"x"}"#,
            r#"{"country":["NL"],"city":7,"subdivisions":{}}"#,
            r#"{"country":{"iso_code":"XX"}}"#,
            r#""NL""#,
            "[]",
            "true",
        ] {
            assert_eq!(place(record), [None, None, None], "{record}");
        }
    }
}
