//! What the lake holds of journals that go through a topic, as it is published for those who send them.
//!
//! ```text
//! processor ──cover──► rows of (journal, partition): covered, through, ended, missing ──covered──► forwarder
//!                        └── minimum over the partitions ──► the journal's `committed`, `through`, `closed`
//! ```

use std::fmt::Debug;

use async_trait::async_trait;
use schemas::{JournalId, UtcMicros};

use super::PortError;

/// One life of a topic. A topic that was made anew, or that lost what the lake had read of it, gets another: then its
/// offsets mean other records, and so its partitions have other names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation {
    /// The topic.
    pub topic: String,
    /// Tells it from the topic's other lives.
    pub id: String,
    /// How many partitions it has.
    pub partitions: u32,
}

impl Generation {
    /// Its name, as that of a stream whose partitions are shared.
    pub fn stream(&self) -> String {
        format!("{}@{}", self.topic, self.id)
    }

    /// The name of one of its partitions, by which the lake keeps its position.
    pub fn partition(&self, number: u32) -> String {
        format!("{}/{number}", self.stream())
    }

    /// The partitions of which `reached` doesn't tell that they are read as `wanted`, at least.
    pub fn read_less_than(&self, wanted: Reading, reached: &[Reached]) -> Vec<u32> {
        let is_read = |number: &u32| reached.iter().any(|one| one.partition == *number && one.reading >= wanted);
        (0..self.partitions).filter(|number| !is_read(number)).collect()
    }
}

/// Positions of a journal that a partition lacks though later ones have come: they are to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The first position behind them; they begin where the coverage ends.
    pub to: u64,
    /// How often they have been asked for: each number is to be answered once.
    pub asked: u32,
}

/// How far the lake is with one journal in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// The journal.
    pub journal: JournalId,
    /// The partition's number.
    pub partition: u32,
    /// Its clicks of this partition below this position are in the lake.
    pub covered: u64,
    /// Its last mark below that.
    pub through: UtcMicros,
    /// Whether the journal ends there.
    pub ended: bool,
    /// What is missing behind it.
    pub missing: Option<Missing>,
}

/// How a partition is read, as its reader tells now and then. The later, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// Nobody has told of it lately.
    Nobody,
    /// A process has it, and is behind or can't read on.
    Behind,
    /// A process has it, and has brought all of it into the lake but for what came within the last minute or so.
    Near,
}

/// How far the lake is with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The partition's number.
    pub partition: u32,
    /// First offset that the lake lacks.
    pub next: u64,
    /// First offset behind the partition's last record, as last heard.
    pub end: u64,
    /// How it is read.
    pub reading: Reading,
}

/// Coverage of journals by the partitions of a topic (design §4.3).
#[async_trait]
pub trait Coverage: Send + Sync + Debug {
    /// The present generation of `topic`; `None` before the first.
    async fn generation(&self, topic: &str) -> Result<Option<Generation>, PortError>;

    /// Begins another generation, unless somebody has done so since `seen` was the present one. Returns the present one.
    async fn begin_generation(
        &self,
        topic: &str,
        partitions: u32,
        seen: Option<&Generation>,
        now: UtcMicros,
    ) -> Result<Generation, PortError>;

    /// Has a registered journal go through `generation`: from what the lake holds of it on, when it hasn't so far. Returns
    /// one row for each partition. An error when the generation isn't the present one any more.
    async fn enter(&self, journal: JournalId, generation: &Generation) -> Result<Vec<Covered>, PortError>;

    /// All rows of a generation.
    async fn covered(&self, generation: &Generation) -> Result<Vec<Covered>, PortError>;

    /// Stores how far the lake is and that whoever says so reads these partitions, and publishes `complete_through` as `Registry::publish` does. A journal is as far as the
    /// partition that is least far, and is closed when it has ended in all of them. Nothing goes back, whoever of several
    /// owners of a partition says it. Returns the published value.
    async fn cover(
        &self,
        generation: &Generation,
        covered: &[Covered],
        reached: &[Reached],
        now: UtcMicros,
    ) -> Result<UtcMicros, PortError>;

    /// How far the lake is with the partitions of a generation, as last published, in order; and how they are read, as was
    /// told within the last half minute.
    async fn reached(&self, generation: &Generation) -> Result<Vec<Reached>, PortError>;
}
