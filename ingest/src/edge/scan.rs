//! Where a JSON object ends, found byte by byte: its brackets, strings and commas, but not what is in them. What isn't
//! JSON in these is noticed where it is, so that a reader can go on behind it.

/// Brackets open at once, at most: no deeper object is read either.
const DEEPEST: u32 = 127;

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    KeyOrEnd,
    Key,
    Colon,
    Value,
    ValueOrEnd,
    CommaOrEnd,
}

/// What the next byte is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Nothing,
    String,
    Escape,
    /// A number, `true`, `false` or `null`.
    Word,
}

/// What a byte means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The object goes on.
    Inside,
    /// It ends here.
    End,
    /// It has turned out to be a list's wrapping, `{"name":[{`, of which the list's first object begins here.
    List,
    /// It is no JSON from here on.
    Broken,
}

/// An object that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scanner {
    expect: Expect,
    token: Token,
    /// Which of the open brackets are braces, the innermost in the lowest bit.
    braces: u128,
    depth: u32,
    /// How many tokens of `{"name":[{` it begins with; 0 once it has turned out not to.
    of_list: u8,
}

impl Scanner {
    /// Behind an object's first brace.
    pub(super) fn new() -> Self {
        Self { expect: Expect::KeyOrEnd, token: Token::Nothing, braces: 1, depth: 1, of_list: 1 }
    }

    /// Behind a list that was an object's first value.
    pub(super) fn behind_list() -> Self {
        Self { expect: Expect::CommaOrEnd, of_list: 0, ..Self::new() }
    }

    /// Whether bytes without a quote, a backslash and a line end mean nothing now.
    pub(super) fn is_in_string(&self) -> bool {
        self.token == Token::String
    }

    /// Whether it may still turn out to be a list's wrapping.
    pub(super) fn may_be_list(&self) -> bool {
        self.of_list > 0
    }

    /// It is taken for a record, whatever comes.
    pub(super) fn is_no_list(&mut self) {
        self.of_list = 0;
    }

    /// Reads a byte.
    pub(super) fn step(&mut self, byte: u8) -> Step {
        match (self.token, byte) {
            // No string goes over a line end: one that seems to was cut.
            (Token::String | Token::Escape, b'\n') => return Step::Broken,
            (Token::String, b'"') => self.token = Token::Nothing,
            (Token::String, b'\\') => self.token = Token::Escape,
            (Token::String, _) => {}
            (Token::Escape, _) => self.token = Token::String,
            (Token::Word, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'+' | b'-' | b'.') => {}
            (Token::Nothing | Token::Word, _) => {
                self.token = Token::Nothing;
                return self.outside(byte);
            }
        }
        Step::Inside
    }

    fn outside(&mut self, byte: u8) -> Step {
        use Expect::{Colon, CommaOrEnd, Key, KeyOrEnd, Value, ValueOrEnd};
        let begun = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return Step::Inside,
            b'"' => 1,
            b':' => 2,
            b'[' => 3,
            b'{' => 4,
            _ => 0,
        };
        self.of_list = if self.of_list > 0 && self.of_list == begun { begun + 1 } else { 0 };
        match (byte, self.expect) {
            (b'"', KeyOrEnd | Key) => (self.token, self.expect) = (Token::String, Colon),
            (b'"', Value | ValueOrEnd) => (self.token, self.expect) = (Token::String, CommaOrEnd),
            (b':', Colon) => self.expect = Value,
            (b',', CommaOrEnd) => self.expect = if self.braces & 1 == 1 { Key } else { Value },
            (b'{', Value | ValueOrEnd) if self.of_list == 5 => return Step::List,
            (b'{' | b'[', Value | ValueOrEnd) if self.depth < DEEPEST => {
                let is_brace = byte == b'{';
                self.depth += 1;
                self.braces = self.braces << 1 | u128::from(is_brace);
                self.expect = if is_brace { KeyOrEnd } else { ValueOrEnd };
            }
            (b'}', KeyOrEnd | CommaOrEnd) if self.braces & 1 == 1 => return self.close(),
            (b']', ValueOrEnd | CommaOrEnd) if self.braces & 1 == 0 => return self.close(),
            (b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-', Value | ValueOrEnd) => {
                (self.token, self.expect) = (Token::Word, CommaOrEnd);
            }
            _ => return Step::Broken,
        }
        Step::Inside
    }

    fn close(&mut self) -> Step {
        self.depth -= 1;
        self.braces >>= 1;
        self.expect = Expect::CommaOrEnd;
        if self.depth == 0 { Step::End } else { Step::Inside }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the first byte that isn't inside means, and how many there are before it.
    fn end(text: &str) -> Option<(Step, usize)> {
        let mut scanner = Scanner::new();
        let steps = text.bytes().skip(1).map(|byte| scanner.step(byte));
        steps.enumerate().find(|(_, step)| *step != Step::Inside).map(|(at, step)| (step, at + 1))
    }

    #[test]
    fn an_objects_end_is_its_own() {
        for text in [
            "{}",
            r#"{"a":1}"#,
            r#"{ "a" : [ 1 , "}" , [] , { } , true ] , "b\"}" : { "c" : -1.5e+7 } }"#,
            "{\"a\":\n[\r\n]\t}",
            r#"{"a":"\\"}"#,
            r#"{"a":[1,{"b":[]}]}"#,
        ] {
            assert_eq!(end(&format!("{text}{{")), Some((Step::End, text.len() - 1)), "{text}");
        }
        assert_eq!(end(r#"{"a":[{"b":1}]}"#), Some((Step::List, 6)));
        assert_eq!(end(r#"{ "a": [ {"#), Some((Step::List, 9)));
        assert_eq!(end(r#"{"x":1,"a":[{}]}"#), Some((Step::End, 15)));
        assert_eq!(end(r#"{"a":{"#), None);
    }

    #[test]
    fn what_is_no_json_is_noticed_where_it_is() {
        for (text, at) in [
            (r#"{"a":1 {"#, 7),
            (r#"{"a":{"b":1{"#, 11),
            (r#"{"a" 1"#, 5),
            (r#"{"a":1,}"#, 7),
            (r#"{,"#, 1),
            (r#"{1"#, 1),
            (r#"{"a":]"#, 5),
            (r#"{"a":[}"#, 6),
            (r#"{"a":[1,]"#, 8),
            ("{\"a\":\"b\n", 7),
            ("{\"a\":\"b\\\n", 8),
            (r#"{"a":\x22"#, 5),
        ] {
            assert_eq!(end(text), Some((Step::Broken, at)), "{text}");
        }
        let deep = format!("{{\"a\":{}", "[".repeat(200));
        assert_eq!(end(&deep), Some((Step::Broken, 5 + DEEPEST as usize - 1)));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_object_ends_where_it_ends(value in json(), pretty in any::<bool>()) {
            let object = serde_json::json!({ "first": 1, "value": value });
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
            let text = text.unwrap();
            prop_assert_eq!(end(&format!("{text}{{}}")), Some((Step::End, text.len() - 1)));
        }
    }
}
