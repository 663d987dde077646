//! Short texts that live where they are made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;

use schemas::visitor::canonical;

/// The longest: `ffff:ffff:ffff::/48`; a language is `lll-Ssss-rrr` at most.
const MOST_BYTES: usize = 19;

/// A short text of ASCII; what doesn't fit is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
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

/// The network of an address, as [`client_net`](schemas::visitor::client_net) writes it. Clients of a viral link come
/// from everywhere, so this is worth a few lines.
pub(super) fn network(address: IpAddr) -> Short {
    match canonical(address) {
        IpAddr::V4(v4) => net_text(v4),
        IpAddr::V6(v6) => net_text_v6(v6),
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

/// The first three groups without the zeros that end them: those belong to the longest run of zeros, the one left out.
fn net_text_v6(v6: Ipv6Addr) -> Short {
    let mut text = Short::EMPTY;
    let groups = &v6.segments()[..3];
    let kept = groups.iter().rposition(|group| *group != 0).map_or(0, |last| last + 1);
    for (place, group) in groups[..kept].iter().enumerate() {
        if place > 0 {
            text.push(b':');
        }
        for shift in [12, 8, 4, 0] {
            if shift == 0 || group >> shift != 0 {
                text.push(b"0123456789abcdef"[usize::from(group >> shift & 0xf)]);
            }
        }
    }
    b"::/48".iter().for_each(|byte| text.push(*byte));
    text
}

#[cfg(test)]
mod tests {
    use schemas::visitor::client_net;

    use super::*;

    #[test]
    fn networks_of_both_families_are_told_apart() {
        for (address, net) in [
            ("203.0.113.7", "203.0.113.0/24"),
            ("255.255.255.255", "255.255.255.0/24"),
            ("::ffff:203.0.113.7", "203.0.113.0/24"),
            ("2001:db8:1:2::1", "2001:db8:1::/48"),
            ("::1", "::/48"),
            ("0:0:a::", "0:0:a::/48"),
            ("ffff:0:ffff:1::", "ffff:0:ffff::/48"),
        ] {
            assert_eq!(*network(address.parse().unwrap()), *net, "{address}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_network_is_written_as_elsewhere(
            octets in proptest::prelude::any::<[u8; 4]>(),
            groups in proptest::prelude::any::<[u16; 8]>(),
            zeros in proptest::array::uniform8(proptest::prelude::any::<bool>()),
        ) {
            let groups: [u16; 8] = std::array::from_fn(|at| if zeros[at] { 0 } else { groups[at] });
            for address in [IpAddr::from(octets), IpAddr::from(groups)] {
                proptest::prop_assert_eq!(&*network(address), client_net(address));
            }
        }
    }
}
