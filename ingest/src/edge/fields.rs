//! JSON records by a table of names: which values are read, into which places, at whatever depth.
//!
//! ```text
//! {"insertId":"x","httpRequest":{"status":302}}      static REQUEST: Keys = [("status", Slot(1))]
//!     Slot(0)        Within(&REQUEST)                static ENTRY: Keys = [("insertId", Slot(0)), ("httpRequest", Within(&REQUEST))]
//! ```
//! Names are compared without regard to case, as some writers change it; where one comes several times, the first
//! value with something in it counts. What isn't in the table is checked to be JSON and otherwise passed over.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::arena::Arena;
use super::format::{Fit, Sample};
use super::json::{self, Value};
use super::request::Reject;

/// Longest names that are told apart by their length.
const LENGTHS: usize = 40;

/// What is read of an object.
#[derive(Debug)]
pub struct Keys {
    names: &'static [(&'static str, Place)],
    /// For each length, which names have it, as bits.
    by_length: [u64; LENGTHS],
}

/// What is done with the value of a name.
#[derive(Debug)]
pub enum Place {
    /// It is kept in this place.
    Slot(usize),
    /// It is an object, of which these are read into the same record.
    Within(&'static Keys),
    /// It is a list, each object of which is a record of its own.
    Each(&'static Keys),
}

impl Keys {
    /// A table of at most 64 names.
    pub const fn new(names: &'static [(&'static str, Place)]) -> Self {
        assert!(names.len() <= 64, "too many names");
        let mut by_length = [0; LENGTHS];
        let mut next = 0;
        while next < names.len() {
            by_length[bucket(names[next].0.len())] |= 1 << next;
            next += 1;
        }
        Self { names, by_length }
    }

    /// The place in which a name's value is kept.
    pub fn slot(&self, name: &str) -> Option<usize> {
        match self.find(name) {
            Some(Place::Slot(slot)) => Some(*slot),
            _ => None,
        }
    }

    fn find(&self, name: &str) -> Option<&'static Place> {
        let mut left = self.by_length[bucket(name.len())];
        while left != 0 {
            let (known, place) = &self.names[left.trailing_zeros() as usize];
            if known.eq_ignore_ascii_case(name) {
                return Some(place);
            }
            left &= left - 1;
        }
        None
    }
}

const fn bucket(length: usize) -> usize {
    if length < LENGTHS { length } else { LENGTHS - 1 }
}

/// A record's values, by place.
pub type Values<'a, const N: usize> = [Value<'a>; N];

/// Hands on the values of a line's record, or of each of its records where a list of them is in the table.
pub fn each<'a, const N: usize>(
    line: &'a [u8],
    arena: &'a Arena,
    keys: &'static Keys,
    found: &mut dyn FnMut(Result<Values<'a, N>, Reject>),
) {
    match records(line, arena, keys, &mut |values| found(Ok(values))) {
        Ok(Some(values)) => found(Ok(values)),
        Ok(None) => {}
        Err(_) => found(Err(Reject::BAD_JSON)),
    }
}

/// The values of a line's record; `None` where the line held a list of them, which have been handed on.
fn records<'a, const N: usize>(
    line: &'a [u8],
    arena: &'a Arena,
    keys: &'static Keys,
    found: &mut dyn FnMut(Values<'a, N>),
) -> Result<Option<Values<'a, N>>, String> {
    let mut values = [const { Value::Missing }; N];
    let mut listed = false;
    json::parse_seed(line, arena, Object { keys, values: &mut values, listed: &mut listed, found })?;
    Ok((!listed).then_some(values))
}

/// How many of a file's first lines hold a record as it should be. `name` says whose; `lacks`, what is missing in
/// objects that are none.
pub fn fit<const N: usize>(
    sample: &Sample<'_>,
    keys: &'static Keys,
    name: &str,
    lacks: &str,
    is_record: impl Fn(&Values<'_, N>) -> bool,
) -> Fit {
    let arena = Arena::new();
    let (mut matched, mut objects, mut problem) = (0, 0, None);
    for line in &sample.lines {
        let mut is_any = false;
        match records::<N>(line, &arena, keys, &mut |values| is_any |= is_record(&values)) {
            Ok(values) => {
                objects += 1;
                matched += usize::from(is_any || values.is_some_and(|values| is_record(&values)));
            }
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    let of = sample.lines.len();
    let why = match problem {
        _ if matched > 0 => format!("{matched} of the first {of} lines are JSON objects with {name} names"),
        _ if objects > 0 => format!("JSON objects, but none with {lacks}"),
        Some(problem) => format!("no JSON object a line ({problem})"),
        None => "no lines".to_owned(),
    };
    Fit { matched, of, why }
}

/// Whether the records of a file's first lines have a value in a place, empty or not. With nothing to go by they are
/// taken to have one: then each line without it says so by itself.
pub fn has<const N: usize>(sample: &Sample<'_>, keys: &'static Keys, slot: usize) -> bool {
    let arena = Arena::new();
    let mut seen = Vec::new();
    for line in &sample.lines {
        each::<N>(line, &arena, keys, &mut |values| seen.extend(values.map(|values| values[slot].is_present())));
    }
    seen.is_empty() || seen.contains(&true)
}

/// Reads an object, and passes over anything else.
struct Object<'s, 'a, const N: usize> {
    keys: &'static Keys,
    values: &'s mut Values<'a, N>,
    listed: &'s mut bool,
    found: &'s mut dyn FnMut(Values<'a, N>),
}

impl<'de, const N: usize> DeserializeSeed<'de> for Object<'_, 'de, N> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(Only(self))
    }
}

impl<'de, const N: usize> Take<'de> for Object<'_, 'de, N> {
    const WHAT: &'static str = "an object";

    fn map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(place) = map.next_key_seed(Name(self.keys))? {
            match place {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(Place::Slot(slot)) => {
                    let value: Value<'de> = map.next_value()?;
                    if value.is_present() && !self.values[*slot].is_some() {
                        self.values[*slot] = value;
                    }
                }
                Some(Place::Within(keys)) => {
                    let (values, listed, found) = (&mut *self.values, &mut *self.listed, &mut *self.found);
                    map.next_value_seed(Object { keys, values, listed, found })?;
                }
                Some(Place::Each(keys)) => {
                    *self.listed = true;
                    map.next_value_seed(List { keys, found: &mut *self.found })?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a list of objects, each a record, and passes over anything else.
struct List<'s, 'a, const N: usize> {
    keys: &'static Keys,
    found: &'s mut dyn FnMut(Values<'a, N>),
}

impl<'de, const N: usize> DeserializeSeed<'de> for List<'_, 'de, N> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(Only(self))
    }
}

impl<'de, const N: usize> Take<'de> for List<'_, 'de, N> {
    const WHAT: &'static str = "a list of objects";

    fn seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        loop {
            let mut values = [const { Value::Missing }; N];
            let (keys, mut listed) = (self.keys, false);
            let element = Object { keys, values: &mut values, listed: &mut listed, found: &mut |_| {} };
            if list.next_element_seed(element)?.is_none() {
                return Ok(());
            }
            (self.found)(values);
        }
    }
}

/// What is read of values of one kind.
trait Take<'de>: Sized {
    const WHAT: &'static str;

    fn map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// A visitor that passes over everything but what is taken.
struct Only<T>(T);

impl<'de, T: Take<'de>> Visitor<'de> for Only<T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WHAT)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        self.0.map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        self.0.seq(list)
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Finds a name's place.
struct Name(&'static Keys);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static Place>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static Place>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.find(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static INNER: Keys = Keys::new(&[("b", Place::Slot(1)), ("deep", Place::Within(&DEEP))]);
    static DEEP: Keys = Keys::new(&[("c", Place::Slot(2))]);
    static OUTER: Keys = Keys::new(&[
        ("a", Place::Slot(0)),
        ("other-A", Place::Slot(0)),
        ("inner", Place::Within(&INNER)),
        ("list", Place::Each(&INNER)),
    ]);

    fn seen(line: &str) -> Vec<Result<[String; 3], &'static str>> {
        let arena = Arena::new();
        let mut seen = Vec::new();
        each::<3>(line.as_bytes(), &arena, &OUTER, &mut |values| {
            let values = values.map_err(|reject| reject.reason);
            seen.push(values.map(|values| values.map(|value| value.text(&arena).to_owned())));
        });
        seen
    }

    fn one(a: &str, b: &str, c: &str) -> Result<[String; 3], &'static str> {
        Ok([a, b, c].map(str::to_owned))
    }

    #[test]
    fn values_are_found_at_every_depth() {
        for (line, a, b, c) in [
            (r#"{"a":"1","inner":{"b":2,"deep":{"c":true,"x":[{}]}},"b":"no"}"#, "1", "2", "true"),
            (r#"{"A":"","other-a":"2","a":"3"}"#, "2", "", ""),
            (r#"{"a":"1","a":null,"a":"2","inner":null}"#, "1", "", ""),
            (r#"{"inner":"text","a":[1,{"a":2}],"x":{"a":1}}"#, "", "", ""),
            (r#"{"inner":[{"b":1}],"\u0061":"escaped"}"#, "escaped", "", ""),
            ("{}", "", "", ""),
        ] {
            assert_eq!(seen(line), [one(a, b, c)], "{line}");
        }
    }

    #[test]
    fn each_object_of_a_list_is_a_record() {
        assert_eq!(seen(r#"{"list":[{"b":1},{"deep":{"c":2}}],"a":3}"#), [one("", "1", ""), one("", "", "2")]);
        assert_eq!(seen(r#"{"list":[]}"#), []);
        assert_eq!(seen(r#"{"list":[{"b":1},{"b""#), [one("", "1", ""), Err("bad_json")], "what came before a cut");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for line in ["", "[]", "1", r#"{"a":1"#, r#"{"a":"\x22"}"#, "{\"x\":\"\u{1}\"}", r#"{"a":1}{"a":2}"#] {
            assert_eq!(seen(line), [Err("bad_json")], "{line}");
        }
    }

    #[test]
    fn lengths_beyond_the_table_are_told_apart_too() {
        static LONG: Keys = Keys::new(&[
            ("a-name-that-is-longer-than-any-other-name-1", Place::Slot(0)),
            ("a-name-that-is-longer-than-any-other-name-22", Place::Slot(1)),
        ]);
        assert!(matches!(LONG.find("a-name-that-is-longer-than-any-other-name-22"), Some(Place::Slot(1))));
        assert!(LONG.find("a-name-that-is-longer-than-any-other-name-2").is_none());
    }
}
