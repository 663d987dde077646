//! JSON lines: one object a line, read into typed structs that borrow from the line.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::arena::Arena;
use super::request::Reject;

/// Reads a line as `T`. Bytes that aren't UTF-8 become U+FFFD first, as some writers copy what they were sent. What
/// stands before the first brace (a syslog header) is left out.
///
/// # Errors
/// [`Reject::BAD_JSON`].
pub fn object<'a, T: Deserialize<'a>>(line: &'a [u8], arena: &'a Arena) -> Result<T, Reject> {
    parse(line, arena).map_err(|_| Reject::BAD_JSON)
}

/// As [`object`], saying in words what is wrong.
///
/// # Errors
/// What is wrong, and where.
pub fn parse<'a, T: Deserialize<'a>>(line: &'a [u8], arena: &'a Arena) -> Result<T, String> {
    parse_seed(line, arena, PhantomData)
}

/// As [`parse`], into what `seed` makes.
///
/// # Errors
/// What is wrong, and where.
pub fn parse_seed<'a, S: DeserializeSeed<'a>>(line: &'a [u8], arena: &'a Arena, seed: S) -> Result<S::Value, String> {
    let start = match line.first() {
        Some(b'{') => 0,
        _ => memchr::memmem::find(line, b": {").map_or(0, |colon| colon + 2),
    };
    let text = arena.text(&line[start..]).trim_ascii_start();
    // A list would do for a struct, too.
    if !text.starts_with('{') {
        return Err("expected `{` at line 1 column 1".to_owned());
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut deserializer).map_err(|error| error.to_string())?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// A value that may be written as text, number or null: writers disagree. Objects and lists read as missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value<'a> {
    /// No such key, or null.
    #[default]
    Missing,
    /// Text.
    Text(Cow<'a, str>),
    /// A number without a fraction.
    Whole(i64),
    /// A number with one.
    Float(f64),
}

impl<'a> Value<'a> {
    /// Whether there is anything: neither missing nor an empty text nor a lone hyphen.
    pub fn is_some(&self) -> bool {
        match self {
            Self::Missing => false,
            Self::Text(text) => !text.is_empty() && text != "-",
            Self::Whole(_) | Self::Float(_) => true,
        }
    }

    /// Whether the key is there at all, whatever its value.
    pub fn is_present(&self) -> bool {
        *self != Self::Missing
    }

    /// This value, or `other` when there is nothing in it.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.is_some() || !other.is_present() { self } else { other }
    }

    /// As text; empty when there is nothing.
    pub fn text(&self, arena: &'a Arena) -> &'a str {
        match self {
            _ if !self.is_some() => "",
            Self::Missing => "",
            Self::Text(Cow::Borrowed(text)) => text,
            Self::Text(Cow::Owned(text)) => arena.keep(text),
            Self::Whole(number) => arena.display(number),
            // The shortest digits that mean this number are those that it was written with, as far as a writer has no
            // more of them than the number holds.
            Self::Float(number) => arena.display(number),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value<'de>, E> {
        Ok(Value::Whole(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value<'de>, E> {
        Ok(i64::try_from(number).map_or(Value::Float(number as f64), Value::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value<'de>, E> {
        Ok(Value::Float(number))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(if value { "true" } else { "false" })))
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Missing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Missing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct One<'a> {
        #[serde(borrow, default)]
        v: Value<'a>,
    }

    #[test]
    fn values_of_every_kind_read_as_text() {
        let arena = Arena::new();
        for (json, text) in [
            (r#"{"v":"plain"}"#, "plain"),
            (r#"{"v":"a \"b\" \\ \u0001"}"#, "a \"b\" \\ \u{1}"),
            (r#"{"v":302}"#, "302"),
            (r#"{"v":1773480413.123}"#, "1773480413.123"),
            (r#"{"v":1773480413.1234567}"#, "1773480413.1234567"),
            (r#"{"v":null}"#, ""),
            (r#"{"v":"-"}"#, ""),
            (r#"{"v":true}"#, "true"),
            (r#"{"v":{"a":[1]}}"#, ""),
            (r#"{"w":1}"#, ""),
            (r#"<190>Mar 14 09:26:53 web nginx: {"v":"x"}"#, "x"),
            (r#"Mar 14 09:26:53 web nginx: {"v":"x: {"}"#, "x: {"),
            (r#" {"v":"x"}"#, "x"),
        ] {
            let one: One<'_> = object(json.as_bytes(), &arena).unwrap();
            assert_eq!(one.v.text(&arena), text, "{json}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_and_bad_escapes_are_not() {
        let arena = Arena::new();
        let one: One<'_> = object(b"{\"v\":\"caf\xe9 agent\"}", &arena).unwrap();
        assert_eq!(one.v.text(&arena), "caf\u{fffd} agent");
        for json in [r#"{"v":"a\x22"}"#, r#"{"v":"cut"#, "[1]", "", r#"{"v":1} {"v":2}"#, "{\"v\":\"\0\"}"] {
            assert_eq!(object::<One<'_>>(json.as_bytes(), &arena).err(), Some(Reject::BAD_JSON), "{json}");
        }
    }

    #[test]
    fn the_first_value_with_something_in_it_counts() {
        let text = |text: &'static str| Value::Text(Cow::Borrowed(text));
        assert_eq!(text("a").or(text("b")), text("a"));
        assert_eq!(text("").or(text("b")), text("b"));
        assert_eq!(Value::Missing.or(text("")), text(""));
        assert_eq!(text("").or(Value::Missing), text(""));
    }
}
