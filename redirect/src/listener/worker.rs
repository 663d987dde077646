//! From a request's head to its answer. Nothing here waits, but for a link that isn't in the cache.
//!
//! ```text
//! head ── peer, host, method, path ──► Wanted ── cache ──► Found ── event in the journal ──► answer
//!   └── refused: its kind says which answer
//! ```

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use futures::future::{BoxFuture, Either, Ready, ready};
use http::Method;
use http::request::Parts;
use ingest::journal::WorkerJournal;
use schemas::code;
use schemas::privacy::Privacy;

use super::answers::{Answer, Answers};
use super::cache::{LinkCache, Unavailable};
use super::client::{ClientHeader, Networks};
use super::edge::Edge;
use super::event;
use super::fields::{Fields, Host};
use super::found::Found;
use super::generations::Key;
use super::keys::KeyRing;
use super::metrics::{Answered, Cells};
use crate::links::Domains;

/// What all workers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) domains: Domains,
    pub(super) names: Vec<String>,
    pub(super) cache: Arc<LinkCache>,
    pub(super) keys: KeyRing,
    pub(super) answers: Answers,
    pub(super) edge: Edge,
    pub(super) client_header: ClientHeader,
    pub(super) trusted: Networks,
    pub(super) edge_only: bool,
    pub(super) privacy: Privacy,
}

impl Shared {
    /// The name of a domain.
    pub(super) fn domain(&self, number: u16) -> &str {
        self.names.get(usize::from(number)).map_or("", String::as_str)
    }

    /// The number of the domain that a host means.
    fn domain_of(&self, host: &str) -> Option<u16> {
        let number = |name: &str| self.names.iter().position(|known| known == name);
        // as written in the configuration, nearly always
        let at = number(host).or_else(|| self.domains.resolve(host).and_then(number))?;
        u16::try_from(at).ok()
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    /// Whether its forwarding headers are believed.
    pub(super) trusted: bool,
}

/// One worker: a thread with a listener and a journal of its own.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    journal: WorkerJournal,
    cells: Arc<Cells>,
}

/// What a request is for, as far as its head says.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) domain: u16,
    pub(super) code: Cow<'a, str>,
    pub(super) fields: Fields<'a>,
}

/// An answer, at once or after a lookup.
pub(super) type Answering = Either<Ready<Answer>, BoxFuture<'static, Answer>>;

impl Worker {
    /// A worker that writes to `journal` and counts in `cells`.
    pub(super) fn new(shared: Arc<Shared>, journal: WorkerJournal, cells: Arc<Cells>) -> Self {
        Self { shared, journal, cells }
    }

    /// What it shares with the others.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Its journal.
    pub(super) fn journal(&self) -> &WorkerJournal {
        &self.journal
    }

    /// Its metrics.
    pub(super) fn cells(&self) -> &Cells {
        &self.cells
    }

    /// The peer at this address.
    pub(super) fn peer(&self, address: IpAddr) -> Peer {
        let address = address.to_canonical();
        Peer { address, trusted: self.shared.trusted.contains(address) }
    }

    /// Answers a request.
    pub(super) fn answer(self: &Arc<Self>, peer: Peer, head: Parts) -> Answering {
        let started = Instant::now();
        let (key, domain, code) = match self.wanted(&peer, &head) {
            Err(kind) => return Either::Left(ready(self.done(started, kind, self.shared.answers.other(kind)))),
            Ok((wanted, key)) => match self.shared.cache.fresh(&key, started) {
                Some(found) => {
                    return Either::Left(ready(self.found(started, &peer, &head, &wanted, Ok(found))));
                }
                None => (key, wanted.domain, wanted.code.into_owned()),
            },
        };
        let worker = Arc::clone(self);
        Either::Right(Box::pin(async move {
            let found = worker.shared.cache.load(domain, &code, &key, started).await;
            let wanted = Wanted { domain, code: Cow::Owned(code), fields: Fields::of(&head.headers) };
            worker.found(started, &peer, &head, &wanted, found)
        }))
    }

    /// What a request is for; else how it is refused.
    fn wanted<'a>(&self, peer: &Peer, head: &'a Parts) -> Result<(Wanted<'a>, Key), Answered> {
        if self.shared.edge_only && !peer.trusted {
            return Err(Answered::Forbidden);
        }
        let fields = Fields::of(&head.headers);
        let Host::One(host) = fields.host else { return Err(Answered::BadRequest) };
        if head.method != Method::GET && head.method != Method::HEAD {
            return Err(Answered::Method);
        }
        // a target that names its host overrides the header (RFC 9112 §3.2.2)
        let host = head.uri.authority().map(|authority| authority.as_str()).or_else(|| host.to_str().ok());
        let domain = host.and_then(|host| self.shared.domain_of(host)).ok_or(Answered::NotFound)?;
        let code = code::from_path(head.uri.path()).ok_or(Answered::NotFound)?;
        let key = Key::new(domain, &code).ok_or(Answered::NotFound)?;
        Ok((Wanted { domain, code, fields }, key))
    }

    /// Answers with what a lookup has found; a redirect's event is in the journal before this returns.
    fn found(
        &self,
        started: Instant,
        peer: &Peer,
        head: &Parts,
        wanted: &Wanted<'_>,
        found: Result<Found, Unavailable>,
    ) -> Answer {
        let answers = &self.shared.answers;
        let (kind, answer) = match found {
            Ok(Found::Active(link)) => {
                event::write(self, peer, head, wanted, &link);
                (Answered::Redirect, answers.redirect(&link, wanted.fields.is_speculative()))
            }
            Ok(Found::Disabled(page)) => (Answered::Disabled, answers.disabled(page)),
            Ok(Found::Deleted) => (Answered::Deleted, answers.other(Answered::Deleted)),
            Ok(Found::Missing) => (Answered::NotFound, answers.other(Answered::NotFound)),
            Err(Unavailable) => (Answered::Unavailable, answers.other(Answered::Unavailable)),
        };
        self.done(started, kind, answer)
    }

    fn done(&self, started: Instant, kind: Answered, answer: Answer) -> Answer {
        self.cells.answered(kind, started.elapsed());
        answer
    }
}
