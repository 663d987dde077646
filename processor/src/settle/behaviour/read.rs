//! The requests of a stretch of time that an agent alone would call a person's, read from `clicks`.
//!
//! Most visitors ask once or twice, and are of no interest. So a first reading of few columns counts the requests of each,
//! roughly, and a second takes those of visitors with enough of them.
//!
//! Those of the stream only: an edge's log may come hours later, and its lines are no requests in their order. Requests
//! that were moved before are among them, as they show what others are.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, BinaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use futures::TryStreamExt as _;
use ipnet::IpNet;
use schemas::{Class, ClickId, LinkId, Source, UtcMicros};

use super::policy::Request;
use crate::classify::BEHAVIOUR;
use crate::lake::{LakeError, TableHandle};

/// What the reason of a person in an app's browser begins with.
const APP: &str = "person/app";

/// Columns that are read.
const COLUMNS: [&str; 10] =
    ["click_id", "event_time", "link_id", "domain", "code", "source", "class", "class_reason", "client_net", "visitor"];

/// A part of all visitors, so that memory is bounded however many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) number: u64,
    pub(super) of: u64,
}

impl Share {
    fn has(self, visitor: Option<i64>) -> bool {
        visitor.unwrap_or_default() as u64 % self.of == self.number
    }
}

/// How many requests visitors have made, at least: by a hash, so that some seem to have made others' too.
#[derive(Debug)]
pub(super) struct Counts(Vec<u8>);

impl Counts {
    const PLACES: usize = 1 << 21;

    fn place(visitor: i64) -> usize {
        // the hash of an address and an agent: its last bits are as good as any
        visitor as usize % Self::PLACES
    }

    fn add(&mut self, visitor: i64) {
        let count = &mut self.0[Self::place(visitor)];
        *count = count.saturating_add(1);
    }

    fn has(&self, visitor: i64, least: u8) -> bool {
        self.0[Self::place(visitor)] >= least
    }
}

/// Counts the requests of each visitor in `times`, of whatever class and source.
pub(super) async fn counts(clicks: &TableHandle, times: &Range<UtcMicros>) -> Result<Counts, LakeError> {
    let mut counts = Counts(vec![0; Counts::PLACES]);
    for file in clicks.files_between(times.start, times.end) {
        let mut batches = clicks.batches(file, &["event_time", "visitor"]).await?;
        while let Some(batch) = batches.try_next().await? {
            let column = |name| batch.column_by_name(name);
            let at = column("event_time").and_then(|at| at.as_primitive_opt::<TimestampMicrosecondType>());
            let visitors = column("visitor").and_then(|visitors| visitors.as_primitive_opt::<Int64Type>());
            let Some((at, visitors)) = at.zip(visitors) else { continue };
            let asked = at.values().iter().zip(visitors).filter(|(at, _)| times.contains(&UtcMicros(**at)));
            asked.filter_map(|(_, visitor)| visitor).for_each(|visitor| counts.add(visitor));
        }
    }
    Ok(counts)
}

/// Which rows are read.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) times: Range<UtcMicros>,
    /// Those of visitors who seem to have asked so often.
    pub(super) often: Option<(&'a Counts, u8)>,
    /// Those from hosting networks too.
    pub(super) hosted: bool,
}

/// A row, as far as behaviour goes.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: ClickId,
    pub(super) time: UtcMicros,
    /// Not moved before.
    pub(super) is_human: bool,
    visitor: Option<i64>,
    link: LinkId,
    domain: Arc<str>,
    code: Arc<str>,
    is_hosted: bool,
}

impl Row {
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            id: self.id,
            time: self.time,
            visitor: self.visitor,
            link: self.link,
            name: (&self.domain, &self.code),
            is_hosted: self.is_hosted,
        }
    }
}

/// What lists say of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Nothing.
    Ordinary,
    /// It is a hosting network.
    Hosting,
    /// Many people are behind each of its addresses.
    Peoples,
}

/// Reads the rows that are wanted of a share of the visitors; `None` when they are more than `most`. `sort` tells of a
/// network.
pub(super) async fn rows(
    clicks: &TableHandle,
    wanted: &Wanted<'_>,
    share: Share,
    most: usize,
    sort: impl Fn(IpNet) -> Sort,
) -> Result<Option<Vec<Row>>, LakeError> {
    let mut rows = Vec::new();
    let mut texts: HashSet<Arc<str>> = HashSet::new();
    for file in clicks.files_between(wanted.times.start, wanted.times.end) {
        let mut batches = clicks.batches(file, &COLUMNS).await?;
        while let Some(batch) = batches.try_next().await? {
            let Some(columns) = Columns::of(&batch) else { continue };
            let found = (0..batch.num_rows()).filter(|row| wanted.times.contains(&columns.time(*row)));
            rows.extend(found.filter_map(|row| columns.row(row, (wanted, share), &sort, &mut texts)));
            if rows.len() > most {
                return Ok(None);
            }
        }
    }
    Ok(Some(rows))
}

struct Columns<'a> {
    ids: &'a BinaryArray,
    times: &'a PrimitiveArray<TimestampMicrosecondType>,
    visitors: &'a PrimitiveArray<Int64Type>,
    links: &'a StringArray,
    domains: &'a StringArray,
    codes: &'a StringArray,
    sources: &'a StringArray,
    classes: &'a StringArray,
    reasons: &'a StringArray,
    networks: &'a StringArray,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Self> {
        let text = |name| batch.column_by_name(name)?.as_string_opt::<i32>();
        Some(Self {
            ids: batch.column_by_name("click_id")?.as_binary_opt()?,
            times: batch.column_by_name("event_time")?.as_primitive_opt()?,
            visitors: batch.column_by_name("visitor")?.as_primitive_opt()?,
            links: text("link_id")?,
            domains: text("domain")?,
            codes: text("code")?,
            sources: text("source")?,
            classes: text("class")?,
            reasons: text("class_reason")?,
            networks: text("client_net")?,
        })
    }

    fn time(&self, row: usize) -> UtcMicros {
        UtcMicros(self.times.value(row))
    }

    fn row(
        &self,
        row: usize,
        (wanted, share): (&Wanted<'_>, Share),
        sort: impl Fn(IpNet) -> Sort,
        texts: &mut HashSet<Arc<str>>,
    ) -> Option<Row> {
        let visitor = self.visitors.is_valid(row).then(|| self.visitors.value(row));
        let asks_often = wanted.often.zip(visitor).is_some_and(|((counts, least), visitor)| counts.has(visitor, least));
        if !(asks_often || wanted.hosted) {
            return None;
        }
        let is_human = self.classes.value(row) == Class::Human.as_str();
        // in front of an app's browser there is a person, whoever else has the same one at the same address
        let is_human = is_human && !self.reasons.value(row).starts_with(APP);
        let was_human = is_human || self.reasons.value(row).starts_with(BEHAVIOUR);
        if !was_human || self.sources.value(row) != Source::Origin.as_str() || self.links.is_null(row) {
            return None;
        }
        let network = self.networks.is_valid(row).then(|| self.networks.value(row).parse::<IpNet>().ok()).flatten();
        let sort = network.map_or(Sort::Ordinary, sort);
        let is_hosted = wanted.hosted && sort == Sort::Hosting;
        if !(asks_often || is_hosted) {
            return None;
        }
        // behind one that isn't public, or is a relay's, there may be anybody
        let tells = network.filter(|network| sort != Sort::Peoples && is_public(network.addr()));
        let visitor = tells.and(visitor);
        if !share.has(visitor) {
            return None;
        }
        let mut shared = |text: &str| {
            texts.get(text).cloned().unwrap_or_else(|| {
                let text: Arc<str> = text.into();
                texts.insert(Arc::clone(&text));
                text
            })
        };
        Some(Row {
            id: ClickId(self.ids.value(row).try_into().ok()?),
            time: self.time(row),
            is_human,
            visitor,
            link: self.links.value(row).parse().ok()?,
            domain: shared(self.domains.value(row)),
            code: shared(self.codes.value(row)),
            is_hosted,
        })
    }
}

/// Whether an address is one of the public internet's, which one household or company has, rather than one that any number
/// of networks use inside (RFC 6890): behind such a one is a proxy that hides who asked.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let is_shared = a == 100 && b & 0xc0 == 64; // RFC 6598
            let is_for_benchmarks = a == 198 && b & 0xfe == 18; // RFC 2544
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_documentation()
                || v4.is_multicast()
                || a == 0
                || a >= 240
                || is_shared
                || is_for_benchmarks)
        }
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.segments();
            let is_documentation = first == 0x2001 && second == 0xdb8;
            // 2000::/3 is all that has been given out
            first & 0xe000 == 0x2000 && !is_documentation
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_many_networks_use_inside_tell_nobody() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.9.9",
            "169.254.1.1",
            "100.64.0.1",
            "100.127.9.9",
            "198.18.0.1",
            "198.19.9.9",
            "203.0.113.5",
            "192.0.2.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "fd00::1",
            "fe80::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "ff02::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for public in
            ["8.8.8.8", "100.128.0.1", "172.32.0.1", "198.20.0.1", "2a00:1450::1", "2001:4860::1", "::ffff:8.8.8.8"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }
}
