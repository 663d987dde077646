//! JSON objects whose keys are told by the configuration: one pass over the line, each known key's value to its place.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::arena::Arena;
use super::json::{self, Value};

/// Keys, each with the place that its value goes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(Vec<(Box<str>, usize)>);

impl Keys {
    /// Of several places for one key the first counts.
    pub fn new<S: Into<Box<str>>>(keys: impl IntoIterator<Item = (S, usize)>) -> Self {
        Self(keys.into_iter().map(|(key, place)| (key.into(), place)).collect())
    }

    fn place(&self, key: &str) -> Option<usize> {
        self.0.iter().find(|(known, _)| **known == *key).map(|(_, place)| *place)
    }

    /// The values of a line's object. Places are below `N`; those without a value are missing.
    ///
    /// # Errors
    /// What is wrong with the line, in words.
    pub fn values<'a, const N: usize>(&self, line: &'a [u8], arena: &'a Arena) -> Result<[Value<'a>; N], String> {
        json::parse_seed(line, arena, Object::<N>(self))
    }
}

struct Object<'k, const N: usize>(&'k Keys);

impl<'de, const N: usize> DeserializeSeed<'de> for Object<'_, N> {
    type Value = [Value<'de>; N];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Object<'_, N> {
    type Value = [Value<'de>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = [const { Value::Missing }; N];
        let mut seen = [false; N];
        while let Some(place) = map.next_key_seed(Key(self.0))? {
            match place.filter(|place| *place < N) {
                Some(place) if seen[place] => return Err(A::Error::custom("a key comes twice")),
                Some(place) => {
                    seen[place] = true;
                    values[place] = map.next_value()?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(values)
    }
}

struct Key<'k>(&'k Keys);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.place(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Result<[String; 2], String> {
        let arena = Arena::new();
        let keys = Keys::new([("status", 0), ("the url", 1), ("beyond", 2)]);
        let values = keys.values::<2>(line.as_bytes(), &arena)?;
        Ok(values.map(|value| value.text(&arena).to_owned()))
    }

    #[test]
    fn each_known_key_has_its_place() {
        for (line, expected) in [
            (r#"{"a":[1,{"status":1}],"the url":"/k","status":302,"beyond":1}"#, ["302", "/k"]),
            (r#"<134>x y[1]: {"the\u0020url":"\u002fk","status":null}"#, ["", "/k"]),
            ("{}", ["", ""]),
        ] {
            assert_eq!(texts(line), Ok(expected.map(str::to_owned)), "{line}");
        }
    }

    #[test]
    fn what_is_no_such_object_is_an_error() {
        for line in ["", "[1]", "x", r#"{"status":1"#, r#"{"status":1}x"#, r#"{"status":"\x22"}"#, r#"{"a":1"#] {
            assert!(texts(line).is_err(), "{line}");
        }
        assert!(texts(r#"{"status":1,"status":1}"#).unwrap_err().contains("a key comes twice"));
    }
}
