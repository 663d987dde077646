//! User agents by uap-core's rules, through crate `ua-parser`: browser and system with versions.
//!
//! The rules are compiled into this crate as tables (see `build.rs`). Making their regular expressions takes a moment
//! and some memory, so it is done once per process, for browsers and systems at the same time, when the first
//! [`Enricher`](super::Enricher) is made. uap-core's third list, device brands and models, is left out: the lake keeps
//! the sort of device only ([`super::device`]), and that list would double both costs.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::thread;

use schemas::click::AgentInfo;
use ua_parser::{os, user_agent};

use super::device;

include!(concat!(env!("OUT_DIR"), "/uap_core.rs"));

static BROWSER: LazyLock<Option<user_agent::Extractor<'static>>> = LazyLock::new(|| {
    let parsers = BROWSERS.iter().map(|[regex, family, v1, v2, v3, v4]| user_agent::Parser {
        regex: Cow::Borrowed(regex.unwrap_or_default()),
        family_replacement: family.map(Cow::Borrowed),
        v1_replacement: v1.map(Cow::Borrowed),
        v2_replacement: v2.map(Cow::Borrowed),
        v3_replacement: v3.map(Cow::Borrowed),
        v4_replacement: v4.map(Cow::Borrowed),
    });
    let made = user_agent::Builder::new().push_all(parsers).and_then(|builder| builder.build().map_err(Into::into));
    made.inspect_err(|error| tracing::error!(%error, "browsers can't be told: uap-core's rules don't compile")).ok()
});

static SYSTEM: LazyLock<Option<os::Extractor<'static>>> = LazyLock::new(|| {
    let parsers = SYSTEMS.iter().map(|[regex, name, v1, v2, v3, v4]| os::Parser {
        regex: Cow::Borrowed(regex.unwrap_or_default()),
        os_replacement: name.map(Cow::Borrowed),
        os_v1_replacement: v1.map(Cow::Borrowed),
        os_v2_replacement: v2.map(Cow::Borrowed),
        os_v3_replacement: v3.map(Cow::Borrowed),
        os_v4_replacement: v4.map(Cow::Borrowed),
    });
    let made = os::Builder::new().push_all(parsers).map_err(ua_parser::Error::from);
    let made = made.and_then(|builder| builder.build().map_err(Into::into));
    made.inspect_err(|error| tracing::error!(%error, "systems can't be told: uap-core's rules don't compile")).ok()
});

/// Begins to make the rules ready, without waiting. Where no thread is to be had they are made on first use.
pub(super) fn load_ahead() {
    let load = |name: &str, work: fn()| thread::Builder::new().name(name.to_owned()).spawn(work);
    let loading =
        [load("uap-browsers", || _ = LazyLock::force(&BROWSER)), load("uap-systems", || _ = LazyLock::force(&SYSTEM))];
    for thread in loading {
        if let Err(error) = thread {
            tracing::debug!(%error, "user agent rules will be loaded on first use");
        }
    }
}

/// What an agent says. `machine`: it is no person's, so its device is none of a person's either.
pub(super) fn describe(agent: &str, machine: bool) -> AgentInfo {
    let browser = BROWSER.as_ref().and_then(|browsers| browsers.extract(agent));
    let system = SYSTEM.as_ref().and_then(|systems| systems.extract(agent));
    AgentInfo {
        device: device::of(agent, machine),
        browser_version: browser.as_ref().and_then(|b| version([b.major, b.minor, b.patch, b.patch_minor])),
        browser: browser.and_then(|b| named(&b.family)),
        os_version: system.as_ref().and_then(|s| {
            version([s.major.as_deref(), s.minor.as_deref(), s.patch.as_deref(), s.patch_minor.as_deref()])
        }),
        os: system.and_then(|s| named(&s.os)),
    }
}

/// A family's name; `Other` stands for none.
fn named(family: &str) -> Option<Arc<str>> {
    (!family.is_empty() && family != "Other").then(|| family.into())
}

/// A version's parts, up to the first that is missing.
fn version(parts: [Option<&str>; 4]) -> Option<Arc<str>> {
    let known: Vec<&str> = parts.into_iter().map_while(|part| part.filter(|part| !part.is_empty())).collect();
    (!known.is_empty()).then(|| known.join(".").into())
}

/// For the parity test: the extractors themselves.
#[cfg(test)]
pub(super) fn extractors() -> (&'static user_agent::Extractor<'static>, &'static os::Extractor<'static>) {
    (BROWSER.as_ref().unwrap(), SYSTEM.as_ref().unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_of_browser_and_system() {
        let text = |t: &Option<Arc<str>>| t.as_deref().unwrap_or("").to_owned();
        for (agent, browser, system) in [
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.6723.1 Safari/537.36",
                "Chrome 130.0.6723.1",
                "Windows 10",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
                "Mobile Safari 18.1",
                "iOS 18.1",
            ),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0", "Firefox 130.0", "Linux "),
            ("gibberish", " ", " "),
            ("", " ", " "),
        ] {
            let info = describe(agent, false);
            assert_eq!(format!("{} {}", text(&info.browser), text(&info.browser_version)), browser, "{agent}");
            assert_eq!(format!("{} {}", text(&info.os), text(&info.os_version)), system, "{agent}");
        }
    }

    #[test]
    fn a_version_ends_at_its_first_gap() {
        assert_eq!(version([Some("1"), None, Some("3"), None]).as_deref(), Some("1"));
        assert_eq!(version([None, Some("2"), None, None]), None);
    }
}
