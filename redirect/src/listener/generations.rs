//! A bounded map of what the link cache holds. Pure.
//!
//! Two generations: what is put goes into the young one; when that is full it becomes the old one, and the old one is
//! dropped. What is in use is put again whenever its time to live is over, so it stays young, and what is left behind is
//! what nobody has asked for since. That bounds memory at a cost of nothing per read: a reader only looks.

use std::collections::HashMap;

use schemas::link::MAX_CODE_BYTES;

/// Bytes of a key: the domain's number, then the code.
const KEY_BYTES: usize = 2 + MAX_CODE_BYTES;

/// A link's place in the cache: the number of its domain, and its code. On the stack, since every request makes one.
pub(super) struct Key {
    bytes: [u8; KEY_BYTES],
    len: usize,
}

impl Key {
    /// The key of `code`; `None` when it is longer than a code can be.
    pub(super) fn new(domain: u16, code: &str) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES];
        let len = 2 + code.len();
        bytes[..2].copy_from_slice(&domain.to_le_bytes());
        bytes.get_mut(2..len)?.copy_from_slice(code.as_bytes());
        Some(Self { bytes, len })
    }

    /// The key's bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The map.
#[derive(Debug)]
pub(super) struct Generations<V> {
    young: HashMap<Box<[u8]>, V>,
    old: HashMap<Box<[u8]>, V>,
    /// The most entries of one generation.
    capacity: usize,
}

impl<V> Generations<V> {
    /// A map of at most about `capacity` entries.
    pub(super) fn new(capacity: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), capacity: (capacity / 2).max(1) }
    }

    /// What is at `key`.
    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// What is at `key`, to be changed in place.
    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.young.get_mut(key).or_else(|| self.old.get_mut(key))
    }

    /// Puts `value` at `key` in place of what is there.
    pub(super) fn put(&mut self, key: &[u8], value: V) {
        if self.young.len() >= self.capacity && !self.young.contains_key(key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(key);
        self.young.insert(key.into(), value);
    }

    /// Drops what is at `key`.
    pub(super) fn remove(&mut self, key: &[u8]) {
        self.young.remove(key);
        self.old.remove(key);
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.young = HashMap::new();
        self.old = HashMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_of_different_links_differ() {
        let key = |domain, code: &str| Key::new(domain, code).unwrap().as_bytes().to_vec();
        assert_ne!(key(0, "a"), key(1, "a"));
        assert_ne!(key(0, "a"), key(0, "A"));
        assert_ne!(key(0, ""), key(0, "\0"));
        assert!(Key::new(0, &"a".repeat(MAX_CODE_BYTES)).is_some());
        assert!(Key::new(0, &"a".repeat(MAX_CODE_BYTES + 1)).is_none());
    }

    #[test]
    fn what_is_put_again_and_again_stays() {
        let mut map = Generations::new(10);
        for i in 0..1_000u32 {
            if i % 4 == 0 {
                map.put(b"hot", 0);
            }
            map.put(&i.to_le_bytes(), i);
            assert_eq!(map.get(b"hot"), Some(&0), "{i}");
            assert!(map.young.len() + map.old.len() <= 10);
        }
        assert_eq!(map.get(&1u32.to_le_bytes()), None);
    }

    proptest! {
        #[test]
        fn it_never_tells_an_older_value(steps in proptest::collection::vec((0u8..4, 0u8..8), 0..200)) {
            let mut map = Generations::new(6);
            let mut model: HashMap<u8, usize> = HashMap::new();
            for (i, (what, key)) in steps.into_iter().enumerate() {
                match what {
                    0 => { map.remove(&[key]); model.remove(&key); }
                    1 if key == 0 => { map.clear(); model.clear(); }
                    _ => { map.put(&[key], i); model.insert(key, i); }
                }
                for key in 0..8u8 {
                    // it may have forgotten, but what it knows is the newest
                    if let Some(value) = map.get(&[key]).copied() {
                        prop_assert_eq!(Some(&value), model.get(&key));
                        prop_assert_eq!(map.get_mut(&[key]).copied(), Some(value));
                    }
                }
                prop_assert!(map.young.len() <= 3 && map.old.len() <= 3);
            }
        }
    }
}
