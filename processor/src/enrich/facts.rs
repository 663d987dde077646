//! What a row says of its request, in a few bytes: enough to tell whether another record of that request knows better.
//!
//! ```text
//! row ──► Facts ─┐
//!                ├─ join ──► differs from the row's? the record knows better and corrects the row
//! record ► Facts ─┘
//! ```
//! Each field has an order of its own, and of two records the field takes the better value, so a join doesn't depend on
//! the order of records, nor on how often one comes: it is that of `merge`, which joins whole rows, seen through
//! hashes. Of two values that contradict each other the one with the lesser hash is taken: neither is better, but it
//! must be the same one in whatever order they come. A city goes with its country and region: of two records the better
//! country and region are taken, and the better city of those that have these.
//!
//! Only one record may know that the client asked for privacy: what the others know of its network, city and visitor goes
//! then, in whatever order they come.
//!
//! A hash of 16 bits may make two texts one: then a correction of a value that was known already isn't noticed. What a
//! row lacks is never missed.

use arrow::array::{Array as _, AsArray as _, BooleanArray, RecordBatch, StringArray};
#[cfg(test)]
use schemas::Click;
use schemas::click::Utm;
use schemas::{Method, Source};
use xxhash_rust::xxh3::xxh3_64;

use super::utm;
use crate::classify::{Mark, parts};

/// What a CDN puts in the place of the client's agent when it hides that from the origin.
const HIDING_AGENTS: [&str; 1] = ["Amazon CloudFront"];

/// The columns of texts that facts are made of.
const TEXTS: usize = 18;
/// The column of truth among them, the last.
const PRIVATE: &str = "private";

/// The columns that facts are made of: texts, and behind them whether the client asked for privacy.
pub(crate) const COLUMNS: [&str; TEXTS + 1] = [
    "workspace",
    "source",
    "method",
    "user_agent",
    "client_net",
    "referrer",
    "language",
    "country",
    "region",
    "city",
    "destination",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_term",
    "utm_content",
    "class_reason",
    "query",
    PRIVATE,
];

/// What a row says of its request. Hashes are 0 for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    workspace: u16,
    net: u16,
    agent: u16,
    referrer: u16,
    language: u16,
    /// Country and region.
    place: u16,
    city: u16,
    campaign: u16,
    /// The list of networks that says that it is a scanner's.
    scanner: u16,
    query: u16,
    /// How much of country and region is known.
    places: u8,
    /// The client asked for privacy: then nothing is known of network and city, whoever tells them.
    private: bool,
    /// How well the agent is known.
    agent_known: AgentKnown,
    source: Source,
    method: Option<Method>,
}

/// How well an agent is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AgentKnown {
    /// Nothing is known of it.
    Not,
    /// The CDN has put its own name there.
    Hidden,
    /// It is the client's.
    Known,
}

impl AgentKnown {
    pub(super) fn of(user_agent: Option<&str>) -> Self {
        match user_agent {
            None => Self::Not,
            Some(agent) if HIDING_AGENTS.contains(&agent) => Self::Hidden,
            Some(_) => Self::Known,
        }
    }
}

/// Who was there first-hand knows best: the origin's event, one made elsewhere, the edge that answered, a line of a
/// request whose event is missing.
pub(super) fn source_rank(source: Source) -> u8 {
    match source {
        Source::Origin => 0,
        Source::Import => 1,
        Source::Edge => 2,
        Source::Recovered => 3,
    }
}

/// A `HEAD` stays one: what turns methods into others makes a `GET` of it, never the other way round.
pub(super) fn method_rank(method: Option<Method>) -> u8 {
    match method {
        None => 0,
        Some(Method::Get) => 1,
        Some(Method::Head) => 2,
    }
}

/// The texts that facts are made of.
#[derive(Clone, Copy, Debug)]
struct Said<'a> {
    workspace: &'a str,
    source: Source,
    method: Option<Method>,
    user_agent: Option<&'a str>,
    client_net: Option<&'a str>,
    referrer: Option<&'a str>,
    language: Option<&'a str>,
    place: [Option<&'a str>; 2],
    city: Option<&'a str>,
    destination: Option<&'a str>,
    campaign: [Option<&'a str>; 5],
    reason: &'a str,
    query: Option<&'a str>,
    private: bool,
}

impl Facts {
    /// Of a row.
    #[cfg(test)]
    pub(crate) fn of(click: &Click) -> Self {
        Self::from(Said {
            workspace: &click.workspace,
            source: click.source,
            method: click.method,
            user_agent: click.user_agent.as_deref(),
            client_net: click.client_net.as_deref(),
            referrer: click.referrer.as_deref(),
            language: click.language.as_deref(),
            place: [click.country.as_deref(), click.region.as_deref()],
            city: click.city.as_deref(),
            destination: click.destination.as_deref(),
            campaign: parameters(&click.utm),
            reason: &click.verdict.reason,
            query: click.query.as_deref(),
            private: click.private,
        })
    }

    /// What both records say together.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        let place = |facts: &Self| (std::cmp::Reverse(facts.places), facts.place, facts.city == 0, facts.city);
        let agent = |facts: &Self| (std::cmp::Reverse(facts.agent_known), facts.agent);
        let (by_place, by_agent) = (
            if place(&other) < place(&self) { other } else { self },
            if agent(&other) < agent(&self) { other } else { self },
        );
        let private = self.private || other.private;
        Self {
            workspace: self.workspace.min(other.workspace),
            net: if private { 0 } else { known(self.net, other.net) },
            agent: by_agent.agent,
            agent_known: by_agent.agent_known,
            referrer: known(self.referrer, other.referrer),
            language: known(self.language, other.language),
            place: by_place.place,
            places: by_place.places,
            city: if private { 0 } else { by_place.city },
            campaign: known(self.campaign, other.campaign),
            scanner: known(self.scanner, other.scanner),
            query: known(self.query, other.query),
            private,
            source: if source_rank(other.source) < source_rank(self.source) { other.source } else { self.source },
            method: if method_rank(other.method) > method_rank(self.method) { other.method } else { self.method },
        }
    }

    /// Whether this record knows something that `row` doesn't.
    pub fn knows_better_than(&self, row: &Self) -> bool {
        row.join(*self) != *row
    }

    /// Whether both can be of one request: of one tenant's link, and from one network and agent as far as both are known.
    pub fn is_of_one_request_with(&self, other: &Self) -> bool {
        let agrees = |a: u16, b: u16| a == 0 || b == 0 || a == b;
        let both_known = self.agent_known == AgentKnown::Known && other.agent_known == AgentKnown::Known;
        self.workspace == other.workspace && agrees(self.net, other.net) && (!both_known || self.agent == other.agent)
    }

    /// Where the record came from.
    pub fn source(&self) -> Source {
        self.source
    }
}

/// The known one of two hashes, the lesser if both are.
fn known(a: u16, b: u16) -> u16 {
    match (a, b) {
        (0, one) | (one, 0) => one,
        _ => a.min(b),
    }
}

/// A text as 16 bits, never 0.
pub(super) fn short(text: &str) -> u16 {
    (xxh3_64(text.as_bytes()) % u64::from(u16::MAX)) as u16 + 1
}

/// Several texts as 16 bits; 0 when none is there.
pub(super) fn short_of(texts: &[Option<&str>]) -> u16 {
    if texts.iter().all(Option::is_none) {
        return 0;
    }
    let mix = |sum: u64, text: &Option<&str>| {
        sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ text.map_or(0, |t| xxh3_64(t.as_bytes()))
    };
    (texts.iter().fold(1, mix) % u64::from(u16::MAX)) as u16 + 1
}

/// A row's campaign parameters.
pub(super) fn parameters(utm: &Utm) -> [Option<&str>; 5] {
    [&utm.source, &utm.medium, &utm.campaign, &utm.term, &utm.content].map(|value| value.as_deref())
}

/// Those of a row's campaign parameters that its destination doesn't account for: they are of the click's own query.
pub(super) fn of_click<'a>(parameters: [Option<&'a str>; 5], destination: Option<&str>) -> [Option<&'a str>; 5] {
    if parameters.iter().all(Option::is_none) {
        return parameters;
    }
    let of_destination = destination.map(utm::of_destination).unwrap_or_default();
    let mut own = parameters;
    for (own, of_destination) in own.iter_mut().zip(self::parameters(&of_destination)) {
        *own = own.filter(|value| Some(*value) != of_destination);
    }
    own
}

impl From<Said<'_>> for Facts {
    fn from(said: Said<'_>) -> Self {
        let hash = |text: Option<&str>| text.map_or(0, short);
        Self {
            workspace: short(said.workspace),
            net: hash(said.client_net.filter(|_| !said.private)),
            agent: hash(said.user_agent),
            agent_known: AgentKnown::of(said.user_agent),
            referrer: hash(said.referrer),
            language: hash(said.language),
            place: short_of(&said.place),
            places: said.place.iter().flatten().count() as u8,
            city: hash(said.city.filter(|_| !said.private)),
            query: hash(said.query),
            private: said.private,
            campaign: short_of(&of_click(said.campaign, said.destination)),
            scanner: match parts(said.reason).1 {
                Some(Mark::Scanner(name)) => short(name),
                _ => 0,
            },
            source: said.source,
            method: said.method,
        }
    }
}

/// The facts of a batch's rows.
#[derive(Debug)]
pub(crate) struct FactColumns<'a> {
    texts: [&'a StringArray; TEXTS],
    private: &'a BooleanArray,
}

impl<'a> FactColumns<'a> {
    /// Of a batch that has [`COLUMNS`]; `None` if it lacks one.
    pub(crate) fn of(batch: &'a RecordBatch) -> Option<Self> {
        let mut texts = Vec::with_capacity(TEXTS);
        for name in &COLUMNS[..TEXTS] {
            texts.push(batch.column_by_name(name)?.as_string_opt::<i32>()?);
        }
        let private = batch.column_by_name(PRIVATE)?.as_boolean_opt()?;
        Some(Self { texts: texts.try_into().ok()?, private })
    }

    /// A row's facts.
    pub(crate) fn row(&self, row: usize) -> Facts {
        let text = |column: usize| self.texts[column].is_valid(row).then(|| self.texts[column].value(row));
        Facts::from(Said {
            workspace: text(0).unwrap_or_default(),
            // what is no word is nobody's word
            source: text(1).and_then(|word| word.parse().ok()).unwrap_or(Source::Recovered),
            method: text(2).and_then(|word| word.parse().ok()),
            user_agent: text(3),
            client_net: text(4),
            referrer: text(5),
            language: text(6),
            place: [text(7), text(8)],
            city: text(9),
            destination: text(10),
            campaign: [text(11), text(12), text(13), text(14), text(15)],
            reason: text(16).unwrap_or_default(),
            query: text(17),
            private: self.private.is_valid(row) && self.private.value(row),
        })
    }
}
