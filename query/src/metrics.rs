//! How long queries take (interface §7).

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Endpoint {
    endpoint: &'static str,
}

/// The service's metrics.
#[derive(Clone, Debug)]
pub struct QueryMetrics {
    seconds: Family<Endpoint, Histogram>,
}

impl Default for QueryMetrics {
    fn default() -> Self {
        Self { seconds: Family::new_with_constructor(histogram) }
    }
}

fn histogram() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
}

impl QueryMetrics {
    /// Adds the metrics, under their full names, to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        for endpoint in ["reports", "sql"] {
            // shown before the first question, so that an increase can be told
            drop(self.seconds.get_or_create(&Endpoint { endpoint }));
        }
        registry.register("highwater_query_seconds", "Time from question to answer", self.seconds.clone());
    }

    pub(crate) fn took(&self, endpoint: &'static str, time: Duration) {
        self.seconds.get_or_create(&Endpoint { endpoint }).observe(time.as_secs_f64());
    }
}
