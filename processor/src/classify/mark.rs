//! What the network of a request adds to a verdict, and how a row's reason keeps it.
//!
//! ```text
//! network/NAME            an ordinary-looking agent in a scanner's network: a scanner
//! RULE+network/NAME       seen in a scanner's network, but a rule or an app's browser has decided
//! RULE+confirmed/NAME     seen in a network of the operator whose agent RULE names
//! ```
//! A row keeps no address. So its reason says all that the address has said, and by it a row can be judged again: when rules
//! change, or when another record of the request tells what agent it really was. A scanner's mark is never lost by that; a
//! confirmation is, when the agent turns out to be another.

use std::cmp::Ordering;
use std::sync::Arc;

use schemas::Class;
use schemas::click::Verdict;

use super::Classifier;
use super::behaviour::unsigned;

/// Begins the reason of whoever is a scanner by its network.
const SCANNER: &str = "network/";
/// Begins what a confirmation adds.
const CONFIRMED: &str = "confirmed/";
/// Stands between a rule and what the network adds: no rule's id has it.
pub(super) const PLUS: char = '+';

/// What a request's network says, with the name of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// It is a scanner's.
    Scanner(&'a str),
    /// It is of the agent's operator.
    Confirmed(&'a str),
}

/// A reason's rule, empty when the network alone has decided, and its mark.
pub(crate) fn parts(reason: &str) -> (&str, Option<Mark<'_>>) {
    let reason = unsigned(reason);
    if let Some(name) = reason.strip_prefix(SCANNER) {
        return ("", Some(Mark::Scanner(name)));
    }
    let Some((rule, added)) = reason.split_once(PLUS) else { return (reason, None) };
    let scanner = added.strip_prefix(SCANNER).map(Mark::Scanner);
    (rule, scanner.or_else(|| added.strip_prefix(CONFIRMED).map(Mark::Confirmed)))
}

impl Mark<'_> {
    /// Of two marks of one request the lesser counts: a scanner's first, then by `rank` of the name, then by name.
    pub(crate) fn order(&self, other: &Self, rank: impl Fn(&str) -> u16) -> Ordering {
        let key = |mark: &Self| match *mark {
            Self::Scanner(name) => (false, rank(name), name.to_owned()),
            Self::Confirmed(name) => (true, rank(name), name.to_owned()),
        };
        key(self).cmp(&key(other))
    }

    /// What it adds to a rule's id.
    pub(crate) fn suffix(self) -> String {
        match self {
            Self::Scanner(name) => format!("{PLUS}{SCANNER}{name}"),
            Self::Confirmed(name) => format!("{PLUS}{CONFIRMED}{name}"),
        }
    }
}

impl Classifier {
    /// What a verdict on agent, method and headers becomes in a network with this mark. Only what looks like an ordinary
    /// browser, or like nothing at all, becomes a scanner by it: an app's browser has a person in front of it, and a
    /// machine keeps its name.
    pub fn with_mark(&self, verdict: &Verdict, mark: Mark<'_>) -> Verdict {
        match mark {
            Mark::Scanner(name) if self.is_ordinary(verdict) => Verdict {
                class: Class::Scanner,
                agent: Some(name.into()),
                reason: format!("{SCANNER}{name}").into(),
                rules_version: verdict.rules_version,
            },
            mark => {
                let reason: Arc<str> = format!("{}{}", verdict.reason, mark.suffix()).into();
                Verdict { reason, ..verdict.clone() }
            }
        }
    }

    /// Whether a verdict without a network's mark may become another by one that is a scanner's.
    pub fn is_ordinary(&self, verdict: &Verdict) -> bool {
        verdict.class == Class::Unknown || (verdict.class == Class::Human && verdict.reason == self.person)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHROME: &str =
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/998.0.0.0 Safari/537.36";

    #[test]
    fn a_network_makes_scanners_of_the_ordinary_and_of_nobody_else() {
        let classifier = Classifier::builtin().unwrap();
        let judged = |agent: &str, mark| {
            let verdict = classifier.with_mark(&classifier.agent(agent), mark);
            (verdict.class, verdict.agent.as_deref().map(str::to_owned), verdict.reason.as_ref().to_owned())
        };
        let some = |text: &str| Some(text.to_owned());
        let (scanner, confirmed) = (Mark::Scanner("mail"), Mark::Confirmed("list"));
        assert_eq!(judged(CHROME, scanner), (Class::Scanner, some("mail"), "network/mail".into()));
        assert_eq!(judged("", scanner), (Class::Scanner, some("mail"), "network/mail".into()));
        let app = format!("{CHROME} Instagram 300.0");
        assert_eq!(judged(&app, scanner), (Class::Human, None, "person/app+network/mail".into()));
        assert_eq!(judged("curl/8", scanner).2, "library-plain/curl+network/mail");
        let bing = "Mozilla/5.0 (compatible; bingbot/2.0)";
        let (class, _, reason) = judged(bing, confirmed);
        assert_eq!((class, reason.ends_with("+confirmed/list")), (Class::Crawler, true), "{reason}");
    }

    #[test]
    fn a_reason_keeps_what_the_network_said() {
        for (reason, expected) in [
            ("person", ("person", None)),
            ("network/mail", ("", Some(Mark::Scanner("mail")))),
            ("library-plain/curl+network/mail", ("library-plain/curl", Some(Mark::Scanner("mail")))),
            ("search/google+confirmed/googlebot", ("search/google", Some(Mark::Confirmed("googlebot")))),
            ("search/google+later", ("search/google", None)),
        ] {
            assert_eq!(parts(reason), expected);
        }
    }

    #[test]
    fn of_two_marks_a_scanners_counts() {
        let order = |a: Mark<'_>, b: Mark<'_>| a.order(&b, |_| 0);
        assert_eq!(order(Mark::Scanner("z"), Mark::Confirmed("a")), Ordering::Less);
        assert_eq!(order(Mark::Scanner("a"), Mark::Scanner("b")), Ordering::Less);
        assert_eq!(Mark::Scanner("a").order(&Mark::Scanner("b"), |name| u16::from(name == "a")), Ordering::Greater);
    }
}
