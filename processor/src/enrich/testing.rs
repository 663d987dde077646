//! An event to begin with, for tests of what becomes of events.

use schemas::{Analytics, ClickEvent, ClickId, LinkId, Method, UtcMicros};

/// A click of a `billed` link with nothing special about it.
pub fn event(id: u128, time: UtcMicros) -> ClickEvent<'static> {
    ClickEvent {
        click_id: ClickId::from(id),
        link_id: LinkId::default(),
        event_time: time,
        analytics: Analytics::Billed,
        visitor: None,
        agent_hash: 0,
        workspace: "default",
        domain: "go.example.com",
        code: "abc",
        revision: 1,
        destination: "https://example.com/",
        method: Method::Get,
        status: 302,
        address: None,
        no_edge_id: false,
        private: false,
        user_agent: "",
        referrer: "",
        language: "",
        query: "",
        country: "",
        region: "",
        city: "",
        purpose: "",
        provider: "",
    }
}
