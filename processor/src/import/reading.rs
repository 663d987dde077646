//! What the lines of a file are: an edge's log, or events made elsewhere. What each request comes to, and how it is
//! known, follows from that.

use std::sync::Arc;

use ingest::edge::{EdgeClass, EdgeRequest, Ids, Reject, fingerprint};
use ingest::events::{self, Naming, Stand};
use schemas::{Analytics, ClickId};

use super::judge::{self, Asked, OwnEvents, Word};
use super::links::Known;
use crate::settle::Kind;

/// How the lines of a file are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// An edge's log.
    Log {
        ids: Ids,
        provider: Arc<str>,
        /// Which of its requests have left events.
        own: OwnEvents,
        /// Whether those of our redirect have its ids.
        names_events: bool,
    },
    /// Events made elsewhere.
    Events {
        naming: Naming,
        /// Whether a journal may bring an event under the same request id.
        meets_journals: bool,
    },
}

/// How a request is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// By this id.
    Id(ClickId),
    /// By this fingerprint and its number among those alike.
    Print(u128),
}

impl Reading {
    /// Whether whoever sent the file is told of each line that is no click.
    pub(super) fn tells_ignored(&self) -> bool {
        matches!(self, Self::Events { .. })
    }

    /// Whether each line is likely to be a new row: there are no events that it could meet.
    pub(super) fn meets_nothing(&self) -> bool {
        matches!(self, Self::Log { own, .. } if !own.are_possible())
    }

    /// Refuses a request that couldn't be known again.
    pub(super) fn accept(&self, request: &EdgeRequest<'_>) -> Result<(), Reject> {
        match self {
            Self::Log { ids, .. } => ids.key(request).map(drop),
            Self::Events { .. } => Ok(()),
        }
    }

    /// What a request of a link comes to, answered by `class`.
    pub(super) fn judge(&self, request: &EdgeRequest<'_>, class: EdgeClass, link: &Known) -> Word {
        let analytics = link.analytics(request.time);
        match self {
            Self::Log { ids, own, .. } => judge::judge(*ids, class, asked(request, link), own),
            Self::Events { .. } if analytics == Analytics::Off => Word::Off,
            Self::Events { naming, meets_journals } => Word::Record(match naming.stand() {
                Stand::Origin if *meets_journals && request.line_key.is_some() => Kind::Event(Stand::Origin.source()),
                stand => Kind::Elsewhere(stand.source()),
            }),
        }
    }

    /// Whether there is an event under the same id of a request that reached the origin, if none was lost.
    pub(super) fn expects_event(&self, request: &EdgeRequest<'_>, link: &Known) -> bool {
        match self {
            Self::Log { own, names_events, .. } => own.has_named(asked(request, link), *names_events),
            Self::Events { .. } => false,
        }
    }

    /// How a request is known; `domain` is its link's own.
    pub(super) fn name(&self, request: &EdgeRequest<'_>, domain: &str) -> Name {
        match (self, request.line_key) {
            // An id names its request wherever it comes again, also where the origin doesn't have it.
            (Self::Log { provider, .. }, Some(key)) => Name::Id(ClickId::from_edge(provider, key, request.code)),
            (Self::Log { .. }, None) => Name::Print(fingerprint(request)),
            (Self::Events { naming, .. }, Some(key)) => Name::Id(naming.by_request(key, domain, request.code)),
            (Self::Events { .. }, None) => Name::Print(events::fingerprint(request, domain)),
        }
    }

    /// The name under which ids are made of fingerprints; none where no id is.
    pub(super) fn makes_ids_for(&self) -> Option<Arc<str>> {
        match self {
            Self::Log { ids: Ids::Trusted, .. } => None,
            Self::Log { provider, .. } => Some(Arc::clone(provider)),
            Self::Events { naming, .. } => Some(Arc::clone(naming.by_line())),
        }
    }
}

fn asked<'a>(request: &EdgeRequest<'_>, link: &'a Known) -> Asked<'a> {
    Asked {
        is_link: link.is_link(),
        workspace: link.workspace(),
        analytics: link.analytics(request.time),
        time: request.time,
    }
}
