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

/// Bytes of a place's texts that are kept where the place is; few have more.
const NEAR_BYTES: usize = 36;

/// A place, as far as it is known, and that is its country at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(Texts);

/// A place's texts: those that are short, as nearly all are, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Texts {
    Near { country: u8, region: u8, city: u8, bytes: [u8; NEAR_BYTES] },
    Far(Arc<[Box<str>; 3]>),
}

impl Place {
    pub(super) fn new(country: &str, region: Option<&str>, city: Option<&str>) -> Self {
        let texts = [country, region.unwrap_or_default(), city.unwrap_or_default()];
        let mut bytes = [0; NEAR_BYTES];
        let mut end = 0;
        for text in texts {
            if let Some(place) = bytes.get_mut(end..end + text.len()) {
                place.copy_from_slice(text.as_bytes());
            }
            end += text.len();
        }
        if end > NEAR_BYTES {
            return Self(Texts::Far(Arc::new(texts.map(Box::from))));
        }
        let [country, region, city] = texts.map(|text| text.len() as u8);
        Self(Texts::Near { country, region, city, bytes })
    }

    /// ISO 3166 alpha-2, upper case.
    pub fn country(&self) -> &str {
        self.text(0)
    }

    /// Region within the country: its ISO 3166-2 code without the country's, else its name.
    pub fn region(&self) -> Option<&str> {
        Some(self.text(1)).filter(|text| !text.is_empty())
    }

    /// City, by its English name where the database has one.
    pub fn city(&self) -> Option<&str> {
        Some(self.text(2)).filter(|text| !text.is_empty())
    }

    fn text(&self, number: usize) -> &str {
        match &self.0 {
            Texts::Near { country, region, city, bytes } => {
                let lengths = [*country, *region, *city].map(usize::from);
                let begin: usize = lengths[..number].iter().sum();
                // it was a text when it came here
                bytes.get(begin..begin + lengths[number]).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
            }
            Texts::Far(texts) => &texts[number],
        }
    }

    /// Of a record; `None` of one that is about something else.
    pub(super) fn of(record: &Node<'_>) -> Option<Self> {
        let country = [record.at(&["country", "iso_code"]), record.at(&["country_code"]), record.at(&["country"])];
        let country = country.into_iter().flatten().find_map(locale::country)?;
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
        Some(Self::new(&country, region.as_deref(), city.as_deref()))
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever its texts are and however long, a place tells them.
        #[test]
        fn a_place_tells_its_texts(country in "[A-Z]{2}", region in "\\PC{0,20}", city in "\\PC{0,40}") {
            let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let place = Place::new(&country, known(&region).as_deref(), known(&city).as_deref());
            prop_assert_eq!(place.country(), country);
            prop_assert_eq!(place.region().map(str::to_owned), known(&region));
            prop_assert_eq!(place.city().map(str::to_owned), known(&city));
        }
    }

    fn place(record: &str) -> [Option<String>; 3] {
        let place = Place::of(&serde_json::from_str(record).unwrap());
        let place = place.as_ref();
        let texts = [place.map(Place::country), place.and_then(Place::region), place.and_then(Place::city)];
        texts.map(|text| text.map(str::to_owned))
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
