//! What several requests together say of one that its agent calls a person's: the verdicts.
//!
//! ```text
//! behaviour/SIGN                an ordinary-looking agent, shown to be a machine's
//! behaviour/SIGN+network/NAME   the same, in a network that has been seen to be a scanner's
//! RULE+behaviour/SIGN           judged anew by a rule that knows the agent: what was seen stays written
//! ```
//! Which requests they are, the settler finds out ([`crate::settle::behaviour`]). A verdict lasts with its row: whenever
//! that is judged anew, the reason that is stored in it is all that is left of the other requests.

use std::borrow::Cow;

use schemas::Class;
use schemas::click::Verdict;

use super::mark::{PLUS, parts};

/// What the reasons of such verdicts begin with.
pub(crate) const BEHAVIOUR: &str = "behaviour/";

/// Why a request is no person's. The first that holds is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sign {
    /// Codes that grow letter by letter: a chat app fetches previews of a link that is being typed (facts: WhatsApp,
    /// Signal and Telegram were logged asking once for each character).
    Keystrokes,
    /// A hosting network asks for a link that was made a moment ago: a mail gateway or a scanner.
    NewLink,
    /// More links within seconds than anybody opens: a scanner that follows all links of a page or a mail.
    ManyLinks,
}

/// A reason without what was seen of other requests, where that has not decided.
pub(super) fn unsigned(reason: &str) -> &str {
    match reason.rsplit_once(PLUS) {
        Some((rest, last)) if last.starts_with(BEHAVIOUR) => rest,
        _ => reason,
    }
}

impl Sign {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Keystrokes, Self::NewLink, Self::ManyLinks];

    /// The sign that a row's reason names.
    pub fn of_reason(reason: &str) -> Option<Self> {
        let is_there = |sign: &Self| reason.split(PLUS).any(|part| part == sign.reason());
        Self::ALL.into_iter().find(is_there)
    }

    /// What is stored as `class_reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Keystrokes => "behaviour/keystrokes",
            Self::NewLink => "behaviour/new-link",
            Self::ManyLinks => "behaviour/many-links",
        }
    }

    /// What takes the place of a reason: what that says of the network stays said.
    pub fn reason_after(self, before: &str) -> Cow<'static, str> {
        match parts(before) {
            (_, Some(mark)) => Cow::Owned(format!("{}{}", self.reason(), mark.suffix())),
            _ => Cow::Borrowed(self.reason()),
        }
    }

    /// What a verdict becomes that doesn't know of it: another class, if it was a person's; else what was seen is only
    /// written down, in case that rules change again.
    pub fn on(self, verdict: Verdict) -> Verdict {
        if verdict.class == Class::Human {
            let reason = self.reason_after(&verdict.reason).into();
            return Verdict { class: self.class(), agent: None, reason, ..verdict };
        }
        Verdict { reason: format!("{}{PLUS}{}", verdict.reason, self.reason()).into(), ..verdict }
    }

    /// What the request is.
    pub fn class(self) -> Class {
        match self {
            Self::Keystrokes => Class::Preview,
            Self::NewLink | Self::ManyLinks => Class::Scanner,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_known_again_by_its_reason() {
        for sign in Sign::ALL {
            assert!(sign.reason().starts_with(BEHAVIOUR));
            assert_eq!(Sign::of_reason(sign.reason()), Some(sign));
        }
        assert_eq!(Sign::of_reason("behaviour/of-another-time"), None);
        assert_eq!(Sign::of_reason("person"), None);
        assert_eq!(Sign::ManyLinks.reason_after("person"), "behaviour/many-links");
        let marked = Sign::ManyLinks.reason_after("person/app+network/mail");
        assert_eq!(marked, "behaviour/many-links+network/mail");
        assert_eq!(Sign::of_reason(&marked), Some(Sign::ManyLinks));
        for (reason, rule) in [
            ("own/acme+behaviour/many-links", "own/acme"),
            ("own/acme+network/mail+behaviour/many-links", "own/acme"),
            ("network/mail+behaviour/many-links", ""),
        ] {
            assert_eq!((Sign::of_reason(reason), parts(reason).0), (Some(Sign::ManyLinks), rule), "{reason}");
        }
        assert_eq!(parts("network/mail+behaviour/many-links").1, Some(crate::classify::Mark::Scanner("mail")));
    }
}
