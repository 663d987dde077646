//! What `Cache-Control` an answer carries (interface §2.1), and how long a takedown takes to be in force. Pure.

use std::time::Duration;

use schemas::Analytics;

/// How long each layer may keep an answer.
#[derive(Clone, Copy, Debug)]
pub struct Ttls {
    /// The edge; whole seconds.
    pub s_maxage: Duration,
    /// A browser; whole seconds.
    pub max_age: Duration,
    /// This process, a link.
    pub cache: Duration,
    /// This process, the knowledge that a code is unknown; and any layer, the answer that says so.
    pub negative: Duration,
    /// Within this a takedown is in force everywhere.
    pub takedown_limit: Duration,
}

impl Ttls {
    /// How long a takedown may take: an old entry of this process fills the edge at its last moment, and the edge a
    /// browser at its last.
    pub fn takedown(&self) -> Duration {
        self.cache + self.s_maxage + self.max_age
    }

    /// How old a link may be and still be answered when the link store fails.
    pub fn stale(&self) -> Duration {
        self.takedown_limit.saturating_sub(self.s_maxage + self.max_age).max(self.cache)
    }
}

impl Default for Ttls {
    fn default() -> Self {
        Self {
            s_maxage: Duration::from_secs(10),
            max_age: Duration::ZERO,
            cache: Duration::from_secs(5),
            negative: Duration::from_secs(2),
            takedown_limit: Duration::from_secs(30),
        }
    }
}

/// What must not be kept anywhere.
pub(super) const NO_STORE: &str = "no-store";

/// The header of a redirect. A fetch ahead of a click is not to be kept, so that the click itself comes here too.
pub(super) fn redirect(analytics: Analytics, speculative: bool, ttls: &Ttls) -> String {
    let max_age = ttls.max_age.as_secs();
    match analytics {
        _ if speculative => NO_STORE.to_owned(),
        Analytics::Billed => format!("private, max-age={max_age}"),
        Analytics::Internal | Analytics::Off => {
            format!("max-age={max_age}, s-maxage={}", ttls.s_maxage.as_secs())
        }
    }
}

/// The header of an answer that there is no such link, or none any more.
pub(super) fn missing(ttls: &Ttls) -> String {
    format!("max-age=0, s-maxage={}", ttls.negative.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_need_not_be_counted_may_be_stored() {
        let ttls = Ttls { max_age: Duration::from_secs(3), ..Ttls::default() };
        for (analytics, speculative, expected, configured) in [
            (Analytics::Billed, false, "private, max-age=0", "private, max-age=3"),
            (Analytics::Internal, false, "max-age=0, s-maxage=10", "max-age=3, s-maxage=10"),
            (Analytics::Off, false, "max-age=0, s-maxage=10", "max-age=3, s-maxage=10"),
            (Analytics::Billed, true, "no-store", "no-store"),
            (Analytics::Internal, true, "no-store", "no-store"),
            (Analytics::Off, true, "no-store", "no-store"),
        ] {
            assert_eq!(redirect(analytics, speculative, &Ttls::default()), expected);
            assert_eq!(redirect(analytics, speculative, &ttls), configured);
        }
    }

    #[test]
    fn the_unknown_is_kept_no_longer_than_the_negative_ttl() {
        let with = |negative| missing(&Ttls { negative, ..Ttls::default() });
        assert_eq!(with(Duration::from_secs(2)), "max-age=0, s-maxage=2");
        assert_eq!(with(Duration::from_millis(900)), "max-age=0, s-maxage=0");
    }

    #[test]
    fn a_stale_link_keeps_within_the_takedown_limit() {
        let ttls = Ttls::default();
        assert_eq!(ttls.takedown(), Duration::from_secs(15));
        assert_eq!(ttls.stale() + ttls.s_maxage + ttls.max_age, ttls.takedown_limit);
        let tight = Ttls { takedown_limit: Duration::from_secs(15), ..ttls };
        assert_eq!(tight.stale(), tight.cache);
    }
}
