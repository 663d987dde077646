//! From what a log says of a request to what it means: one order of rules for every format.

use schemas::Method;

use super::format::Settings;
use super::request::{EdgeClass, EdgeRequest, Ignored, Line, Reject};
use super::target::Verb;

/// How a request ended, as its log says, in words that all providers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the edge's cache.
    Edge,
    /// The origin was asked, or the log doesn't say.
    Origin,
    /// Answered by a program at the edge, which may or may not be what serves links.
    Function,
    /// Answered by the edge's own rules: a redirect to https, a refusal.
    EdgeMade,
    /// The client left, or the origin failed, before there was an answer.
    Aborted,
    /// Not a client's request.
    NotViewer,
    /// Not a client's request either, but a cache behind the edge that answered it: the origin never saw it.
    ParentHit,
}

/// A request as a format read it, not yet judged.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What was read. `class` and `method` follow from the other two when it is judged.
    pub request: EdgeRequest<'a>,
    /// The method.
    pub verb: Verb,
    /// How it ended.
    pub outcome: Outcome,
}

/// What a format makes of one record.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// A request.
    Entry(Entry<'a>),
    /// Can't be read.
    Reject(Reject),
    /// What it comes to is known: it was no edge's log.
    Judged(Line<'a>),
}

impl<'a> From<Result<Entry<'a>, Reject>> for Found<'a> {
    fn from(read: Result<Entry<'a>, Reject>) -> Self {
        match read {
            Ok(entry) => Self::Entry(entry),
            Err(reject) => Self::Reject(reject),
        }
    }
}

/// What a record means.
pub fn judge<'a>(found: Found<'a>, settings: &Settings) -> Line<'a> {
    let entry = match found {
        Found::Entry(entry) => entry,
        Found::Reject(reject) => return Line::Reject(reject),
        Found::Judged(line) => return line,
    };
    if let (Outcome::ParentHit, Some(key)) = (entry.outcome, entry.request.line_key) {
        return Line::ParentHit { key };
    }
    match verdict(&entry, settings) {
        Ok((class, method)) => Line::Request(EdgeRequest { class, method, ..entry.request }),
        Err(NoClick::Ignored(why)) => Line::Ignored(why),
        Err(NoClick::Reject(reject)) => Line::Reject(reject),
    }
}

enum NoClick {
    Ignored(Ignored),
    Reject(Reject),
}

/// Class and method of a request that may be a click.
fn verdict(entry: &Entry<'_>, settings: &Settings) -> Result<(EdgeClass, Option<Method>), NoClick> {
    let status = entry.request.status;
    let ignored = |why| Err(NoClick::Ignored(why));
    if matches!(entry.outcome, Outcome::NotViewer | Outcome::ParentHit) {
        return ignored(Ignored::NotViewer);
    }
    let method = match entry.verb {
        Verb::Known(method) => Some(method),
        Verb::Unlogged => None,
        Verb::Other => return ignored(Ignored::Method),
    };
    if !entry.request.path.starts_with('/') {
        return Err(NoClick::Reject(Reject::BAD_REQUEST));
    }
    // 499 and 460: how nginx and others, and AWS's balancers, say that the client closed first.
    if entry.outcome == Outcome::Aborted || matches!(status, 0 | 460 | 499) {
        return ignored(Ignored::Aborted);
    }
    let by_itself = if (300..400).contains(&status) { Ignored::EdgeRedirect } else { Ignored::NotRedirect };
    let class = match entry.outcome {
        Outcome::EdgeMade => return ignored(by_itself),
        Outcome::Function if !settings.edge_functions => return ignored(by_itself),
        Outcome::Edge | Outcome::Function => EdgeClass::Edge,
        _ => EdgeClass::Origin,
    };
    if settings.link_statuses.contains(&status) { Ok((class, method)) } else { ignored(Ignored::NotRedirect) }
}

#[cfg(test)]
mod tests {
    use schemas::UtcMicros;

    use super::*;
    use schemas::privacy::Asked;

    fn judged(outcome: Outcome, verb: Verb, status: u16, settings: &Settings) -> Result<EdgeClass, &'static str> {
        let request = EdgeRequest {
            time: UtcMicros(0),
            class: EdgeClass::Origin,
            host: "",
            path: "/k",
            code: "k",
            query: "",
            method: None,
            status,
            address: None,
            user_agent: "",
            referrer: "",
            country: "",
            region: "",
            city: "",
            asked: Asked::default(),
            language: "",
            line_key: None,
        };
        match judge(Found::Entry(Entry { request, verb, outcome }), settings) {
            Line::Request(request) => Ok(request.class),
            Line::Ignored(why) => Err(why.as_str()),
            Line::ParentHit { .. } => Err("parent_hit"),
            Line::Reject(reject) => Err(reject.reason),
            Line::Header => Err("header"),
        }
    }

    #[test]
    fn rules_apply_in_one_order() {
        let (get, head) = (Verb::Known(Method::Get), Verb::Known(Method::Head));
        for (outcome, verb, status, expected) in [
            (Outcome::Edge, get, 302, Ok(EdgeClass::Edge)),
            (Outcome::Origin, head, 302, Ok(EdgeClass::Origin)),
            (Outcome::Edge, Verb::Unlogged, 302, Ok(EdgeClass::Edge)),
            (Outcome::Edge, get, 404, Err("not_redirect")),
            (Outcome::Origin, get, 301, Err("not_redirect")),
            (Outcome::EdgeMade, get, 301, Err("edge_redirect")),
            (Outcome::EdgeMade, get, 302, Err("edge_redirect")),
            (Outcome::EdgeMade, get, 403, Err("not_redirect")),
            (Outcome::Function, get, 302, Err("edge_redirect")),
            (Outcome::Edge, get, 0, Err("aborted")),
            (Outcome::Origin, get, 499, Err("aborted")),
            (Outcome::Origin, get, 460, Err("aborted")),
            (Outcome::Aborted, get, 302, Err("aborted")),
            (Outcome::Aborted, Verb::Other, 0, Err("method")),
            (Outcome::Edge, Verb::Other, 405, Err("method")),
            (Outcome::NotViewer, Verb::Other, 200, Err("not_viewer")),
            // nobody's word, without a key
            (Outcome::ParentHit, get, 302, Err("not_viewer")),
        ] {
            let judged = judged(outcome, verb, status, &Settings::default());
            assert_eq!(judged, expected, "{outcome:?} {verb:?} {status}");
        }
    }

    #[test]
    fn settings_decide_which_statuses_and_programs_are_links() {
        let settings = Settings { link_statuses: vec![301, 307], edge_functions: true, ..Settings::default() };
        let get = Verb::Known(Method::Get);
        assert_eq!(judged(Outcome::Function, get, 307, &settings), Ok(EdgeClass::Edge));
        assert_eq!(judged(Outcome::Edge, get, 301, &settings), Ok(EdgeClass::Edge));
        assert_eq!(judged(Outcome::Edge, get, 302, &settings), Err("not_redirect"));
    }
}
