//! What several requests together say of one that its agent calls a person's: the verdicts.
//!
//! Which requests they are, the settler finds out ([`crate::settle::behaviour`]). A verdict lasts with its row: whenever
//! that is judged anew, the reason that is stored in it is all that is left of the other requests.

use std::borrow::Cow;

use schemas::Class;

use super::mark::parts;

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

impl Sign {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Keystrokes, Self::NewLink, Self::ManyLinks];

    /// The sign that a row's reason names.
    pub fn of_reason(reason: &str) -> Option<Self> {
        let (rule, _) = parts(reason);
        Self::ALL.into_iter().find(|sign| sign.reason() == rule)
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
    }
}
