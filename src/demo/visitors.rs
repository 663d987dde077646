//! Believable visitors: who they are, how often they come, and what they send. Pure: chance is passed in.

use rand::Rng;
use rand::seq::IndexedRandom;

/// A sample link.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Its code.
    pub(crate) code: &'static str,
    /// Where it leads.
    pub(crate) destination: &'static str,
    /// Its title.
    pub(crate) title: &'static str,
    /// Share of visits, relative to the others.
    pub(crate) weight: f64,
}

/// The link that goes hot.
pub(crate) const HOT: &str = "launch";

/// A dozen links.
pub(crate) const LINKS: &[Sample] = &[
    link(HOT, "https://example.com/launch", "Product launch", 3.0),
    link("pricing", "https://example.com/pricing", "Pricing", 2.0),
    link("docs", "https://example.org/docs", "Documentation", 2.0),
    link("blog-42", "https://example.com/blog/42", "Why counting is hard", 1.5),
    link("spring", "https://example.net/sale?utm_source=poster&utm_medium=print", "Spring sale poster", 1.0),
    link("jobs", "https://example.com/jobs", "We are hiring", 0.7),
    link("app", "https://example.com/app", "Get the app", 1.2),
    link("talk", "https://example.org/talks/streams", "Conference talk", 0.5),
    link("menu", "https://example.net/menu", "Lunch menu", 0.8),
    link("survey", "https://example.com/survey?utm_source=mail", "Customer survey", 0.6),
    link("podcast", "https://example.org/podcast/7", "Podcast, episode 7", 0.4),
    link("status", "https://example.com/status", "Status page", 0.3),
];

const fn link(code: &'static str, destination: &'static str, title: &'static str, weight: f64) -> Sample {
    Sample { code, destination, title, weight }
}

/// One request of a visitor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    /// Code of the link.
    pub(crate) code: &'static str,
    /// Query string, without `?`; empty for none.
    pub(crate) query: &'static str,
    /// Whether it is a HEAD.
    pub(crate) head: bool,
    /// The client's address, of a documentation range.
    pub(crate) address: String,
    /// User agent.
    pub(crate) user_agent: String,
    /// Referrer; empty for none.
    pub(crate) referrer: &'static str,
    /// Accept-Language; empty for none.
    pub(crate) language: &'static str,
}

impl Visit {
    /// The client's country: its first language's, as far as it has one.
    pub(crate) fn country(&self) -> &'static str {
        self.language.get(3..5).unwrap_or("US")
    }
}

const LANGUAGES: &[&str] =
    &["en-US,en;q=0.9", "de-DE,de;q=0.9,en;q=0.6", "nl-NL,nl;q=0.8", "fr-FR,fr;q=0.9", "ja-JP", "pt-BR"];
const REFERRERS: &[&str] = &[
    "",
    "",
    "",
    "https://t.co/",
    "https://www.linkedin.com/",
    "https://news.ycombinator.com/",
    "android-app://com.slack/",
];
const CAMPAIGNS: &[&str] =
    &["", "", "", "", "utm_source=newsletter&utm_medium=email&utm_campaign=june", "utm_source=x&utm_medium=social"];
const PREVIEWS: &[&str] = &[
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "WhatsApp/2.24.11.78 A",
    "TelegramBot (like TwitterBot)",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
];
const MACHINES: &[&str] = &[
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
    "curl/8.5.0",
    "python-requests/2.31.0",
];

/// Visits a second at `elapsed` seconds: a calm base, and a link that goes hot after ten seconds, for a minute and a
/// half, every five minutes.
pub(crate) fn rate(elapsed: f64) -> (f64, f64) {
    let phase = elapsed % 300.0;
    let hot = if phase < 10.0 {
        0.0
    } else if phase < 40.0 {
        (phase - 10.0) * 4.0
    } else {
        (120.0 * (-(phase - 40.0) / 25.0).exp()).max(0.0)
    };
    (12.0, hot)
}

/// The next visit: to the hot link when `hot`, else to any by its weight.
pub(crate) fn visit(chance: &mut impl Rng, hot: bool) -> Visit {
    let code = if hot { HOT } else { LINKS.choose_weighted(chance, |link| link.weight).map_or(HOT, |link| link.code) };
    let kind: f64 = chance.random();
    // while a link spreads, previews come with it
    let previews = if hot { 0.18 } else { 0.08 };
    let (user_agent, is_person) = if kind < previews {
        (pick(chance, PREVIEWS).to_owned(), false)
    } else if kind < previews + 0.05 {
        (pick(chance, MACHINES).to_owned(), false)
    } else {
        (browser(chance), true)
    };
    Visit {
        code,
        query: if is_person { pick(chance, CAMPAIGNS) } else { "" },
        head: chance.random_bool(0.02),
        address: address(chance),
        user_agent,
        referrer: if is_person { pick(chance, REFERRERS) } else { "" },
        language: if is_person { pick(chance, LANGUAGES) } else { "" },
    }
}

fn pick(chance: &mut impl Rng, from: &[&'static str]) -> &'static str {
    from.choose(chance).copied().unwrap_or_default()
}

fn browser(chance: &mut impl Rng) -> String {
    let version = chance.random_range(118..132);
    match chance.random_range(0..5) {
        0 => format!("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 Safari/537.36"),
        1 => format!("Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 Mobile Safari/537.36"),
        2 => "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1".to_owned(),
        3 => format!("Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"),
        _ => "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15".to_owned(),
    }
}

fn address(chance: &mut impl Rng) -> String {
    match chance.random_range(0..3) {
        0 => format!("203.0.113.{}", chance.random_range(1..255)),
        1 => format!("198.51.100.{}", chance.random_range(1..255)),
        _ => format!("2001:db8:{:x}::{:x}", chance.random_range(0..400), chance.random_range(1..9999)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn visitors_are_of_several_kinds_and_reach_every_link() {
        let mut chance = rand::rngs::StdRng::seed_from_u64(1);
        let visits: Vec<Visit> = (0..2_000).map(|_| visit(&mut chance, false)).collect();
        for link in LINKS {
            assert!(visits.iter().any(|v| v.code == link.code), "{}", link.code);
        }
        let previews = visits.iter().filter(|v| PREVIEWS.contains(&v.user_agent.as_str())).count();
        assert!((80..300).contains(&previews), "{previews}");
        for country in ["US", "DE", "JP"] {
            assert!(visits.iter().any(|v| v.country() == country), "{country}");
        }
        assert!(visits.iter().any(|v| v.head) && visits.iter().any(|v| !v.query.is_empty()));
    }

    #[test]
    fn a_link_goes_hot_and_cools_down() {
        assert_eq!(rate(5.0).1, 0.0);
        assert!(rate(40.0).1 > 100.0);
        assert!(rate(200.0).1 < 5.0);
    }
}
