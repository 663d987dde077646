//! A link as the cache holds it: what its answer and its event need, made once a load.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use schemas::LinkStatus;

use super::pages;
use crate::links::Target;

/// What a header's value can't hold; everything beyond ASCII is encoded anyway.
const UNFIT: &AsciiSet = &CONTROLS.add(b' ');

/// What a lookup found.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// No link has this code.
    Missing,
    /// The link redirects.
    Active(Arc<Active>),
    /// It was taken down: the page that says why.
    Disabled(Bytes),
    /// A tombstone.
    Deleted,
}

/// A link that redirects.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) target: Target,
    /// Its destination as a header.
    pub(super) location: HeaderValue,
}

impl Found {
    /// What the link store told.
    pub(super) fn new(target: Option<Target>) -> Self {
        let Some(target) = target else { return Self::Missing };
        match target.status {
            LinkStatus::Active => {
                let location = location(&target.destination);
                Self::Active(Arc::new(Active { target, location }))
            }
            LinkStatus::Disabled => Self::Disabled(pages::disabled(target.reason.as_deref().unwrap_or_default())),
            LinkStatus::Deleted => Self::Deleted,
        }
    }
}

/// The destination as a header. The store keeps URLs in their normal form, which fits as it is.
fn location(destination: &str) -> HeaderValue {
    let fit: Cow<'_, str> = match destination.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => destination.into(),
        false => utf8_percent_encode(destination, UNFIT).into(),
    };
    // never taken: what is encoded is visible ASCII
    HeaderValue::from_str(&fit).unwrap_or(HeaderValue::from_static("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_always_a_header() {
        for (destination, header) in [
            ("https://example.com/a?b=c%20d#e", "https://example.com/a?b=c%20d#e"),
            ("https://example.com/é", "https://example.com/%C3%A9"),
            ("https://example.com/\r\nSet-Cookie: a=b", "https://example.com/%0D%0ASet-Cookie:%20a=b"),
        ] {
            assert_eq!(location(destination).as_bytes(), header.as_bytes());
        }
    }
}
