//! The search tree of a database: from an address to the offset of its record. Pure.
//!
//! ```text
//! address ─first 16 bits─► table ─► node ─bit by bit─► offset of a record
//! ```
//! Half of the way to an IPv4 address is the same for all that share their first sixteen bits, so its end is kept for each
//! of them: a look-up then needs a few places in memory, and not some twenty.
//!
//! # Failure
//! A file has been checked by whoever gives it (the tree lies within it). What leads nowhere all the same has no record.

use std::net::IpAddr;

use bytes::Bytes;

/// Bits of an IPv4 address that the table stands for.
const NEAR_BITS: u32 = 16;
/// What separates the tree from the records.
const SEPARATOR_BYTES: u32 = 16;

/// A tree, and the table of where IPv4 networks begin in it.
pub(super) struct Tree {
    /// The file, which begins with the tree.
    file: Bytes,
    nodes: u32,
    record_bits: u16,
    /// Addresses have this many bits in it: 32 or 128.
    depth: u32,
    /// By the first bits of an IPv4 address: a node, or what a record's pointer says.
    near: Vec<u32>,
}

impl Tree {
    /// Of a file whose metadata say so. `None` for records of a size that there is none of.
    pub(super) fn new(file: Bytes, nodes: u32, record_bits: u16, ip_version: u16) -> Option<Self> {
        if !matches!(record_bits, 24 | 28 | 32) {
            return None;
        }
        let depth = if ip_version == 4 { 32 } else { 128 };
        let mut tree = Self { file, nodes, record_bits, depth, near: Vec::new() };
        // IPv4 is what an IPv6 tree has below 96 zeroes
        let v4 = tree.walk(0, 0, depth - 32);
        tree.near = (0..1u128 << NEAR_BITS).map(|first| tree.walk(v4, first, NEAR_BITS)).collect();
        Some(tree)
    }

    /// Where the record of an address begins, counted from where records do.
    pub(super) fn find(&self, address: IpAddr) -> Option<u32> {
        let end = match address {
            IpAddr::V4(v4) => {
                let bits = v4.to_bits();
                self.walk(*self.near.get((bits >> (32 - NEAR_BITS)) as usize)?, bits.into(), 32 - NEAR_BITS)
            }
            IpAddr::V6(_) if self.depth == 32 => return None,
            IpAddr::V6(v6) => self.walk(0, v6.to_bits(), 128),
        };
        // as much as the number of nodes means none
        end.checked_sub(self.nodes)?.checked_sub(SEPARATOR_BYTES)
    }

    /// Goes on from a node along the last `count` of these bits, as far as there are nodes.
    fn walk(&self, mut node: u32, bits: u128, count: u32) -> u32 {
        for place in (0..count).rev() {
            if node >= self.nodes {
                break;
            }
            node = self.next(node, bits >> place & 1 == 1);
        }
        node
    }

    /// The left or right record of a node; none where the file ends before.
    fn next(&self, node: u32, right: bool) -> u32 {
        let bytes = usize::from(self.record_bits) / 4;
        let at = node as usize * bytes;
        let Some(node) = self.file.get(at..at + bytes) else { return self.nodes };
        let whole = |from: usize, most: u8| u32::from_be_bytes([most, node[from], node[from + 1], node[from + 2]]);
        match (self.record_bits, right) {
            (24, false) => whole(0, 0),
            (24, true) => whole(3, 0),
            (28, false) => whole(0, node[3] >> 4),
            (28, true) => whole(4, node[3] & 0xf),
            (_, false) => whole(1, node[0]),
            (_, true) => whole(5, node[4]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use maxminddb::Reader;
    use proptest::prelude::*;

    use super::*;
    use crate::geo::testing::{Form, city, mmdb_of};

    fn tree(reader: &Reader<Bytes>, file: Bytes) -> Tree {
        let meta = reader.metadata();
        Tree::new(file, meta.node_count, meta.record_size, meta.ip_version).unwrap()
    }

    /// Networks of either family, none of which lies within another.
    fn networks() -> impl Strategy<Value = Vec<(u32, u32, u128, u32)>> {
        proptest::collection::vec((any::<u32>(), 1u32..=32, any::<u128>(), 1u32..=128), 1..40)
    }

    proptest! {
        /// Whatever the form of a file, an address has the record that another reader finds.
        #[test]
        fn it_finds_what_another_reader_does(
            networks in networks(),
            record_bits in prop::sample::select(vec![24u16, 28, 32]),
            is_v4 in any::<bool>(),
            asked in proptest::collection::vec((any::<prop::sample::Index>(), any::<u128>(), 0u32..128), 40),
        ) {
            let mut wider_first: BTreeMap<(u32, String), usize> = BTreeMap::new();
            for (number, (v4, v4_length, v6, v6_length)) in networks.iter().enumerate() {
                let v4 = Ipv4Addr::from_bits(v4 & u32::MAX.checked_shl(32 - v4_length).unwrap_or(0));
                wider_first.insert((96 + v4_length, format!("{v4}/{v4_length}")), number);
                if !is_v4 {
                    let v6 = Ipv6Addr::from_bits(v6 & u128::MAX.checked_shl(128 - v6_length).unwrap_or(0));
                    wider_first.insert((*v6_length, format!("{v6}/{v6_length}")), number);
                }
            }
            let records: Vec<_> = wider_first
                .iter()
                .map(|((_, network), number)| (network.as_str(), city("NL", "", &format!("City {number}"))))
                .collect();
            let form = Form { record_bits, ip_version: if is_v4 { 4 } else { 6 } };
            let file = Bytes::from(mmdb_of("City", &records, form));
            let reader = Reader::from_source(file.clone()).unwrap();
            let tree = tree(&reader, file);
            for (near, noise, bits) in asked {
                let (v4, _, v6, _) = networks[near.index(networks.len())];
                let noise = noise.checked_shr(128 - bits).unwrap_or(0);
                for address in [IpAddr::from(Ipv4Addr::from_bits(v4 ^ noise as u32)), Ipv6Addr::from_bits(v6 ^ noise).into()] {
                    let expected = reader.lookup(address).ok().and_then(|found| found.offset());
                    prop_assert_eq!(tree.find(address).map(|offset| offset as usize), expected, "{}", address);
                }
            }
        }
    }

    #[test]
    fn a_tree_that_leads_out_of_its_file_leads_nowhere() {
        let cut = Tree::new(Bytes::from_static(&[0, 0, 0, 9, 0, 0, 0, 9]), 40, 32, 6).unwrap();
        assert_eq!(cut.find(Ipv4Addr::LOCALHOST.into()), None);
        assert_eq!(cut.find(Ipv6Addr::LOCALHOST.into()), None);
        assert!(Tree::new(Bytes::new(), 0, 30, 6).is_none());
    }
}
