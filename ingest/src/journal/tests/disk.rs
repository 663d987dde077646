//! A disk over real files that fails when told to, has a capacity, and forgets what wasn't synced when its plug is
//! pulled. A failed sync is as mean as Linux's: what it didn't write counts as written afterwards.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::journal::disk::{Disk, DiskFile, ReadAt};

/// What is to fail next, and how often.
#[derive(Default)]
pub(super) struct Faults {
    /// What happens elsewhere during the next sync.
    pub(super) meanwhile: Option<Box<dyn FnOnce() + Send>>,
    pub(super) syncs: u32,
    pub(super) directory_syncs: u32,
    pub(super) writes: u32,
    pub(super) cuts: u32,
    pub(super) opens: u32,
    /// The most that one write takes.
    pub(super) short_writes: Option<usize>,
    /// Bytes of all files together.
    pub(super) capacity: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct SimDisk(Arc<Mutex<State>>);

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faults")
    }
}

#[derive(Debug)]
struct State {
    faults: Faults,
    files: HashMap<PathBuf, Known>,
    attic: PathBuf,
    next: u64,
}

/// What the disk holds of a file.
#[derive(Clone, Debug, Default)]
struct Known {
    inner: Arc<Mutex<Held>>,
    /// Whether its name is on the disk.
    named: bool,
    /// What had the name before, as long as the name isn't on the disk.
    replaced: Option<(PathBuf, Arc<Mutex<Held>>)>,
}

#[derive(Debug, Default)]
struct Held {
    length: u64,
    /// How much of it is on the disk.
    durable: u64,
    /// From here on a failed sync has lost it, and no later sync writes it.
    lost_from: Option<u64>,
}

#[derive(Debug)]
struct SimFile {
    file: File,
    held: Arc<Mutex<Held>>,
    disk: SimDisk,
}

fn broken() -> io::Error {
    io::Error::other("simulated I/O error")
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

fn fails(count: &mut u32) -> bool {
    let fails = *count > 0;
    *count = count.saturating_sub(1);
    fails
}

impl SimDisk {
    pub(super) fn new(directory: &Path) -> Self {
        let attic = directory.join("attic");
        std::fs::create_dir_all(&attic).unwrap();
        Self(Arc::new(Mutex::new(State { faults: Faults::default(), files: HashMap::new(), attic, next: 0 })))
    }

    pub(super) fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state().faults);
    }

    /// Leaves room for `bytes` more.
    pub(super) fn leave(&self, bytes: u64) {
        let mut state = self.state();
        state.faults.capacity = Some(state.used() + bytes);
    }

    /// Pulls the plug. Of each file at least what was synced is left; of the rest as much as `keeps` says of its
    /// bytes, and of what is kept so much turns into zeros.
    pub(super) fn power_cut(&self, mut keeps: impl FnMut(u64) -> (u64, u64)) {
        let mut state = self.state();
        let mut paths: Vec<_> = state.files.keys().cloned().collect();
        paths.sort();
        for path in paths {
            let known = state.files[&path].clone();
            if !known.named {
                let _ = std::fs::remove_file(&path);
                state.files.remove(&path);
                if let Some((backup, inner)) = known.replaced {
                    std::fs::rename(backup, &path).unwrap();
                    state.files.insert(path.clone(), Known { inner, named: true, replaced: None });
                } else {
                    continue;
                }
            }
            let mut held = state.files[&path].inner.lock().unwrap();
            let (kept, zeros) = keeps(held.length - held.durable);
            let length = held.durable + kept;
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(length.saturating_sub(zeros).max(held.durable)).unwrap();
            file.set_len(length).unwrap();
            *held = Held { length, durable: length, lost_from: None };
        }
    }

    /// Changes a file behind everyone's back; what it holds then is on the disk.
    pub(super) fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        super::damage(path, change);
        if let Some(known) = self.state().files.get(path) {
            let length = std::fs::metadata(path).unwrap().len();
            *known.inner.lock().unwrap() = Held { length, durable: length, lost_from: None };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn used(&self) -> u64 {
        self.files.values().map(|known| known.inner.lock().unwrap().length).sum()
    }

    fn room(&self) -> u64 {
        self.faults.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, fresh: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        if fresh && fails(&mut state.faults.opens) {
            return Err(broken());
        }
        let file = File::options().read(true).write(true).create(fresh).truncate(fresh).open(path)?;
        let length = file.metadata()?.len();
        let entry = state.files.entry(path.to_owned()).or_insert_with(|| {
            let inner = Held { length, durable: length, lost_from: None };
            Known { inner: Arc::new(Mutex::new(inner)), named: !fresh, replaced: None }
        });
        if fresh {
            *entry = Known::default();
        }
        Ok(Box::new(SimFile { file, held: Arc::clone(&entry.inner), disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let mut known = state.files.remove(from).ok_or_else(broken)?;
        known.named = false;
        if let Some(old) = state.files.remove(to) {
            if old.named {
                let backup = state.attic.join(state.next.to_string());
                state.next += 1;
                std::fs::hard_link(to, &backup)?;
                known.replaced = Some((backup, old.inner));
            } else {
                known.replaced = old.replaced;
            }
        }
        state.files.insert(to.to_owned(), known);
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state().files.remove(path);
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if fails(&mut state.faults.directory_syncs) {
            return Err(broken());
        }
        for (name, known) in &mut state.files {
            if name.parent() == Some(path) {
                known.named = true;
                if let Some((backup, _)) = known.replaced.take() {
                    std::fs::remove_file(backup)?;
                }
            }
        }
        Ok(())
    }

    fn available(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.state().room())
    }
}

impl ReadAt for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(&self.file, buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let room = state.room();
        let mut held = self.held.lock().unwrap();
        let most = state.faults.short_writes.unwrap_or(usize::MAX).min(bytes.len());
        let grows = (offset + most as u64).saturating_sub(held.length).min(room);
        let fits = ((held.length + grows).saturating_sub(offset) as usize).min(most);
        if fits == 0 && !bytes.is_empty() {
            return Err(full());
        }
        if fails(&mut state.faults.writes) {
            // The worst kind: some of it has been written.
            let written = self.file.write_at(&bytes[..fits / 2], offset)?;
            held.length = held.length.max(offset + written as u64);
            return Err(broken());
        }
        let written = self.file.write_at(&bytes[..fits], offset)?;
        held.length = held.length.max(offset + written as u64);
        Ok(written)
    }

    fn sync(&self) -> io::Result<()> {
        let fails = fails(&mut self.disk.state().faults.syncs);
        let length = self.held.lock().unwrap().length;
        let meanwhile = self.disk.state().faults.meanwhile.take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let mut held = self.held.lock().unwrap();
        if fails {
            held.lost_from = Some(held.lost_from.unwrap_or(held.durable));
            return Err(broken());
        }
        held.durable = held.lost_from.unwrap_or(length);
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        if fails(&mut self.disk.state().faults.cuts) {
            return Err(broken());
        }
        self.file.set_len(length)?;
        let mut held = self.held.lock().unwrap();
        held.length = length;
        held.durable = held.durable.min(length);
        held.lost_from = held.lost_from.filter(|lost| *lost < length);
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let room = self.disk.state().room();
        let mut held = self.held.lock().unwrap();
        if length.saturating_sub(held.length) > room {
            return Err(full());
        }
        self.file.set_len(length)?;
        held.length = length;
        Ok(())
    }
}
