//! Topics, partitions and consumers' offsets in a folder.
//!
//! ```text
//! lock                        held while a stand-in uses the folder
//! offsets                     frames, one for every offset that a consumer stored
//! topics/<name>/spec          the topic's settings, as they go over the wire
//! topics/<name>/<number>.log  a partition
//! ```
//! A topic's folder is made and removed under another name, so that it is there whole or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Cursor, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use fluvio_protocol::api::Request;
use fluvio_protocol::record::ReplicaKey;
use fluvio_protocol::types::SpuId;
use fluvio_protocol::{Decoder, Encoder};
use fluvio_sc_schema::objects::ObjectApiCreateRequest;
use fluvio_sc_schema::topic::TopicSpec;
use fluvio_spu_schema::server::consumer_offset::ConsumerOffset;
use tokio::sync::watch;

use super::broker::SPUS;
use super::frames::Frames;
use super::partition::Partition;

/// The version in which settings are written down.
const VERSION: i16 = ObjectApiCreateRequest::MAX_API_VERSION;
/// A real cluster always has this topic; clients wait for ever on lists that are empty.
const OFFSETS_TOPIC: &str = "consumer-offset";

/// A topic.
#[derive(Clone, Debug)]
pub(super) struct Topic {
    /// Its settings.
    pub(super) spec: TopicSpec,
    /// Its partitions, by number; none when they could not be placed.
    pub(super) partitions: Vec<Arc<Partition>>,
}

/// Everything that survives a restart.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    topics: Mutex<BTreeMap<String, Topic>>,
    offsets: Mutex<Offsets>,
    leader: SpuId,
    /// Counts changes of topics, partitions and leaders.
    pub(super) epoch: watch::Sender<i64>,
    lock: File,
}

#[derive(Debug)]
struct Offsets {
    frames: Frames,
    stored: BTreeMap<(ReplicaKey, String), i64>,
}

impl Store {
    /// Opens or makes the folder; `leader` leads all partitions.
    ///
    /// # Errors
    /// When another stand-in uses it, or it can't be read.
    pub(super) fn open(folder: &Path, leader: SpuId) -> Result<Self> {
        let topics_folder = folder.join("topics");
        fs::create_dir_all(&topics_folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.try_lock().with_context(|| format!("{} is used by another stand-in", folder.display()))?;
        let mut topics = BTreeMap::new();
        for entry in fs::read_dir(&topics_folder)? {
            let entry = entry?;
            let name = entry.file_name().into_string().unwrap_or_default();
            if name.starts_with('.') {
                fs::remove_dir_all(entry.path())?;
            } else {
                let topic = open_topic(&name, &entry.path(), leader).with_context(|| format!("topic {name}"))?;
                topics.insert(name, topic);
            }
        }
        let store = Self {
            folder: folder.to_owned(),
            topics: Mutex::new(topics),
            offsets: Mutex::new(Offsets::open(&folder.join("offsets"))?),
            leader,
            epoch: watch::Sender::new(1),
            lock,
        };
        if store.topic(OFFSETS_TOPIC).is_none() {
            let mut spec = TopicSpec::new_computed(1, 1, None);
            spec.set_system(true);
            store.create(OFFSETS_TOPIC, &spec)?;
        }
        Ok(store)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Topic>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offsets(&self) -> MutexGuard<'_, Offsets> {
        self.offsets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All topics.
    pub(super) fn topics(&self) -> BTreeMap<String, Topic> {
        self.lock().clone()
    }

    /// A topic.
    pub(super) fn topic(&self, name: &str) -> Option<Topic> {
        self.lock().get(name).cloned()
    }

    /// A partition.
    pub(super) fn partition(&self, topic: &str, number: u32) -> Option<Arc<Partition>> {
        self.lock().get(topic)?.partitions.get(number as usize).cloned()
    }

    /// Makes a topic whose name is known to be fit for a folder; false when it is there already.
    ///
    /// # Errors
    /// When it can't be written.
    pub(super) fn create(&self, name: &str, spec: &TopicSpec) -> Result<bool> {
        let mut topics = self.lock();
        if topics.contains_key(name) {
            return Ok(false);
        }
        let (unfinished, path) = (self.hidden(name), self.visible(name));
        fs::create_dir(&unfinished)?;
        let mut bytes = Vec::new();
        spec.encode(&mut bytes, VERSION)?;
        fs::write(unfinished.join("spec"), bytes)?;
        fs::rename(&unfinished, &path)?;
        topics.insert(name.to_owned(), open_topic(name, &path, self.leader)?);
        drop(topics);
        self.epoch.send_modify(|epoch| *epoch += 1);
        Ok(true)
    }

    /// Removes a topic and ends its streams; false when there is none.
    ///
    /// # Errors
    /// When its folder can't be removed.
    pub(super) fn delete(&self, name: &str) -> Result<bool> {
        let mut topics = self.lock();
        let Some(topic) = topics.remove(name) else { return Ok(false) };
        for partition in &topic.partitions {
            partition.now.send_modify(|now| now.is_deleted = true);
        }
        fs::rename(self.visible(name), self.hidden(name))?;
        fs::remove_dir_all(self.hidden(name))?;
        drop(topics);
        self.epoch.send_modify(|epoch| *epoch += 1);
        Ok(true)
    }

    fn visible(&self, name: &str) -> PathBuf {
        self.folder.join("topics").join(name)
    }

    fn hidden(&self, name: &str) -> PathBuf {
        self.folder.join("topics").join(format!(".{name}"))
    }

    /// Stores how far a consumer has come.
    ///
    /// # Errors
    /// When it can't be written.
    pub(super) fn store_offset(&self, key: &ReplicaKey, consumer: &str, offset: i64) -> Result<()> {
        let mut body = Vec::new();
        ConsumerOffset::new(consumer, key.clone(), offset, 0).encode(&mut body, VERSION)?;
        let mut offsets = self.offsets();
        offsets.frames.append(&body)?;
        offsets.stored.insert((key.clone(), consumer.to_owned()), offset);
        Ok(())
    }

    /// How far consumers of the partitions that there are have come.
    pub(super) fn stored_offsets(&self) -> Vec<ConsumerOffset> {
        let offsets = self.offsets();
        let is_there = |key: &ReplicaKey| self.partition(&key.topic, key.partition).is_some();
        let stored = offsets.stored.iter().filter(|((key, _), _)| is_there(key));
        stored.map(|((key, consumer), offset)| ConsumerOffset::new(consumer, key.clone(), *offset, 0)).collect()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // closing is not enough: a child that another thread is just starting holds the file a moment longer. A lock
        // that can't be given back goes with the process
        let _kept = self.lock.unlock();
    }
}

impl Offsets {
    fn open(path: &Path) -> Result<Self> {
        let mut stored = BTreeMap::new();
        let frames = Frames::open(path, |_, body| {
            let one = ConsumerOffset::decode_from(&mut Cursor::new(body), VERSION)?;
            stored.insert((one.replica_id, one.consumer_id), one.offset);
            Ok(())
        })?;
        Ok(Self { frames, stored })
    }
}

fn open_topic(name: &str, path: &Path, leader: SpuId) -> Result<Topic> {
    let bytes = match fs::read(path.join("spec")) {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{} holds no spec", path.display()),
        bytes => bytes?,
    };
    let spec = TopicSpec::decode_from(&mut Cursor::new(bytes), VERSION)?;
    // more copies than there are SPUs can't be placed: the topic waits for others
    let is_placed = spec.replication_factor().is_none_or(|copies| copies as usize <= SPUS.len());
    let partitions = (0..spec.partitions()).filter(|_| is_placed).map(|number| {
        let key = ReplicaKey::new(name, number);
        Ok(Arc::new(Partition::open(key, &path.join(format!("{number}.log")), leader)?))
    });
    Ok(Topic { spec: spec.clone(), partitions: partitions.collect::<Result<_>>()? })
}
