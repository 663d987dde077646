//! Texts that repeat, as one shared allocation while they stay here: one table a thread, each text has one place.
//!
//! A text that another has driven out of its place is only allocated anew; nothing depends on two equal texts being
//! one. Bounded: [`PLACES`] texts of [`MAX_KEPT_BYTES`] at most, under 3 MB a thread at the very worst.

use std::net::IpAddr;
use std::sync::Arc;

use schemas::click::Utm;
use schemas::visitor::{as_v6_octets, canonical, client_net};
use xxhash_rust::xxh3::xxh3_64;

use super::utm;

/// A power of two.
const PLACES: usize = 4_096;
/// Destinations and networks, likewise a power of two.
const FEW_PLACES: usize = 1_024;
/// A longer text is not kept.
const MAX_KEPT_BYTES: usize = 512;

/// A destination and the campaign parameters in it.
#[derive(Debug)]
struct Destination {
    text: Arc<str>,
    utm: Utm,
}

/// The texts that one thread has met.
#[derive(Debug)]
pub(super) struct Texts {
    places: Vec<Option<Arc<str>>>,
    destinations: Vec<Option<Destination>>,
    networks: Vec<Option<([u8; 16], Arc<str>)>>,
}

impl Texts {
    /// An empty table. Places are taken as they are needed.
    pub(super) fn new() -> Self {
        Self { places: Vec::new(), destinations: Vec::new(), networks: Vec::new() }
    }

    /// `text`, shared.
    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        let place = &mut self.places[xxh3_64(text.as_bytes()) as usize % PLACES];
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

    /// A destination, shared, and its campaign parameters; `None` for none.
    pub(super) fn destination(&mut self, text: &str) -> (Option<Arc<str>>, Utm) {
        if text.is_empty() {
            return (None, Utm::default());
        }
        if self.destinations.is_empty() {
            self.destinations.resize_with(FEW_PLACES, || None);
        }
        let place = xxh3_64(text.as_bytes()) as usize % FEW_PLACES;
        if let Some(kept) = self.destinations[place].as_ref().filter(|kept| *kept.text == *text) {
            return (Some(Arc::clone(&kept.text)), kept.utm.clone());
        }
        let (shared, utm) = (Arc::<str>::from(text), utm::of_destination(text));
        if text.len() <= 4 * MAX_KEPT_BYTES {
            self.destinations[place] = Some(Destination { text: Arc::clone(&shared), utm: utm.clone() });
        }
        (Some(shared), utm)
    }

    /// The network of an address, as kept for good.
    pub(super) fn network(&mut self, address: IpAddr) -> Arc<str> {
        if self.networks.is_empty() {
            self.networks.resize(FEW_PLACES, None);
        }
        let mut key = as_v6_octets(canonical(address));
        // what the network's text leaves out: the last byte of IPv4, all but 48 bits of IPv6
        let kept = if canonical(address).is_ipv4() { 15 } else { 6 };
        key[kept..].fill(0);
        let place = &mut self.networks[xxh3_64(&key) as usize % FEW_PLACES];
        match place {
            Some((known, text)) if *known == key => Arc::clone(text),
            _ => {
                let text = net_text(canonical(address));
                *place = Some((key, Arc::clone(&text)));
                text
            }
        }
    }
}

/// As [`client_net`] writes it. Clients of a viral link come from everywhere, so for IPv4 this is worth a few lines.
fn net_text(address: IpAddr) -> Arc<str> {
    let IpAddr::V4(v4) = address else { return client_net(address).into() };
    let mut text = [0u8; 18];
    let mut length = 0;
    let mut push = |byte: u8| {
        text[length] = byte;
        length += 1;
    };
    for octet in &v4.octets()[..3] {
        for power in [100, 10, 1] {
            if *octet >= power || power == 1 {
                push(b'0' + octet / power % 10);
            }
        }
        push(b'.');
    }
    b"0/24".iter().for_each(|byte| push(*byte));
    std::str::from_utf8(&text[..length]).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_and_others_are_not() {
        let mut texts = Texts::new();
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
    fn networks_of_both_families_are_told_apart() {
        let mut texts = Texts::new();
        for _ in 0..2 {
            for (address, net) in [
                ("203.0.113.7", "203.0.113.0/24"),
                ("203.0.113.9", "203.0.113.0/24"),
                ("203.0.112.9", "203.0.112.0/24"),
                ("::ffff:203.0.113.7", "203.0.113.0/24"),
                ("2001:db8:1:2::1", "2001:db8:1::/48"),
                ("2001:db8:2:2::1", "2001:db8:2::/48"),
                ("::1", "::/48"),
            ] {
                assert_eq!(*texts.network(address.parse().unwrap()), *net, "{address}");
            }
        }
        let (a, b) = (texts.network("203.0.113.7".parse().unwrap()), texts.network("203.0.113.99".parse().unwrap()));
        assert!(Arc::ptr_eq(&a, &b));
    }

    proptest::proptest! {
        #[test]
        fn a_network_is_written_as_elsewhere(octets in proptest::prelude::any::<[u8; 4]>()) {
            let address = IpAddr::from(octets);
            proptest::prop_assert_eq!(&*net_text(address), client_net(address));
        }
    }

    #[test]
    fn a_destination_comes_with_its_campaign() {
        let mut texts = Texts::new();
        for _ in 0..2 {
            let (text, utm) = texts.destination("https://example.com/?utm_source=a");
            assert_eq!(text.as_deref(), Some("https://example.com/?utm_source=a"));
            assert_eq!(utm.source.as_deref(), Some("a"));
            assert_eq!(texts.destination(""), (None, Utm::default()));
        }
    }
}
