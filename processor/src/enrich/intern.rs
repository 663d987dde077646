//! Destinations that repeat, with what is in them: one table a thread, each destination has one place.
//!
//! One that another has driven out of its place is only looked through anew. Bounded: [`PLACES`] destinations (of 2 KiB at
//! most, as links have them), two megabytes a thread at the very worst.

use std::sync::Arc;

use schemas::click::Utm;
use xxhash_rust::xxh3::xxh3_64;

use super::utm;

/// A power of two.
const PLACES: usize = 1_024;

/// A destination and the campaign parameters in it.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) text: Arc<str>,
    pub(super) utm: Utm,
}

/// The destinations that one thread has met.
#[derive(Debug, Default)]
pub(super) struct Destinations(Vec<Option<Destination>>);

impl Destinations {
    /// A destination with its campaign parameters; `None` for an empty text.
    pub(super) fn get(&mut self, text: &str) -> Option<&Destination> {
        if text.is_empty() {
            return None;
        }
        if self.0.is_empty() {
            self.0.resize_with(PLACES, || None);
        }
        let place = &mut self.0[xxh3_64(text.as_bytes()) as usize % PLACES];
        if place.as_ref().is_none_or(|kept| *kept.text != *text) {
            *place = Some(Destination { text: text.into(), utm: utm::of_destination(text) });
        }
        place.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_comes_with_its_campaign() {
        let mut destinations = Destinations::default();
        for _ in 0..2 {
            let found = destinations.get("https://example.com/?utm_source=a").unwrap();
            assert_eq!(&*found.text, "https://example.com/?utm_source=a");
            assert_eq!(found.utm.source.as_deref(), Some("a"));
            assert!(destinations.get("").is_none());
        }
        for number in 0..5_000 {
            let text = format!("https://example.com/{number}");
            assert_eq!(*destinations.get(&text).unwrap().text, *text);
        }
    }
}
