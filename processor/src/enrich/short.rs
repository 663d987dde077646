//! Short texts that live where they are made.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;

use schemas::visitor::{canonical, client_net};

/// The longest: `255.255.255.0/24`; a language is `lll-Ssss-rrr` at most.
const MOST_BYTES: usize = 16;

/// A short text of ASCII; what doesn't fit is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Short {
    bytes: [u8; MOST_BYTES],
    length: usize,
}

impl Short {
    pub(super) const EMPTY: Self = Self { bytes: [0; MOST_BYTES], length: 0 };

    pub(super) fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }
}

impl Deref for Short {
    type Target = str;

    fn deref(&self) -> &str {
        // only ASCII is pushed
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// A network's text.
#[derive(Clone, Debug)]
pub(super) enum Network {
    V4(Short),
    V6(String),
}

impl Deref for Network {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::V4(text) => text,
            Self::V6(text) => text,
        }
    }
}

/// The network of an address, as [`client_net`] writes it. Clients of a viral link come from everywhere, so for IPv4 this
/// is worth a few lines.
pub(super) fn network(address: IpAddr) -> Network {
    match canonical(address) {
        IpAddr::V4(v4) => Network::V4(net_text(v4)),
        IpAddr::V6(_) => Network::V6(client_net(address)),
    }
}

fn net_text(v4: Ipv4Addr) -> Short {
    let mut text = Short::EMPTY;
    for octet in &v4.octets()[..3] {
        for power in [100, 10, 1] {
            if *octet >= power || power == 1 {
                text.push(b'0' + octet / power % 10);
            }
        }
        text.push(b'.');
    }
    b"0/24".iter().for_each(|byte| text.push(*byte));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_both_families_are_told_apart() {
        for (address, net) in [
            ("203.0.113.7", "203.0.113.0/24"),
            ("255.255.255.255", "255.255.255.0/24"),
            ("::ffff:203.0.113.7", "203.0.113.0/24"),
            ("2001:db8:1:2::1", "2001:db8:1::/48"),
            ("::1", "::/48"),
        ] {
            assert_eq!(*network(address.parse().unwrap()), *net, "{address}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_network_is_written_as_elsewhere(octets in proptest::prelude::any::<[u8; 4]>()) {
            let address = IpAddr::from(octets);
            proptest::prop_assert_eq!(&*network(address), client_net(address));
        }
    }
}
