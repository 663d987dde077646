//! Clicks made up as a redirect would have written them while a link spreads.
//!
//! Half of them are on one link of a thousand, the others mostly on few. Two in a hundred come from an agent that hasn't
//! been seen before, as apps write a version of their own, a device and a build into theirs; the rest from four hundred
//! common ones, one in eight of these a machine's. One in four carries campaign parameters.

use std::net::{IpAddr, Ipv4Addr};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use schemas::{Analytics, ClickEvent, ClickId, LinkId, Method, UtcMicros, event};

const LINKS: usize = 1_000;
const COMMON: usize = 400;
/// One in so many comes from a new agent.
const NEW_AGENT: u32 = 50;

const BOTS: [&str; 8] = [
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Twitterbot/1.0",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "WhatsApp/2.24.10.75 A",
    "TelegramBot (like TwitterBot)",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
    "curl/8.5.0",
];
const REFERRERS: [&str; 8] = [
    "",
    "",
    "",
    "https://t.co/AbCdEfGhIj",
    "https://l.facebook.com/l.php?u=https%3A%2F%2Fgo.test%2F",
    "https://www.instagram.com/",
    "https://www.reddit.com/r/technology/comments/1abcde/a_title/",
    "https://news.example.com/2026/11/30/the-story-everybody-reads",
];
const LANGUAGES: [&str; 6] =
    ["en-US,en;q=0.9", "nl-NL,nl;q=0.9,en;q=0.8", "de-DE,de;q=0.9", "pt-BR,pt;q=0.9", "ja-JP", "en-GB,en;q=0.7"];
/// Half of the edges tell none.
const COUNTRIES: [&str; 10] = ["US", "", "DE", "", "JP", "", "IN", "", "ES", ""];
const QUERIES: [&str; 2] =
    ["utm_source=newsletter&utm_medium=email&utm_campaign=november", "utm_source=x&utm_medium=social&fbclid=IwAR0abc"];

struct Link {
    id: LinkId,
    code: String,
    destination: String,
}

/// Those who click.
pub(super) struct Crowd {
    chance: StdRng,
    links: Vec<Link>,
    common: Vec<String>,
    new: String,
    met: u64,
}

impl Crowd {
    /// The same for the same seed, but for the links' identities.
    pub(super) fn new(seed: u64) -> Self {
        let link = |n: usize| Link {
            id: LinkId::new(),
            code: format!("code{n:04}"),
            destination: match n % 3 {
                0 => format!("https://shop.example.com/products/{n}?utm_source=short&utm_campaign=spring{}", n % 7),
                _ => format!("https://www.example.com/articles/{n}/how-a-link-is-read-by-everybody-at-once"),
            },
        };
        let common =
            (0..COMMON).map(|n| if n % 8 == 0 { BOTS[n / 8 % BOTS.len()].to_owned() } else { person(n as u64) });
        Self {
            chance: StdRng::seed_from_u64(seed),
            links: (0..LINKS).map(link).collect(),
            common: common.collect(),
            new: String::new(),
            met: 0,
        }
    }

    /// The next click, at `time`.
    pub(super) fn click(&mut self, time: UtcMicros) -> ClickEvent<'_> {
        let chance = &mut self.chance;
        let link = match chance.random_bool(0.5) {
            true => 0,
            // few of them have most
            false => (LINKS as f64 * chance.random::<f64>().powi(3)) as usize,
        };
        let link = &self.links[link];
        let user_agent = match chance.random_ratio(1, NEW_AGENT) {
            true => {
                self.met += 1;
                self.new = app(self.met);
                &self.new
            }
            false => &self.common[chance.random_range(0..COMMON)],
        };
        let mut one_of = |texts: &[&'static str]| texts[chance.random_range(0..texts.len())];
        let (referrer, language, country) = (one_of(&REFERRERS), one_of(&LANGUAGES), one_of(&COUNTRIES));
        let query = one_of(&["", "", "", QUERIES[0], "", "", "", QUERIES[1]]);
        ClickEvent {
            click_id: ClickId::from(chance.random::<u128>()),
            link_id: link.id,
            event_time: time,
            analytics: Analytics::Billed,
            visitor: Some(chance.random()),
            agent_hash: event::agent_hash(user_agent),
            workspace: "default",
            domain: "go.test",
            code: &link.code,
            revision: 1,
            destination: &link.destination,
            method: Method::Get,
            status: 302,
            address: Some(IpAddr::V4(address(chance.random(), chance.random()))),
            no_edge_id: false,
            private: false,
            user_agent,
            referrer,
            language,
            query,
            country,
            region: "",
            city: "",
            purpose: "",
            provider: "cloudfront",
        }
    }
}

/// An address: few networks have most of the people, and they are anywhere. Of 131,072 networks half of all clicks come
/// from one in eight.
fn address(which: f64, host: u16) -> Ipv4Addr {
    let network = ((f64::from(1 << 17) * which.powi(3)) as u32).wrapping_mul(0x9e37_79b1) >> 15;
    Ipv4Addr::from_bits(network << 15 | u32::from(host >> 1))
}

/// A browser of many.
fn person(n: u64) -> String {
    let (major, minor) = (100 + n % 40, n % 10);
    match n % 3 {
        0 => format!(
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{major}.0.{n}.{minor} Safari/537.36"
        ),
        1 => format!(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_{minor} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.{minor} Mobile/15E{major} Safari/604.1"
        ),
        _ => format!(
            "Mozilla/5.0 (Linux; Android 1{minor}; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{major}.0.0.{n} Mobile Safari/537.36"
        ),
    }
}

/// An app on a device that nobody else has.
pub(super) fn app(n: u64) -> String {
    let (major, build, model) = (300 + n % 60, 10_000_000 + n, n % 977);
    match n % 2 {
        0 => format!(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram {major}.0.3.{build} (iPhone15,2; iOS 17_5_1; en_US; en; scale=3.00; 1179x2556; {build})"
        ),
        _ => format!(
            "Mozilla/5.0 (Linux; Android 14; SM-S{model}B Build/UP1A.{build}; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/125.0.6422.{model} Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/{major}.0.0.{build};]"
        ),
    }
}
