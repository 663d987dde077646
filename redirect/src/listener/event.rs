//! A redirect's event: in the journal before the answer goes out (design §4.2).

use http::request::Parts;
use ingest::journal::Appended;
use schemas::event::{MAX_TEXT_BYTES, agent_hash, cut};
use schemas::visitor::visitor;
use schemas::{ClickEvent, Method, UtcMicros, wire};

use super::edge::Place;
use super::fields::text;
use super::found::Active;
use super::metrics::Event;
use super::worker::{Peer, Wanted, Worker};

/// The status of a redirect.
const STATUS: u16 = 302;

/// Writes the event of one redirect, unless the link's clicks are counted elsewhere or not at all. Returns once a
/// killed process can no longer lose it. A journal that refuses doesn't stop the redirect: it is counted.
pub(super) fn write(worker: &Worker, peer: &Peer, head: &Parts, wanted: &Wanted<'_>, link: &Active) {
    let shared = worker.shared();
    let target = &link.target;
    if !shared.edge.leaves_event(peer.trusted, target.analytics) {
        return worker.cells().event(Event::NotWanted);
    }
    let identity = shared.edge.identify(peer.trusted, &head.headers, &wanted.code);
    if identity.no_edge_id {
        worker.cells().no_edge_id();
    }
    let address = match peer.trusted {
        true => shared.client_header.client(peer.address, &shared.trusted, &head.headers),
        false => peer.address,
    };
    let place = if peer.trusted { shared.edge.place().of(&head.headers) } else { Place::default() };
    let private = shared.privacy.is_private(wanted.fields.asked);
    let query = shared.privacy.kept(head.uri.query().unwrap_or_default());
    let agent = text(wanted.fields.user_agent);
    let agent = cut(&agent, MAX_TEXT_BYTES);
    let (referrer, language) = (text(wanted.fields.referrer), text(wanted.fields.language));
    let (country, region, city) = (text(place.country), text(place.region), text(place.city));
    let purpose = wanted.fields.purpose();
    let mut event = ClickEvent {
        click_id: identity.click_id,
        link_id: target.link_id,
        event_time: UtcMicros::default(),
        analytics: target.analytics,
        visitor: None,
        agent_hash: agent_hash(agent),
        workspace: &target.workspace,
        domain: shared.domain(wanted.domain),
        code: &wanted.code,
        revision: target.revision,
        destination: &target.destination,
        method: if head.method == http::Method::HEAD { Method::Head } else { Method::Get },
        status: STATUS,
        address: Some(address),
        no_edge_id: identity.no_edge_id,
        private,
        user_agent: agent,
        referrer: &referrer,
        language: &language,
        query: &query,
        country: &country,
        region: &region,
        city: &city,
        purpose: &purpose,
        provider: identity.provider,
    };
    let appended = worker.journal().append(target.analytics, |time, out| {
        event.event_time = time;
        let key = shared.keys.key_of(time.day()).filter(|_| !private);
        event.visitor = key.map(|key| visitor(&key, address, agent));
        wire::encode(&event, out);
    });
    worker.cells().event(match appended {
        Appended::Written { .. } => Event::Written,
        Appended::Dropped(why) => Event::dropped(why),
        Appended::Lost(why) => Event::lost(why),
    });
}
