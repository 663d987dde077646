//! A token: a piece of text that an agent holds, and what must stand beside it.

/// Why a token is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenError {
    #[error("is shorter than three bytes")]
    TooShort,
    #[error("is a bare word, which proves nothing alone")]
    BareWord,
    #[error("is not ASCII")]
    NotAscii,
    #[error("has neither letter nor digit")]
    NoText,
}

/// What must stand before a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The agent's beginning.
    Start,
    /// No letter or digit.
    Word,
    /// Anything.
    Any,
}

/// What must stand after a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// The agent's end.
    End,
    /// No letter.
    Word,
    /// Anything.
    Any,
}

/// A token. Written plainly it begins a word; `*token` may stand anywhere, `^token` at the beginning only,
/// `token|` ends a word, `token$` stands at the end only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    text: Box<str>,
    left: Left,
    right: Right,
    exact: bool,
}

impl Token {
    /// Reads a token as it is written in the rules; with `exact`, letters must match in case too.
    pub(super) fn parse(written: &str, exact: bool) -> Result<Self, TokenError> {
        let (left, rest) = match written.as_bytes().first() {
            Some(b'^') => (Left::Start, &written[1..]),
            Some(b'*') => (Left::Any, &written[1..]),
            _ => (Left::Word, written),
        };
        let (right, text) = match rest.as_bytes().last() {
            Some(b'$') => (Right::End, &rest[..rest.len() - 1]),
            Some(b'|') => (Right::Word, &rest[..rest.len() - 1]),
            _ => (Right::Any, rest),
        };
        if !text.is_ascii() {
            return Err(TokenError::NotAscii);
        }
        if text.len() < 3 {
            return Err(TokenError::TooShort);
        }
        if !text.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
            return Err(TokenError::NoText);
        }
        Ok(Self { text: text.into(), left, right, exact })
    }

    /// A word that ends a name: anything may stand before it, no letter after it.
    pub(super) fn name_end(word: &str) -> Self {
        Self { text: word.into(), left: Left::Any, right: Right::Word, exact: false }
    }

    /// Whether the token may be a bare word: the whole beginning of an agent is more than a word in it.
    pub(super) fn may_be_bare(&self) -> bool {
        self.left == Left::Start
    }

    /// What is looked for.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether `agent` holds it.
    pub(super) fn is_in(&self, agent: &str) -> bool {
        let (agent, length) = (agent.as_bytes(), self.text.len());
        let mut places = agent.windows(length).enumerate();
        places.any(|(start, part)| {
            part.eq_ignore_ascii_case(self.text.as_bytes()) && self.fits(agent, start, start + length)
        })
    }

    /// Whether the text found at `start..end` of `agent` has what it needs beside it.
    pub(super) fn fits(&self, agent: &[u8], start: usize, end: usize) -> bool {
        let left = match self.left {
            Left::Start => start == 0,
            Left::Any => true,
            Left::Word => {
                !agent[start].is_ascii_alphanumeric() || start == 0 || !agent[start - 1].is_ascii_alphanumeric()
            }
        };
        let right = match self.right {
            Right::End => end == agent.len(),
            Right::Any => true,
            Right::Word => agent.get(end).is_none_or(|next| !next.is_ascii_alphabetic()),
        };
        left && right && (!self.exact || agent[start..end] == *self.text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_say_where_a_token_may_stand() {
        for (written, agent, fits) in [
            ("Foo", "a Foobar/1", true),
            ("Foo", "aFoobar/1", false),
            ("*Foo", "aFoobar/1", true),
            ("^Foo", "Foo/1", true),
            ("^Foo", "a Foo/1", false),
            ("Foo|", "Foo/1", true),
            ("Foo|", "Food/1", false),
            ("Foo|", "Foo2", true),
            ("Foo$", "a Foo", true),
            ("Foo$", "a Foo/1", false),
            ("/Foo", "a/Foo", true),
        ] {
            let token = Token::parse(written, false).unwrap();
            let start = agent.find(token.text()).unwrap();
            assert_eq!(token.fits(agent.as_bytes(), start, start + token.text().len()), fits, "{written} in {agent}");
        }
        assert!(!Token::parse("foo", true).unwrap().fits(b"Foo", 0, 3));
        assert_eq!(Token::parse("^ab$", false), Err(TokenError::TooShort));
        assert_eq!(Token::parse("é-bot", false), Err(TokenError::NotAscii));
    }
}
