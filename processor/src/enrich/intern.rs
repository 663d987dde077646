//! Texts that repeat, as one shared allocation while they stay here: one table a thread, each text has one place.
//!
//! A text that another has driven out of its place is only allocated anew; nothing depends on two equal texts being
//! one. Bounded: [`PLACES`] texts of [`MAX_KEPT_BYTES`] and [`FEW_PLACES`] destinations (of 2 KiB, as links have them) at
//! most, some megabytes a thread at the very worst.

use std::sync::Arc;

use schemas::click::Utm;
use xxhash_rust::xxh3::xxh3_64;

use super::utm;

/// A power of two.
const PLACES: usize = 4_096;
/// Destinations, likewise a power of two.
const FEW_PLACES: usize = 1_024;
/// A longer text is not kept.
const MAX_KEPT_BYTES: usize = 512;

/// The texts that one thread has met.
#[derive(Debug, Default)]
pub(super) struct Texts(Vec<Option<Arc<str>>>);

impl Texts {
    /// `text`, shared.
    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if self.0.is_empty() {
            self.0.resize(PLACES, None);
        }
        let place = &mut self.0[xxh3_64(text.as_bytes()) as usize % PLACES];
        match place {
            Some(kept) if **kept == *text => Arc::clone(kept),
            _ => {
                let shared: Arc<str> = text.into();
                if text.len() <= MAX_KEPT_BYTES {
                    *place = Some(Arc::clone(&shared));
                }
                shared
            }
        }
    }
}

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
            self.0.resize_with(FEW_PLACES, || None);
        }
        let place = &mut self.0[xxh3_64(text.as_bytes()) as usize % FEW_PLACES];
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
    fn equal_texts_are_one_and_others_are_not() {
        let mut texts = Texts::default();
        let (a, b) = (texts.share("code"), texts.share("code"));
        assert!(Arc::ptr_eq(&a, &b));
        for number in 0..20_000 {
            let text = format!("text {number}");
            assert_eq!(*texts.share(&text), *text);
        }
        let long = "x".repeat(MAX_KEPT_BYTES + 1);
        let (a, b) = (texts.share(&long), texts.share(&long));
        assert!(!Arc::ptr_eq(&a, &b));
        assert_eq!(a, b);
    }

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
