//! Variables that Kubernetes sets for its own: for each Service of a namespace its containers find where that is, under
//! the Service's name. One named `highwater`, or `highwater-manage`, leaves variables that begin as ours do.
//!
//! ```text
//! X_SERVICE_HOST=10.0.0.1   X_SERVICE_PORT=80   X_SERVICE_PORT_HTTP=80
//! X_PORT=tcp://10.0.0.1:80  X_PORT_80_TCP=tcp://10.0.0.1:80  X_PORT_80_TCP_PROTO=tcp  …_PORT=80  …_ADDR=10.0.0.1
//! ```
//! Source: Kubernetes' documentation, "Service", "Discovering services". Told by name and value together, so that a slip
//! in a key of ours stays an error. Pure.

use std::net::{IpAddr, SocketAddr};

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// Whether the variable, whose name begins with that of a Service `prefix` or `prefix-…`, is one of these.
pub(super) fn is_service_link(prefix: &str, name: &str, value: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else { return false };
    // the Service's name may go on, and may hold the words that are said of one
    rest.match_indices('_').any(|(at, _)| continues_name(&rest[..at]) && says(&rest[at + 1..], value))
}

/// Whether it can stand between the prefix and what is said: nothing, or `_` and more of a Service's name.
fn continues_name(text: &str) -> bool {
    let is_name = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    text.is_empty() || text.strip_prefix('_').is_some_and(|more| more.split('_').all(is_name))
}

/// Whether `what` is said of a Service in such a `value`.
fn says(what: &str, value: &str) -> bool {
    match what {
        "SERVICE_HOST" => is_address(value),
        "SERVICE_PORT" => is_port(value),
        "PORT" => is_place(value, None),
        _ => match (what.strip_prefix("SERVICE_PORT_"), what.strip_prefix("PORT_")) {
            (Some(name), _) => is_port_name(name) && is_port(value),
            (_, Some(port)) => says_of_port(port, value),
            _ => false,
        },
    }
}

/// What is said of one port: `80_TCP`, or `80_TCP_ADDR` and the like.
fn says_of_port(what: &str, value: &str) -> bool {
    let mut parts = what.split('_');
    let (Some(port), Some(protocol)) = (parts.next().filter(|port| is_port(port)), parts.next()) else { return false };
    let Some(protocol) = PROTOCOLS.into_iter().find(|known| protocol == known.to_ascii_uppercase()) else {
        return false;
    };
    let is_so = match parts.next() {
        None => is_place(value, Some((protocol, port))),
        Some("PROTO") => value == protocol,
        Some("PORT") => value == port,
        Some("ADDR") => is_address(value),
        Some(_) => false,
    };
    is_so && parts.next().is_none()
}

/// `tcp://10.0.0.1:80`; of this protocol and port, where they are known.
fn is_place(value: &str, of: Option<(&str, &str)>) -> bool {
    let Some((protocol, place)) = value.split_once("://") else { return false };
    // an IPv6 address comes in brackets or, from older versions, without
    let Some((address, port)) = place.rsplit_once(':') else { return false };
    let is_there = place.parse::<SocketAddr>().is_ok() || is_address(address) && is_port(port);
    PROTOCOLS.contains(&protocol) && is_there && of.is_none_or(|of| of == (protocol, port))
}

fn is_address(value: &str) -> bool {
    value.parse::<IpAddr>().is_ok()
}

fn is_port(value: &str) -> bool {
    value.parse::<u16>().is_ok_and(|port| port > 0) && value.bytes().all(|b| b.is_ascii_digit())
}

fn is_port_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_link(name: &str, value: &str) -> bool {
        is_service_link("HIGHWATER", name, value)
    }

    #[test]
    fn what_kubernetes_says_of_a_service_is_passed_over() {
        for service in ["HIGHWATER", "HIGHWATER_MANAGE", "HIGHWATER_SERVICE", "HIGHWATER_PORT_80", "HIGHWATER_EU_2"] {
            for (what, value) in [
                ("SERVICE_HOST", "10.96.0.12"),
                ("SERVICE_HOST", "fd00::12"),
                ("SERVICE_PORT", "80"),
                ("SERVICE_PORT_HTTP", "80"),
                ("SERVICE_PORT_HTTP_ADMIN", "8081"),
                ("PORT", "tcp://10.96.0.12:80"),
                ("PORT", "tcp://[fd00::12]:80"),
                ("PORT_80_TCP", "tcp://10.96.0.12:80"),
                ("PORT_53_UDP", "udp://10.96.0.12:53"),
                ("PORT_80_TCP_PROTO", "tcp"),
                ("PORT_80_TCP_PORT", "80"),
                ("PORT_80_TCP_ADDR", "10.96.0.12"),
            ] {
                assert!(is_link(&format!("{service}_{what}"), value), "{service}_{what}={value}");
            }
        }
    }

    #[test]
    fn anything_else_is_ours_to_judge() {
        for (name, value) in [
            ("HIGHWATER_PORT", "8080"),
            ("HIGHWATER_PORT", "http://10.96.0.12:80"),
            ("HIGHWATER_SERVICE_HOST", "example.com"),
            ("HIGHWATER_SERVICE_PORT", "0"),
            ("HIGHWATER_SERVICE_PORT", "+80"),
            ("HIGHWATER_SERVICE_PORT_", "80"),
            ("HIGHWATER_SERVICE_NAME", "10.96.0.12"),
            ("HIGHWATER_PORT_80_TCP", "tcp://10.96.0.12:81"),
            ("HIGHWATER_PORT_80_TCP", "udp://10.96.0.12:80"),
            ("HIGHWATER_PORT_80_TCP_PROTO", "udp"),
            ("HIGHWATER_PORT_80_TCP_PORT", "81"),
            ("HIGHWATER_PORT_80_TCP_ADDR_X", "10.96.0.12"),
            ("HIGHWATER_PORT_X_TCP_ADDR", "10.96.0.12"),
            ("HIGHWATER_REDIRECT__SERVICE_HOST", "10.96.0.12"),
            ("HIGHWATER__SERVICE_HOST", "10.96.0.12"),
            ("HIGHWATERS_SERVICE_HOST", "10.96.0.12"),
            ("OTHER_SERVICE_HOST", "10.96.0.12"),
            ("HIGHWATER_REDIRECT__LISTEN", "10.96.0.12:80"),
        ] {
            assert!(!is_link(name, value), "{name}={value}");
        }
    }
}
