//! Small geography databases for tests, written here.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

/// What ends the data and begins the metadata.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";

/// How a database lays its tree out.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Bits of a record of the tree: 24, 28 or 32.
    pub record_bits: u16,
    /// 4, or 6 for addresses of either family.
    pub ip_version: u16,
}

/// The bytes of a database in MMDB format (2.0, records of 32 bits, a tree of IPv6) with a record for each network.
///
/// # Panics
/// When a network is no network, or a value is of a kind that these files have no use for here.
pub fn mmdb(kind: &str, networks: &[(&str, Value)]) -> Vec<u8> {
    mmdb_of(kind, networks, Form { record_bits: 32, ip_version: 6 })
}

/// As [`mmdb`], in another form.
///
/// # Panics
/// As [`mmdb`], and for a form that there is none of.
pub fn mmdb_of(kind: &str, networks: &[(&str, Value)], form: Form) -> Vec<u8> {
    let mut data = Vec::new();
    let mut offsets: HashMap<String, usize> = HashMap::new();
    let mut tree = Tree(vec![[Leaf::Nothing; 2]]);
    for (network, record) in networks {
        let offset = *offsets.entry(record.to_string()).or_insert_with(|| {
            let offset = data.len();
            put(record, &mut data);
            offset
        });
        tree.insert(network, offset, form.ip_version);
    }
    let nodes = tree.0.len();
    let mut file = Vec::new();
    for node in &tree.0 {
        let [left, right] = node.map(|leaf| match leaf {
            Leaf::Nothing => nodes,
            Leaf::Node(node) => node,
            Leaf::Data(offset) => nodes + 16 + offset,
        } as u32);
        put_node(left, right, form.record_bits, &mut file);
    }
    file.extend_from_slice(&[0; 16]);
    file.append(&mut data);
    file.extend_from_slice(MARKER);
    let meta = json!({
        "binary_format_major_version": 2, "binary_format_minor_version": 0, "build_epoch": 1_773_480_413,
        "database_type": kind, "description": {"en": "made up"}, "ip_version": form.ip_version, "languages": ["en"],
        "node_count": nodes, "record_size": form.record_bits,
    });
    put(&meta, &mut file);
    file
}

fn put_node(left: u32, right: u32, record_bits: u16, out: &mut Vec<u8>) {
    let ([a, left @ ..], [b, right @ ..]) = (left.to_be_bytes(), right.to_be_bytes());
    match record_bits {
        24 => out.extend([left, right].concat()),
        28 => out.extend([&left[..], &[a << 4 | b], &right].concat()),
        32 => out.extend([&[a], &left[..], &[b], &right].concat()),
        other => panic!("no tree has records of {other} bits"),
    }
}

/// A record of the form that most makers use; an empty text is left out.
pub fn city(country: &str, region: &str, city: &str) -> Value {
    let mut record = Map::new();
    record.insert("country".into(), json!({"iso_code": country}));
    if !region.is_empty() {
        record.insert("subdivisions".into(), json!([{"iso_code": region}]));
    }
    if !city.is_empty() {
        record.insert("city".into(), json!({"names": {"en": city}}));
    }
    record.into()
}

#[derive(Clone, Copy)]
enum Leaf {
    Nothing,
    Node(usize),
    Data(usize),
}

/// A binary tree of the bits of addresses.
struct Tree(Vec<[Leaf; 2]>);

impl Tree {
    /// Of nested networks the wider must come first.
    fn insert(&mut self, network: &str, offset: usize, ip_version: u16) {
        let (address, length) = network.split_once('/').expect("a network");
        let length: u32 = length.parse().expect("its length");
        // IPv4 is at the begin of a tree of IPv6
        let (bits, length) = match address.parse().expect("an address") {
            IpAddr::V4(v4) if ip_version == 4 => (u128::from(v4.to_bits()) << 96, length),
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), length + 96),
            IpAddr::V6(v6) => (v6.to_bits(), length),
        };
        let mut node = 0;
        for depth in 0..length {
            let side = (bits >> (127 - depth) & 1) as usize;
            if depth + 1 == length {
                self.0[node][side] = Leaf::Data(offset);
                break;
            }
            node = match self.0[node][side] {
                Leaf::Node(next) => next,
                before => {
                    let next = self.0.len();
                    self.0.push([if matches!(before, Leaf::Data(_)) { before } else { Leaf::Nothing }; 2]);
                    self.0[node][side] = Leaf::Node(next);
                    next
                }
            };
        }
    }
}

/// Writes a value: kinds 2 (text), 6 (32 bits), 7 (map), 11 (list) and 14 (truth).
fn put(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => {
            head(2, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Number(number) => whole(6, 4, number, out),
        Value::Object(map) => {
            head(7, map.len(), out);
            for (name, value) in map {
                put(&Value::from(name.as_str()), out);
                match (name.as_str(), value) {
                    // the metadata's numbers have kinds of their own: 16 and 64 bits
                    ("build_epoch", Value::Number(number)) => whole(9, 8, number, out),
                    ("ip_version" | "record_size", Value::Number(number)) => whole(5, 2, number, out),
                    (name, Value::Number(number)) if name.ends_with("_version") => whole(5, 2, number, out),
                    (_, value) => put(value, out),
                }
            }
        }
        Value::Array(list) => {
            head(11, list.len(), out);
            list.iter().for_each(|value| put(value, out));
        }
        Value::Bool(truth) => head(14, usize::from(*truth), out),
        Value::Null => panic!("there is no null in these files"),
    }
}

fn whole(kind: u8, bytes: usize, number: &serde_json::Number, out: &mut Vec<u8>) {
    head(kind, bytes, out);
    out.extend_from_slice(&number.as_u64().expect("a whole number").to_be_bytes()[8 - bytes..]);
}

/// Kind and size: five bits, or what is beyond 28 (below 285) in a byte of its own.
fn head(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (short, more) = match size {
        0..29 => (size as u8, None),
        _ => (29, Some(u8::try_from(size - 29).expect("a short value"))),
    };
    match kind {
        0..8 => out.push(kind << 5 | short),
        _ => out.extend([short, kind - 7]),
    }
    out.extend(more);
}
