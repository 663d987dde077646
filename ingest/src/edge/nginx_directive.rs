//! The text of nginx's `log_format` directive, taken apart into literals and variables.
//!
//! ```text
//! log_format main escape=json '{"t":"$msec","u":"$request_uri"' ',"s":$status}';
//!            ─┬── ─────┬─────  ──────────────┬──────────────────────────────┘
//!       left out   told by itself     pieces joined, as nginx does
//! ```
//! The name, `escape=` and the quotes may be left out, so that what stands between the quotes will do too.

/// What is read of a line: a variable's place among its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// `$msec`
    Msec,
    /// `$time_iso8601`
    Iso,
    /// `$time_local`
    Local,
    /// `$remote_addr`
    Address,
    /// `$host`
    Host,
    /// `$http_host`
    HttpHost,
    /// `$request`
    Request,
    /// `$request_method`
    Method,
    /// `$request_uri`, or `$uri$is_args$args`
    Target,
    /// `$args`, where the target has none of its own
    Query,
    /// `$status`
    Status,
    /// `$http_referer`
    Referrer,
    /// `$http_user_agent`
    Agent,
    /// `$http_accept_language`
    Language,
    /// A country's code
    Country,
    /// A region's code or name
    Region,
    /// A city's name
    City,
    /// `$http_sec_gpc`
    Gpc,
    /// `$http_dnt`
    Dnt,
    /// `$upstream_cache_status`
    Cache,
    /// `$upstream_status`
    Upstream,
    /// `$request_id`
    Id,
}

/// How many slots there are.
pub const SLOTS: usize = 22;

const VARIABLES: [(&str, Slot); 34] = [
    ("msec", Slot::Msec),
    ("time_iso8601", Slot::Iso),
    ("time_local", Slot::Local),
    ("remote_addr", Slot::Address),
    ("host", Slot::Host),
    ("http_host", Slot::HttpHost),
    ("request", Slot::Request),
    ("request_method", Slot::Method),
    ("request_uri", Slot::Target),
    ("uri", Slot::Target),
    ("document_uri", Slot::Target),
    ("args", Slot::Query),
    ("query_string", Slot::Query),
    ("status", Slot::Status),
    ("http_referer", Slot::Referrer),
    ("http_user_agent", Slot::Agent),
    ("http_accept_language", Slot::Language),
    ("geoip_country_code", Slot::Country),
    ("geoip2_country_code", Slot::Country),
    ("geoip2_data_country_code", Slot::Country),
    ("geoip2_data_country_iso_code", Slot::Country),
    ("http_sec_gpc", Slot::Gpc),
    ("http_dnt", Slot::Dnt),
    ("geoip_region", Slot::Region),
    ("geoip_region_name", Slot::Region),
    ("geoip2_region_code", Slot::Region),
    ("geoip2_data_region_code", Slot::Region),
    ("geoip_city", Slot::City),
    ("geoip2_city", Slot::City),
    ("geoip2_city_name", Slot::City),
    ("geoip2_data_city_name", Slot::City),
    ("upstream_cache_status", Slot::Cache),
    ("upstream_status", Slot::Upstream),
    ("request_id", Slot::Id),
];

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that stands in every line.
    Literal(Vec<u8>),
    /// A variable's value; without a slot it is passed over.
    Value(Option<Slot>),
    /// A variable's value that goes on until the slash with which the next one begins.
    UntilSlash(Option<Slot>),
}

/// A directive, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directive {
    /// In a line's order; two values never stand side by side.
    pub pieces: Vec<Piece>,
    /// Values are escaped, for text or for JSON: how, a value itself tells. False with `escape=none`.
    pub escaped: bool,
}

/// Why a text is no `log_format` that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectiveError {
    /// It lacks what every click needs.
    #[error("it lacks {}", .what.join(", and "))]
    Lacks {
        /// What is missing, each with the variables that would do.
        what: Vec<&'static str>,
    },
    /// Where one value ends and the next begins can't be told.
    #[error("${first} and ${second} stand side by side, so where one ends can't be told: put something between them")]
    SideBySide {
        /// Name of the one variable.
        first: String,
        /// Name of the other.
        second: String,
    },
    /// A dollar sign without a name.
    #[error("no variable's name follows the dollar sign in {near:?}")]
    NoName {
        /// The text from there on, cut.
        near: String,
    },
    /// Another way to escape than nginx has.
    #[error("escape={given} is none of default, json, none")]
    Escape {
        /// As given.
        given: String,
    },
    /// Quotes don't pair, or something stands outside of them.
    #[error("its quotes don't pair near {near:?}")]
    Quotes {
        /// The text from there on, cut.
        near: String,
    },
}

impl Directive {
    /// Takes a directive's text apart.
    ///
    /// # Errors
    /// When it can't be, or lines in it would lack what every click needs.
    pub fn parse(text: &str) -> Result<Self, DirectiveError> {
        let (text, escaped) = format_text(text)?;
        let pieces = separated(tokens(&text)?)?;
        let directive = Self { pieces, escaped };
        let what = directive.lacks();
        if what.is_empty() { Ok(directive) } else { Err(DirectiveError::Lacks { what }) }
    }

    /// Whether lines have a value for `slot`.
    pub fn has(&self, slot: Slot) -> bool {
        let wanted = Some(slot);
        self.pieces.iter().any(|piece| matches!(piece, Piece::Value(slot) | Piece::UntilSlash(slot) if *slot == wanted))
    }

    fn lacks(&self) -> Vec<&'static str> {
        let needed: [(&[Slot], &str); 3] = [
            (&[Slot::Msec, Slot::Iso, Slot::Local], "a time ($msec, $time_iso8601 or $time_local)"),
            (&[Slot::Request, Slot::Target], "what was asked for ($request, or $request_uri with $request_method)"),
            (&[Slot::Status], "$status"),
        ];
        let missing = needed.iter().filter(|(any, _)| !any.iter().any(|slot| self.has(*slot)));
        missing.map(|(_, words)| *words).collect()
    }
}

/// What stands between the quotes, and whether its values are escaped.
fn format_text(text: &str) -> Result<(String, bool), DirectiveError> {
    let mut rest = text.trim();
    let whole = rest.strip_prefix("log_format").filter(|rest| rest.starts_with(char::is_whitespace));
    if let Some(named) = whole {
        // the name
        rest = named.trim_start().split_once(char::is_whitespace).map_or("", |(_, rest)| rest).trim_start();
    }
    let mut escaped = true;
    if let Some(word) = rest.strip_prefix("escape=") {
        let (word, after) = word.split_once(char::is_whitespace).unwrap_or((word, ""));
        escaped = match word {
            "default" | "json" => true,
            "none" => false,
            _ => return Err(DirectiveError::Escape { given: word.to_owned() }),
        };
        rest = after.trim_start();
    }
    // A format may itself begin with a double quote; only a whole directive is sure to have quotes around it.
    let quoted = rest.starts_with('\'') || (whole.is_some() && rest.starts_with('"'));
    if !quoted {
        return Ok((rest.to_owned(), escaped));
    }
    let rest = rest.strip_suffix(';').unwrap_or(rest);
    Ok((joined(rest)?, escaped))
}

/// Quoted pieces, joined.
fn joined(text: &str) -> Result<String, DirectiveError> {
    let mut out = String::new();
    let mut rest = text.trim_end();
    while let Some(quote) = rest.chars().next() {
        let broken = || DirectiveError::Quotes { near: near(rest) };
        if !matches!(quote, '\'' | '"') {
            return Err(broken());
        }
        let mut chars = rest.char_indices().skip(1);
        let end = loop {
            match chars.next().ok_or_else(broken)? {
                (at, char) if char == quote => break at + 1,
                (_, '\\') => match chars.next().ok_or_else(broken)?.1 {
                    'n' => out.push('\n'),
                    'r' => out.push('\r'),
                    't' => out.push('\t'),
                    char @ ('\'' | '"' | '\\') => out.push(char),
                    char => out.extend(['\\', char]),
                },
                (_, char) => out.push(char),
            }
        };
        rest = rest[end..].trim_start();
    }
    Ok(out)
}

/// A literal, or a variable by its name.
enum Token<'a> {
    Literal(&'a str),
    Variable(&'a str),
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, DirectiveError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(dollar) = rest.find('$') else {
            tokens.push(Token::Literal(rest));
            break;
        };
        if dollar > 0 {
            tokens.push(Token::Literal(&rest[..dollar]));
        }
        let after = &rest[dollar + 1..];
        let no_name = || DirectiveError::NoName { near: near(&rest[dollar..]) };
        let name_of = |text: &str| {
            let end = text.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(text.len());
            if end > 0 { Ok(end) } else { Err(no_name()) }
        };
        let (name, length) = match after.strip_prefix('{') {
            Some(braced) => {
                let end = name_of(braced)?;
                (&braced[..end], braced[end..].starts_with('}').then_some(end + 2).ok_or_else(no_name)?)
            }
            None => {
                let end = name_of(after)?;
                (&after[..end], end)
            }
        };
        tokens.push(Token::Variable(name));
        rest = &after[length..];
    }
    Ok(tokens)
}

/// Pieces, of which no two values stand side by side.
fn separated(tokens: Vec<Token<'_>>) -> Result<Vec<Piece>, DirectiveError> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut last: Option<&str> = None;
    for token in tokens {
        let name = match token {
            Token::Literal(text) => {
                pieces.push(Piece::Literal(text.as_bytes().to_vec()));
                last = None;
                continue;
            }
            Token::Variable(name) => name,
        };
        let slot = VARIABLES.iter().find(|(known, _)| *known == name).map(|(_, slot)| *slot);
        match (last, pieces.last_mut()) {
            // One value together: a path, a question mark where there is a query, and the query.
            (Some("uri" | "document_uri"), _) if name == "is_args" => last = Some("is_args"),
            (Some("is_args"), _) if matches!(name, "args" | "query_string") => last = Some(name),
            (Some(_), Some(piece @ Piece::Value(_))) if slot == Some(Slot::Target) => {
                if let Piece::Value(before) = *piece {
                    *piece = Piece::UntilSlash(before);
                }
                pieces.push(Piece::Value(slot));
                last = Some(name);
            }
            (Some(first), _) => {
                return Err(DirectiveError::SideBySide { first: first.to_owned(), second: name.to_owned() });
            }
            (None, _) => {
                pieces.push(Piece::Value(slot));
                last = Some(name);
            }
        }
    }
    Ok(pieces)
}

fn near(text: &str) -> String {
    text.chars().take(20).collect()
}

#[cfg(test)]
mod tests;
