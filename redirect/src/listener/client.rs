//! The client's address, as far as trusted peers say. Pure.
//!
//! A forwarding header is read from the right, since every hop appends what it saw: the first hop that is no trusted
//! proxy is the client, and what stands left of it is only a claim. What can't be read ends the search at the last hop
//! that could, so garbage never breaks a redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use schemas::visitor::canonical;

/// A set of networks, asked often: sorted ranges without overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Networks {
    v4: Vec<(Ipv4Addr, Ipv4Addr)>,
    v6: Vec<(Ipv6Addr, Ipv6Addr)>,
}

impl Networks {
    /// The union of `nets`.
    pub(super) fn new(nets: &[IpNet]) -> Self {
        // aggregated networks are sorted, and none overlaps another
        let mut networks = Self::default();
        for net in IpNet::aggregate(&nets.to_vec()) {
            match net {
                IpNet::V4(v4) => networks.v4.push((v4.network(), v4.broadcast())),
                IpNet::V6(v6) => networks.v6.push((v6.network(), v6.broadcast())),
            }
        }
        networks.v4.sort_unstable();
        networks.v6.sort_unstable();
        networks
    }

    /// Whether `address` is in one of them; an IPv4-mapped address counts as IPv4.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        match canonical(address) {
            IpAddr::V4(v4) => within(&self.v4, v4),
            IpAddr::V6(v6) => within(&self.v6, v6),
        }
    }
}

fn within<A: Ord + Copy>(ranges: &[(A, A)], address: A) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    after > 0 && ranges[after - 1].1 >= address
}

/// The header that carries the client's address, and how it writes one.
#[derive(Clone, Debug)]
pub(super) struct ClientHeader {
    name: HeaderName,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// A list of addresses, each with or without a port.
    List,
    /// The `for` parts of RFC 7239.
    Forwarded,
    /// One address that always ends in a port, IPv6 without brackets too.
    WithPort,
}

impl ClientHeader {
    /// The header of this name.
    pub(super) fn new(name: HeaderName) -> Self {
        let form = match name.as_str() {
            "forwarded" => Form::Forwarded,
            "cloudfront-viewer-address" => Form::WithPort,
            _ => Form::List,
        };
        Self { name, form }
    }

    /// The client behind a trusted `peer`: the right-most hop that is no trusted proxy, else the left-most that could
    /// be read, else the peer.
    pub(super) fn client(&self, peer: IpAddr, trusted: &Networks, headers: &HeaderMap) -> IpAddr {
        let mut client = canonical(peer);
        for line in headers.get_all(&self.name).iter().rev() {
            for hop in line.as_bytes().rsplit(|&byte| byte == b',') {
                let Some(address) = self.address(hop) else { return client };
                client = address;
                if !trusted.contains(address) {
                    return client;
                }
            }
        }
        client
    }

    fn address(&self, hop: &[u8]) -> Option<IpAddr> {
        let hop = std::str::from_utf8(hop).ok()?.trim();
        let hop = match self.form {
            Form::List => hop,
            Form::Forwarded => forwarded_for(hop)?,
            Form::WithPort => hop.rsplit_once(':')?.0,
        };
        parse(hop.trim_matches('"'))
    }
}

fn forwarded_for(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim())
    })
}

/// An address as written in headers: plain, with a port, in brackets, with a zone.
fn parse(text: &str) -> Option<IpAddr> {
    let host = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        // one colon is a port's; more are IPv6's own
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => host,
            _ => text,
        },
    };
    let host = host.split_once('%').map_or(host, |(host, _zone)| host);
    host.parse().ok().map(canonical)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn nets(list: &[&str]) -> Networks {
        Networks::new(&list.iter().map(|net| net.parse().unwrap()).collect::<Vec<_>>())
    }

    fn trusted() -> Networks {
        nets(&["127.0.0.0/8", "::1/128", "10.0.0.0/8", "2001:db8:edge::/48".replace("edge", "ed6e").as_str()])
    }

    fn client(header: &str, peer: &str, lines: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(line).unwrap());
        }
        let header = ClientHeader::new(header.parse().unwrap());
        header.client(peer.parse().unwrap(), &trusted(), &headers).to_string()
    }

    #[test]
    fn the_right_most_untrusted_hop_is_the_client() {
        for (line, expected) in [
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:51234", "203.0.113.7"),
            ("198.51.100.1, 203.0.113.7", "203.0.113.7"),
            ("198.51.100.1, 203.0.113.7, 10.1.2.3", "203.0.113.7"),
            ("198.51.100.1,203.0.113.7,10.1.2.3,127.0.0.1", "203.0.113.7"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:db8::7]:443", "2001:db8::7"),
            ("2001:db8::7, 2001:db8:ed6e::9", "2001:db8::7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("[::ffff:203.0.113.7]:80", "203.0.113.7"),
            ("203.0.113.7, ::ffff:10.0.0.1", "203.0.113.7"),
            ("fe80::1%eth0", "fe80::1"),
            ("\"203.0.113.7\"", "203.0.113.7"),
            // all trusted: the farthest
            ("10.9.9.9, 10.1.2.3", "10.9.9.9"),
            // unreadable: the last that could be read, else the peer
            ("203.0.113.7, unknown", "127.0.0.1"),
            ("203.0.113.7, unknown, 10.1.2.3", "10.1.2.3"),
            ("", "127.0.0.1"),
            (",", "127.0.0.1"),
            ("300.1.1.1", "127.0.0.1"),
            ("[2001:db8::7", "127.0.0.1"),
            ("2001:db8:::7", "127.0.0.1"),
            ("garbage", "127.0.0.1"),
        ] {
            assert_eq!(client("x-forwarded-for", "127.0.0.1", &[line.as_bytes()]), expected, "{line}");
        }
    }

    #[test]
    fn lines_of_a_repeated_header_are_one_list() {
        let lines: [&[u8]; 2] = [b"198.51.100.1, 203.0.113.7", b"10.1.2.3"];
        assert_eq!(client("x-forwarded-for", "::1", &lines), "203.0.113.7");
        assert_eq!(client("x-forwarded-for", "::ffff:127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("x-forwarded-for", "127.0.0.1", &[b"\xff\xfe"]), "127.0.0.1");
    }

    #[test]
    fn other_headers_write_addresses_their_own_way() {
        for (header, line, expected) in [
            ("cf-connecting-ip", "2001:db8::7", "2001:db8::7"),
            ("cloudfront-viewer-address", "203.0.113.7:46532", "203.0.113.7"),
            ("cloudfront-viewer-address", "2001:db8::7:46532", "2001:db8::7"),
            ("cloudfront-viewer-address", "203.0.113.7", "127.0.0.1"),
            ("forwarded", "for=198.51.100.1, proto=https;For=\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("forwarded", "for=203.0.113.7;by=10.0.0.1, for=10.0.0.2", "203.0.113.7"),
            ("forwarded", "for=_hidden", "127.0.0.1"),
        ] {
            assert_eq!(client(header, "127.0.0.1", &[line.as_bytes()]), expected, "{header}: {line}");
        }
    }

    #[test]
    fn networks_touching_and_nested_are_one_set() {
        let set = nets(&["10.0.0.0/9", "10.128.0.0/9", "10.1.0.0/16", "192.0.2.1/32", "2001:db8::/32", "0.0.0.0/32"]);
        for (address, inside) in [
            ("10.0.0.0", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("9.255.255.255", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("0.0.0.0", true),
            ("0.0.0.1", false),
            ("::ffff:10.1.2.3", true),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true),
            ("2001:db9::", false),
            ("::", false),
        ] {
            assert_eq!(set.contains(address.parse().unwrap()), inside, "{address}");
        }
        assert!(!Networks::default().contains("::1".parse().unwrap()));
        assert!(nets(&["0.0.0.0/0"]).contains("255.255.255.255".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn a_set_holds_what_one_of_its_networks_holds(
            list in proptest::collection::vec((any::<u32>(), 0u8..=32), 0..12),
            probe in any::<u32>(), pick in any::<prop::sample::Index>(), offset in -2i64..=2,
        ) {
            let list: Vec<IpNet> = list.into_iter()
                .map(|(bits, length)| IpNet::new(IpAddr::V4(Ipv4Addr::from(bits)), length).unwrap()).collect();
            let set = Networks::new(&list);
            let near = list.get(pick.index(list.len().max(1))).map_or(probe, |net| match net.network() {
                IpAddr::V4(v4) => (i64::from(u32::from(v4)) + offset).clamp(0, i64::from(u32::MAX)) as u32,
                IpAddr::V6(_) => probe,
            });
            for address in [probe, near].map(|bits| IpAddr::V4(Ipv4Addr::from(bits))) {
                prop_assert_eq!(set.contains(address), list.iter().any(|net| net.contains(&address)));
            }
        }

        #[test]
        fn any_header_gives_some_address(bytes in proptest::collection::vec(0x20u8..=0xff, 0..60)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let mut headers = HeaderMap::new();
                for name in ["x-forwarded-for", "forwarded", "cloudfront-viewer-address"] {
                    headers.insert(HeaderName::from_static(name), value.clone());
                    let header = ClientHeader::new(HeaderName::from_static(name));
                    header.client("127.0.0.1".parse().unwrap(), &trusted(), &headers);
                }
            }
        }
    }
}
