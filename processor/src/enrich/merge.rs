//! Two rows of one request become one that knows what both know (design §4.5).
//!
//! ```text
//! event:  origin, GET,  agent hidden by the CDN, no referrer ─┐
//!                                                             ├─► origin, HEAD, Chrome, news.example; class of those
//! line:   edge,   HEAD, Chrome, from news.example             ─┘
//! ```
//! Field by field the better value is taken, by an order of the values alone: so it doesn't matter in which order
//! records come, how they are grouped, or whether one comes twice. Time, link and status are those of whoever was there
//! first-hand; an agent brings the visitor that was made with it; a `HEAD` stays a `HEAD`; what headers and network said is
//! kept by the row's reason, and stays said; and who asked for privacy in one record is private in the row, whoever tells of
//! the network, the city or the visitor. What follows from the fields
//! (class, browser, device …) is worked out anew by the enricher, as for any row.
//!
//! Who brought the row is kept apart: whoever has the event rather than a line of it, of these the stream, else the import
//! that was first. Rows of an import can be taken back: one that has only corrected a row must not take the row with it,
//! and a log must not take an event with it that has been posted, as nobody can bring that again.

use std::cmp::Reverse;
use std::sync::Arc;

use schemas::click::{Utm, Verdict};
use schemas::{Click, Method, Source};

use super::enricher::Enricher;
use super::facts::{self, AgentKnown, method_rank, short, short_of, source_rank};
use crate::classify::{Mark, Sign, parts};

/// The one of two rows whose key is less.
fn better<'a, K: Ord>(a: &'a Click, b: &'a Click, key: impl Fn(&'a Click) -> K) -> &'a Click {
    if key(b) < key(a) { b } else { a }
}

/// Orders a text: a known one first, then by its hash, as [`Facts`](super::Facts) does.
fn by_text(text: &Option<Arc<str>>) -> (bool, u16, &Option<Arc<str>>) {
    (text.is_none(), text.as_deref().map_or(0, short), text)
}

/// The row that stands for the request itself: when, whose link, where it led.
fn first_hand<'a>(a: &'a Click, b: &'a Click) -> &'a Click {
    better(a, b, |click| {
        let link = (&click.workspace, click.link_id, &click.domain, &click.code);
        (source_rank(click.source), click.event_time, link, click.revision, &click.destination, click.status)
    })
}

/// The one whose the row is, to be taken back with it. Of lines none is nearer to the request than another.
fn owner<'a>(a: &'a Click, b: &'a Click) -> &'a Click {
    let lines = source_rank(Source::Edge);
    better(a, b, |click| {
        (source_rank(click.source).min(lines), click.import_id.is_some(), click.ingest_time, &click.import_id)
    })
}

fn by_agent(click: &Click) -> impl Ord + '_ {
    let agent = click.user_agent.as_deref();
    (Reverse(AgentKnown::of(agent)), agent.map_or(0, short), agent, click.visitor.is_none(), click.visitor)
}

fn by_place(click: &Click) -> impl Ord + '_ {
    let place = [click.country.as_deref(), click.region.as_deref()];
    (Reverse(place.iter().flatten().count()), short_of(&place), place, by_text(&click.city))
}

/// The campaign parameters of the click's own query.
fn own_campaign(click: &Click) -> [Option<&str>; 5] {
    facts::of_click(facts::parameters(&click.utm), click.destination.as_deref())
}

fn by_campaign(click: &Click) -> impl Ord + '_ {
    let own = own_campaign(click);
    let hash = short_of(&own);
    (hash == 0, hash, own)
}

impl Enricher {
    /// What `row` becomes once `record`, of the same request, is known too; `None` when they can't be of one request, so
    /// that nothing may be made of it but a remark.
    pub fn merged(&self, row: &Click, record: &Click) -> Option<Click> {
        let same = row.click_id == record.click_id
            && row.workspace == record.workspace
            && agree(&row.client_net, &record.client_net)
            && (AgentKnown::of(row.user_agent.as_deref()) < AgentKnown::Known
                || AgentKnown::of(record.user_agent.as_deref()) < AgentKnown::Known
                || row.user_agent == record.user_agent);
        same.then(|| self.join(row, record))
    }

    fn join(&self, a: &Click, b: &Click) -> Click {
        let request = first_hand(a, b);
        let brought = owner(a, b);
        let agent = better(a, b, by_agent);
        let place = better(a, b, by_place);
        let private = a.private || b.private;
        let method = if method_rank(b.method) > method_rank(a.method) { b.method } else { a.method };
        let ahead =
            [a, b].into_iter().filter_map(|click| self.fetched_ahead(click)).min_by(|x, y| x.reason.cmp(&y.reason));
        let mark = [a, b].into_iter().filter_map(|click| mark(click, agent)).min_by(|x, y| x.order(y, short));
        let sign = [a, b].into_iter().filter_map(|click| Sign::of_reason(&click.verdict.reason)).min();
        let user_agent = agent.user_agent.as_deref().unwrap_or_default();
        let (verdict, agent_info) = self.judged(user_agent, method, ahead, mark);
        let verdict = match sign {
            Some(sign) => sign.on(verdict),
            None => verdict,
        };
        Click {
            click_id: a.click_id,
            event_time: request.event_time,
            ingest_time: brought.ingest_time,
            workspace: Arc::clone(&request.workspace),
            link_id: request.link_id,
            domain: Arc::clone(&request.domain),
            code: Arc::clone(&request.code),
            revision: request.revision,
            destination: request.destination.clone(),
            source: request.source,
            verdict,
            method,
            status: request.status,
            country: place.country.clone(),
            region: place.region.clone(),
            city: place.city.clone().filter(|_| !private),
            agent_info,
            import_id: brought.import_id.clone(),
            referrer: better(a, b, |click| by_text(&click.referrer)).referrer.clone(),
            utm: campaign(better(a, b, by_campaign), request.destination.as_deref()),
            language: better(a, b, |click| by_text(&click.language)).language.clone(),
            user_agent: agent.user_agent.clone(),
            client_net: better(a, b, |click| by_text(&click.client_net)).client_net.clone().filter(|_| !private),
            visitor: agent.visitor.filter(|_| !private),
            weight: a.weight.max(b.weight),
            query: better(a, b, |click| by_text(&click.query)).query.clone(),
            private,
        }
    }

    /// The verdict of a row that was fetched ahead of a click, as its headers said: they are kept nowhere else.
    fn fetched_ahead(&self, click: &Click) -> Option<Verdict> {
        (click.method != Some(Method::Head)).then(|| self.classifier().by_header(&click.verdict.reason))?
    }
}

/// What a row's network said, as its reason keeps it: that a scanner was there, whoever it said it was; that somebody was
/// whom it said, only of that agent.
fn mark<'a>(click: &'a Click, agent: &Click) -> Option<Mark<'a>> {
    let (_, mark) = parts(&click.verdict.reason);
    mark.filter(|mark| matches!(mark, Mark::Scanner(_)) || click.user_agent == agent.user_agent)
}

fn agree(a: &Option<Arc<str>>, b: &Option<Arc<str>>) -> bool {
    a.is_none() || b.is_none() || a == b
}

/// The parameters of `from`'s own query, else those of the destination.
fn campaign(from: &Click, destination: Option<&str>) -> Utm {
    let [source, medium, campaign, term, content] = own_campaign(from).map(|value| value.map(Arc::<str>::from));
    let of_destination = destination.map(super::utm::of_destination).unwrap_or_default();
    Utm {
        source: source.or(of_destination.source),
        medium: medium.or(of_destination.medium),
        campaign: campaign.or(of_destination.campaign),
        term: term.or(of_destination.term),
        content: content.or(of_destination.content),
    }
}

#[cfg(test)]
mod tests;
