//! The listener's metrics. A worker counts in cells of its own, which nobody else writes to; they are added up when
//! somebody looks. So counting costs a request next to nothing, however many workers there are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ingest::journal::Refusal;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Upper bounds of the histogram's buckets, in microseconds.
const BOUNDS: [u64; 14] = [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000];

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $label:expr),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn label(self) -> (&'static str, &'static str) {
                match self { $(Self::$variant => $label),+ }
            }
        }
    };
}

labels! {
    /// How a request was answered.
    Answered {
        /// By the link's redirect.
        Redirect = ("redirect", ""),
        /// There is no such link, path or host.
        NotFound = ("not_found", ""),
        /// It was taken down.
        Disabled = ("disabled", ""),
        /// It is a tombstone.
        Deleted = ("deleted", ""),
        /// Neither GET nor HEAD.
        Method = ("method", ""),
        /// The host is missing or repeated.
        BadRequest = ("bad_request", ""),
        /// Not a peer that may ask.
        Forbidden = ("forbidden", ""),
        /// The link store can't be asked.
        Unavailable = ("unavailable", ""),
    }
}

labels! {
    /// What became of a redirect's event, and why.
    Event {
        /// It is in the journal.
        Written = ("written", ""),
        /// The link's clicks aren't counted, or only the edge's logs count them.
        NotWanted = ("not_wanted", ""),
        /// It may be sampled, and the rest of the budget is for billed clicks.
        DroppedNearlyFull = ("dropped", "nearly_full"),
        /// It may be sampled, and the budget is used up.
        DroppedFull = ("dropped", "full"),
        /// It may be sampled, and the disk refused it.
        DroppedDisk = ("dropped", "disk"),
        /// It may be sampled, and the journal takes no more.
        DroppedSealed = ("dropped", "sealed"),
        /// It may be sampled, and it is too long.
        DroppedTooLong = ("dropped", "too_long"),
        /// A billed click, and the rest of the budget is for such: doesn't happen.
        LostNearlyFull = ("lost", "nearly_full"),
        /// A billed click, and the budget is used up with its reserve.
        LostFull = ("lost", "full"),
        /// A billed click, and the disk refused it.
        LostDisk = ("lost", "disk"),
        /// A billed click, and the journal takes no more.
        LostSealed = ("lost", "sealed"),
        /// A billed click, and it is too long.
        LostTooLong = ("lost", "too_long"),
    }
}

impl Event {
    /// An event that may be sampled was not written.
    pub(super) fn dropped(why: Refusal) -> Self {
        match why {
            Refusal::NearlyFull => Self::DroppedNearlyFull,
            Refusal::Full => Self::DroppedFull,
            Refusal::Disk => Self::DroppedDisk,
            Refusal::Sealed => Self::DroppedSealed,
            Refusal::TooLong => Self::DroppedTooLong,
        }
    }

    /// A billed click was not written.
    pub(super) fn lost(why: Refusal) -> Self {
        match why {
            Refusal::NearlyFull => Self::LostNearlyFull,
            Refusal::Full => Self::LostFull,
            Refusal::Disk => Self::LostDisk,
            Refusal::Sealed => Self::LostSealed,
            Refusal::TooLong => Self::LostTooLong,
        }
    }
}

/// One worker's cells.
#[derive(Debug, Default)]
pub(super) struct Cells {
    answered: [AtomicU64; Answered::ALL.len()],
    events: [AtomicU64; Event::ALL.len()],
    /// The last is for what is above every bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
    no_edge_id: AtomicU64,
    connections_opened: AtomicU64,
    connections_closed: AtomicU64,
}

impl Cells {
    /// A request was answered.
    pub(super) fn answered(&self, how: Answered, took: Duration) {
        let micros = took.as_micros() as u64;
        let bucket = BOUNDS.iter().position(|&bound| micros <= bound).unwrap_or(BOUNDS.len());
        add(&self.answered[how as usize], 1);
        add(&self.buckets[bucket], 1);
        add(&self.nanoseconds, took.as_nanos() as u64);
    }

    /// An event was written, or not.
    pub(super) fn event(&self, event: Event) {
        add(&self.events[event as usize], 1);
    }

    /// A trusted peer's request came without its id.
    pub(super) fn no_edge_id(&self) {
        add(&self.no_edge_id, 1);
    }

    /// A connection was opened.
    pub(super) fn opened(&self) {
        add(&self.connections_opened, 1);
    }

    /// A connection is gone.
    pub(super) fn closed(&self) {
        add(&self.connections_closed, 1);
    }
}

fn add(cell: &AtomicU64, count: u64) {
    cell.fetch_add(count, Ordering::Relaxed);
}

/// The metrics of all workers: `highwater_redirects_total{result}`, `highwater_redirect_seconds`,
/// `highwater_events_total{outcome,reason}`, `highwater_no_edge_id_total`, `highwater_redirect_connections`.
#[derive(Clone, Debug, Default)]
pub struct ListenerMetrics {
    workers: Arc<Mutex<Vec<Arc<Cells>>>>,
}

impl ListenerMetrics {
    /// Shows them in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    /// Cells for one more worker.
    pub(super) fn cells(&self) -> Arc<Cells> {
        let cells = Arc::<Cells>::default();
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&cells));
        cells
    }

    fn sum(&self, cell: impl Fn(&Cells) -> &AtomicU64) -> u64 {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().map(|cells| cell(cells).load(Ordering::Relaxed)).sum()
    }
}

impl Collector for ListenerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut family =
            encoder.encode_descriptor("highwater_redirects", "Requests by answer", None, MetricType::Counter)?;
        for answered in Answered::ALL {
            let count = self.sum(|cells| &cells.answered[*answered as usize]);
            let labels = [("result", answered.label().0)];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }

        let mut family =
            encoder.encode_descriptor("highwater_events", "Events of redirects by fate", None, MetricType::Counter)?;
        for event in Event::ALL {
            let count = self.sum(|cells| &cells.events[*event as usize]);
            let (outcome, reason) = event.label();
            let labels = [("outcome", outcome), ("reason", reason)];
            let labels = if reason.is_empty() { &labels[..1] } else { &labels[..] };
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }

        let buckets: Vec<(f64, u64)> = (0..=BOUNDS.len())
            .map(|at| {
                let bound = BOUNDS.get(at).map_or(f64::MAX, |&micros| micros as f64 / 1e6);
                (bound, self.sum(|cells| &cells.buckets[at]))
            })
            .collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let seconds = self.sum(|cells| &cells.nanoseconds) as f64 / 1e9;
        encoder
            .encode_descriptor("highwater_redirect_seconds", "Time to an answer", None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)?;

        let help = "Requests of trusted peers whose request id was missing or malformed";
        let missing = self.sum(|cells| &cells.no_edge_id);
        encoder
            .encode_descriptor("highwater_no_edge_id", help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&missing, None)?;

        let open =
            self.sum(|cells| &cells.connections_opened) as i64 - self.sum(|cells| &cells.connections_closed) as i64;
        encoder
            .encode_descriptor("highwater_redirect_connections", "Open connections", None, MetricType::Gauge)?
            .encode_gauge(&open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_all_workers_are_added_up() {
        let metrics = ListenerMetrics::default();
        let (one, two) = (metrics.cells(), metrics.cells());
        one.answered(Answered::Redirect, Duration::from_micros(7));
        two.answered(Answered::Redirect, Duration::from_micros(26));
        two.answered(Answered::Unavailable, Duration::from_secs(9));
        one.event(Event::Written);
        one.event(Event::dropped(Refusal::NearlyFull));
        two.event(Event::lost(Refusal::Full));
        two.no_edge_id();
        one.opened();
        one.opened();
        two.closed();

        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "highwater_redirects_total{result=\"redirect\"} 2",
            "highwater_redirects_total{result=\"unavailable\"} 1",
            "highwater_redirects_total{result=\"not_found\"} 0",
            "highwater_events_total{outcome=\"written\"} 1",
            "highwater_events_total{outcome=\"dropped\",reason=\"nearly_full\"} 1",
            "highwater_events_total{outcome=\"lost\",reason=\"full\"} 1",
            "highwater_redirect_seconds_bucket{le=\"0.00001\"} 1",
            "highwater_redirect_seconds_bucket{le=\"0.00005\"} 2",
            "highwater_redirect_seconds_bucket{le=\"2.5\"} 2",
            "highwater_redirect_seconds_bucket{le=\"+Inf\"} 3",
            "highwater_redirect_seconds_count 3",
            "highwater_no_edge_id_total 1",
            "highwater_redirect_connections 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
    }

    #[test]
    fn each_label_has_a_cell_of_its_own() {
        for (at, answered) in Answered::ALL.iter().enumerate() {
            assert_eq!(*answered as usize, at);
        }
        for (at, event) in Event::ALL.iter().enumerate() {
            assert_eq!(*event as usize, at);
        }
    }
}
