//! Client addresses as logs write them.

use std::net::{IpAddr, Ipv6Addr};

/// The address in `text`, without port, brackets or zone; IPv4 mapped into IPv6 becomes IPv4. `None` when there is
/// none to be read: logs may hide it.
pub fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let text = text.trim();
    let bare = match text.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?.0,
        // One colon is a port; more are an IPv6 address's own.
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => host,
            _ => text,
        },
    };
    match bare.split_once('%') {
        Some((address, _zone)) => address.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical()),
        None => bare.parse::<IpAddr>().ok().map(|address| address.to_canonical()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_brackets_zones_and_mapping_go() {
        for (text, expected) in [
            ("203.0.113.9", "203.0.113.9"),
            ("203.0.113.9:49194", "203.0.113.9"),
            ("2001:db8:0:1:0:0:0:7", "2001:db8:0:1::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:db8::7]:51514", "2001:db8::7"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:80", "fe80::1"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("[::ffff:203.0.113.9]:80", "203.0.113.9"),
            (" 203.0.113.9 ", "203.0.113.9"),
        ] {
            assert_eq!(
                address(text.as_bytes()).map(|address| address.to_string()).as_deref(),
                Some(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn what_hides_an_address_is_none() {
        for text in ["", "-", "unix:", "203.0.113", "[2001:db8::7", "203.0.113.9%eth0", "10.0.0.0/8", "a%b"] {
            assert_eq!(address(text.as_bytes()), None, "{text}");
        }
        assert_eq!(address(b"\xff"), None);
    }
}
