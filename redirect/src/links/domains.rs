//! The host names that are served, and how a host as given by someone meets one of them. Pure.

use std::net::Ipv4Addr;

use url::{Host, Url};

/// Why a configured domain can't be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DomainsError {
    /// A link needs a domain to stand under.
    #[error("no domain is configured; at least one is needed, such as \"localhost:8080\"")]
    None,
    /// It is no host name.
    #[error("{0:?} is not a host name with an optional port, such as \"sho.rt\" or \"localhost:8080\"")]
    Malformed(String),
}

/// The host names served, normalised: lower case, IDN as A-label, the port unless it is 80 or 443. Never empty; the
/// first is the default for new links and for records without a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domains(Vec<Domain>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Domain {
    /// As stored with links: `host` or `host:port`.
    name: String,
    host: String,
    port: Option<u16>,
    /// Whether the host is this very machine.
    loopback: bool,
}

impl Domains {
    /// Takes the configured names, in order; a repeated one is taken once.
    ///
    /// # Errors
    /// When there is none, or one of them is no host name.
    pub fn new<S: AsRef<str>>(names: &[S]) -> Result<Self, DomainsError> {
        let mut domains: Vec<Domain> = Vec::with_capacity(names.len());
        for name in names.iter().map(AsRef::as_ref) {
            let domain = parse(name).ok_or_else(|| DomainsError::Malformed(name.to_owned()))?;
            if !domains.contains(&domain) {
                domains.push(domain);
            }
        }
        if domains.is_empty() { Err(DomainsError::None) } else { Ok(Self(domains)) }
    }

    /// The default.
    pub fn first(&self) -> &str {
        self.0.first().map_or("", |domain| &domain.name)
    }

    /// All names, the default first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|domain| domain.name.as_str())
    }

    /// The served domain that `host` (a `Host` header, a field of a log) means: the one of the same host and port,
    /// else the only one of the same host, since logs often leave out the port and an edge may listen on another.
    /// `None` when no domain or no single one is meant.
    pub fn resolve(&self, host: &str) -> Option<&str> {
        // The usual case, on the way of every redirect: the name exactly as stored.
        if let Some(domain) = self.0.iter().find(|domain| domain.name == host) {
            return Some(&domain.name);
        }
        let given = parse(host)?;
        if let Some(domain) = self.0.iter().find(|domain| **domain == given) {
            return Some(&domain.name);
        }
        let mut same_host = self.0.iter().filter(|domain| domain.host == given.host);
        match (same_host.next(), same_host.next()) {
            (Some(only), None) => Some(&only.name),
            _ => None,
        }
    }

    /// Whether a destination leads back to us: a domain's host at the domain's port, at a scheme's default port, or,
    /// for a domain without a port, at any. The names and addresses of this very machine are one host.
    pub fn owns(&self, destination: &Url) -> bool {
        let Some(host) = destination.host_str() else { return false };
        let host = host.trim_end_matches('.');
        let here = destination.host().is_some_and(is_this_machine);
        self.0.iter().any(|domain| {
            (domain.host == host || (domain.loopback && here))
                && match (domain.port, destination.port()) {
                    (Some(ours), Some(theirs)) => ours == theirs,
                    _ => true,
                }
        })
    }
}

/// A host as links store it, whether or not it is served; `None` when it is no host name.
pub(super) fn normalise(host: &str) -> Option<String> {
    parse(host).map(|domain| domain.name)
}

/// The address people share: `https` except where the domain is this very machine.
pub fn short_url(domain: &str, code: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');
    let loopback = parse(domain).is_some_and(|domain| domain.loopback);
    let scheme = if loopback { "http" } else { "https" };
    format!("{scheme}://{domain}/{}", utf8_percent_encode(code, ENCODED))
}

/// Whether a host, however written, is the machine that is asked itself. The unspecified address connects there too.
fn is_this_machine(host: Host<&str>) -> bool {
    let is_v4 = |address: Ipv4Addr| address.is_loopback() || address.is_unspecified();
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Host::Ipv4(address) => is_v4(address),
        Host::Ipv6(address) => match address.to_ipv4_mapped() {
            Some(address) => is_v4(address),
            None => address.is_loopback() || address.is_unspecified(),
        },
    }
}

fn parse(given: &str) -> Option<Domain> {
    let unfit = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | '\\' | '?' | '#' | '@');
    if given.is_empty() || given.contains(unfit) {
        return None;
    }
    let url = Url::parse(&format!("http://{given}/")).ok()?;
    let host = url.host_str()?.trim_end_matches('.').to_owned();
    if host.is_empty() {
        return None;
    }
    // 80 is left out by the parser itself.
    let port = url.port().filter(|&port| port != 443);
    let name = port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
    let loopback = url.host().is_some_and(is_this_machine);
    Some(Domain { name, host, port, loopback })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(names: &[&str]) -> Domains {
        Domains::new(names).unwrap()
    }

    #[test]
    fn names_are_normalised_and_taken_once() {
        let served = domains(&["Sho.RT.", "sho.rt:443", "bücher.example", "localhost:8080", "[::1]:8080"]);
        let names: Vec<_> = served.names().collect();
        assert_eq!(names, ["sho.rt", "xn--bcher-kva.example", "localhost:8080", "[::1]:8080"]);
        assert_eq!(served.first(), "sho.rt");
    }

    #[test]
    fn what_is_no_host_name_is_refused() {
        assert_eq!(Domains::new::<&str>(&[]), Err(DomainsError::None));
        for bad in ["", "http://sho.rt", "sho.rt/x", "a b", "user@sho.rt", "sho.rt:port", ".", "sho.rt:99999"] {
            assert_eq!(Domains::new(&[bad]), Err(DomainsError::Malformed(bad.into())), "{bad:?}");
        }
    }

    #[test]
    fn a_host_meets_its_domain_with_and_without_the_port() {
        let served = domains(&["localhost:8080", "sho.rt", "two.example:1", "two.example:2"]);
        for (host, meant) in [
            ("localhost:8080", Some("localhost:8080")),
            ("LOCALHOST:8080", Some("localhost:8080")),
            ("localhost", Some("localhost:8080")),
            ("sho.rt:443", Some("sho.rt")),
            ("sho.rt:8443", Some("sho.rt")),
            ("SHO.rt.", Some("sho.rt")),
            ("two.example:2", Some("two.example:2")),
            ("two.example", None),
            ("elsewhere.example", None),
            ("", None),
            ("a b", None),
        ] {
            assert_eq!(served.resolve(host), meant, "{host:?}");
        }
    }

    #[test]
    fn destinations_on_our_own_hosts_are_known_however_written() {
        let served = domains(&["localhost:8080", "sho.rt", "bücher.example"]);
        for (url, ours) in [
            ("http://localhost:8080/x", true),
            ("http://localhost/x", true),
            ("http://localhost:3000/x", false),
            ("https://sho.rt/x", true),
            ("https://SHO.RT./x", true),
            ("https://sho.rt:9/x", true),
            ("https://xn--bcher-kva.example/", true),
            ("https://notsho.rt/", false),
            ("https://x.sho.rt/", false),
        ] {
            assert_eq!(served.owns(&Url::parse(url).unwrap()), ours, "{url}");
        }
    }

    #[test]
    fn this_machine_is_one_host() {
        let here = ["127.0.0.1", "127.1.2.3", "[::1]", "0x7f000001", "2130706433", "0", "[::]", "[::ffff:127.0.0.1]"];
        for name in ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "go.localhost:8080"] {
            let served = domains(&["sho.rt", name]);
            for host in here.iter().chain(&["localhost", "LocalHost.", "x.localhost"]) {
                let owns = |end: &str| served.owns(&Url::parse(&format!("http://{host}{end}")).unwrap());
                assert!(owns(":8080/x"), "{host} of {name}");
                assert!(owns("/x"), "{host} of {name}");
                assert!(!owns(":3000/x"), "{host} of {name}");
            }
            assert!(!served.owns(&Url::parse("http://128.0.0.1:8080/").unwrap()));
            assert!(!served.owns(&Url::parse("http://[::2]:8080/").unwrap()));
        }
        let elsewhere = domains(&["sho.rt"]);
        assert!(!elsewhere.owns(&Url::parse("http://127.0.0.1/x").unwrap()));
    }

    #[test]
    fn short_urls_can_be_pasted() {
        assert_eq!(short_url("sho.rt", "a-b_C"), "https://sho.rt/a-b_C");
        assert_eq!(short_url("localhost:8080", "x"), "http://localhost:8080/x");
        assert_eq!(short_url("127.0.0.1:8080", "x"), "http://127.0.0.1:8080/x");
        assert_eq!(short_url("[::1]:8080", "x"), "http://[::1]:8080/x");
        assert_eq!(short_url("sho.rt", "é"), "https://sho.rt/%C3%A9");
    }
}
