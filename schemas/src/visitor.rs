//! People without names: the visitor hash and the cut network (design §4.9).

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

/// The secret of one UTC day, shared by all nodes. Once it is destroyed no visitor of that day can be
/// computed again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VisitorKey(pub [u8; 16]);

impl std::fmt::Debug for VisitorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VisitorKey(…)")
    }
}

/// The visitor of a request: SipHash-2-4 of (address, agent) under the day's key.
pub fn visitor(key: &VisitorKey, address: IpAddr, user_agent: &str) -> i64 {
    let mut hash = SipHasher24::new_with_key(&key.0);
    hash.write(&as_v6_octets(address));
    hash.write(user_agent.as_bytes());
    hash.finish() as i64
}

/// The network an address belongs to, as kept for good: `/24` of IPv4, `/48` of IPv6.
pub fn client_net(address: IpAddr) -> String {
    match canonical(address) {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(v6) => {
            let mut segments = v6.segments();
            segments[3..].fill(0);
            format!("{}/48", std::net::Ipv6Addr::from(segments))
        }
    }
}

/// An IPv4-mapped IPv6 address as IPv4; any other unchanged.
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Sixteen bytes for either family, IPv4 as mapped.
pub fn as_v6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_cut_and_mapped_addresses_are_ipv4() {
        for (address, net) in [
            ("203.0.113.77", "203.0.113.0/24"),
            ("::ffff:203.0.113.77", "203.0.113.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ] {
            assert_eq!(client_net(address.parse().unwrap()), net);
        }
    }

    #[test]
    fn a_visitor_is_one_person_on_one_day() {
        let (monday, tuesday) = (VisitorKey([1; 16]), VisitorKey([2; 16]));
        let at = |key, ip: &str, agent| visitor(key, ip.parse().unwrap(), agent);
        assert_eq!(at(&monday, "203.0.113.7", "a"), at(&monday, "::ffff:203.0.113.7", "a"));
        assert_ne!(at(&monday, "203.0.113.7", "a"), at(&tuesday, "203.0.113.7", "a"));
        assert_ne!(at(&monday, "203.0.113.7", "a"), at(&monday, "203.0.113.7", "b"));
        assert_ne!(at(&monday, "203.0.113.7", "a"), at(&monday, "203.0.113.8", "a"));
    }
}
