//! JSON records that aren't lines, made into lines.
//!
//! ```text
//! {"a":1}{"a":2}                 joined, as Firehose does
//! {"records":[{"a":1},           a list in an object, as Event Hub and Cloudflare's `batch_prefix` make it ──► {"a":1}
//!             {"a":2}]}                                                                                        {"a":2}
//! [{"a":1},{"a":2}]              a list
//! {↵ "a": 1↵}                    over several lines
//! ```
//! The first bytes decide, once for a file: see [`decide`]. A file of lines goes through untouched.
//!
//! # Invariants
//! * What comes out depends on the bytes alone, not on how they come in, and so do the blocks that are cut from it.
//! * Nothing is held but the beginning of a record that may turn out to be a list's wrapping.
//! * A record that is no JSON comes out as a line that is none either, to be rejected; the next one is found behind its
//!   line end, or where an object begins behind another's end.

use super::scan::{Scanner, Step};

/// First bytes that are looked at, at most. Longer than any line may be.
pub(super) const LOOKED_AT: usize = 128 << 10;
/// The longest `{"name":[` that is taken for a list's wrapping.
const LONGEST_WRAPPING: usize = 256;

/// How a file's records are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// By line ends.
    Lines,
    /// By their own ends.
    Objects,
}

/// How the records of a file that begins with `head` are told apart; `None` when that needs more of it. `whole`: there
/// is no more. More bytes never change an answer.
///
/// They are objects when the file is a list of objects, begins with an object that wraps one, or when its first object
/// goes over several lines, or ends and something follows in the same line.
pub(super) fn decide(head: &[u8], whole: bool) -> Option<Framing> {
    let open = if whole || head.len() >= LOOKED_AT { Some(Framing::Lines) } else { None };
    let head = &head[..head.len().min(LOOKED_AT)];
    let mut bytes = head.iter().copied().enumerate().skip_while(|(_, byte)| byte.is_ascii_whitespace());
    match bytes.next() {
        None => return open,
        Some((_, b'{')) => {}
        Some((_, b'[')) => {
            return match bytes.find(|(_, byte)| !byte.is_ascii_whitespace()) {
                None => open,
                Some((_, b'{' | b']')) => Some(Framing::Objects),
                Some(_) => Some(Framing::Lines),
            };
        }
        Some(_) => return Some(Framing::Lines),
    }
    let (mut scanner, mut several_lines) = (Scanner::new(), false);
    for (at, byte) in bytes.by_ref() {
        match scanner.step(byte) {
            Step::Inside => several_lines |= byte == b'\n',
            Step::List if at <= LONGEST_WRAPPING => return Some(Framing::Objects),
            Step::List | Step::Broken => return Some(Framing::Lines),
            Step::End if several_lines => return Some(Framing::Objects),
            Step::End => {
                return match bytes.find(|(_, byte)| !matches!(byte, b' ' | b'\t')) {
                    None => open,
                    Some((_, b'{' | b',')) => Some(Framing::Objects),
                    Some(_) => Some(Framing::Lines),
                };
            }
        }
    }
    open
}

/// Where the next byte is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Between records.
    Between,
    /// In a record.
    Inside(Scanner),
    /// In what is no JSON. `closed`: the last that counts was a brace that closes.
    Broken { closed: bool },
    /// In what follows a list in the object that wraps it.
    Behind(Scanner),
}

/// Makes lines of objects.
#[derive(Debug)]
pub(super) struct Framer {
    place: Place,
    /// The beginning of a record that may turn out to be a list's wrapping.
    held: Vec<u8>,
    /// Wrappings whose list goes on.
    wrappings: u32,
}

impl Framer {
    pub(super) fn new() -> Self {
        Self { place: Place::Between, held: Vec::new(), wrappings: 0 }
    }

    /// Takes the next bytes, and puts what comes of them behind `out`.
    pub(super) fn push(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let mut rest = input;
        while let Some((&byte, after)) = rest.split_first() {
            let mut read = 1;
            match self.place {
                Place::Between => self.between(byte, out),
                Place::Inside(scanner) if scanner.is_in_string() => {
                    read = memchr::memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len());
                    if read == 0 {
                        read = 1;
                        self.inside(scanner, byte, out);
                    } else {
                        self.keep(scanner, &rest[..read], out);
                    }
                }
                Place::Inside(scanner) => self.inside(scanner, byte, out),
                Place::Broken { closed } => self.broken(closed, byte, out),
                Place::Behind(mut scanner) => {
                    self.place = match scanner.step(byte) {
                        Step::Inside => Place::Behind(scanner),
                        Step::End | Step::List | Step::Broken => Place::Between,
                    };
                }
            }
            rest = if read == 1 { after } else { &rest[read..] };
        }
    }

    /// There is no more: what was held is the beginning of a record after all.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }

    fn between(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'{' => self.begin(out),
            b']' if self.wrappings > 0 => {
                self.wrappings -= 1;
                self.place = Place::Behind(Scanner::behind_list());
            }
            b',' | b'[' | b']' => {}
            _ if byte.is_ascii_whitespace() => {}
            _ => {
                out.push(byte);
                self.place = Place::Broken { closed: true };
            }
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.keep(Scanner::new(), b"{", out);
    }

    fn inside(&mut self, mut scanner: Scanner, byte: u8, out: &mut Vec<u8>) {
        match scanner.step(byte) {
            Step::Inside => self.keep(scanner, &[if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }], out),
            Step::List => {
                self.held.clear();
                self.wrappings += 1;
                self.begin(out);
            }
            Step::End => {
                out.append(&mut self.held);
                out.extend_from_slice(&[byte, b'\n']);
                self.place = Place::Between;
            }
            Step::Broken => {
                out.append(&mut self.held);
                // An object where none can be: the one before was cut.
                self.broken(byte == b'{', byte, out);
            }
        }
    }

    fn broken(&mut self, closed: bool, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'\n' => {
                out.push(byte);
                self.place = Place::Between;
            }
            b'{' if closed => {
                out.push(b'\n');
                self.begin(out);
            }
            _ => {
                out.push(byte);
                let counts = byte != b',' && !byte.is_ascii_whitespace();
                self.place = Place::Broken { closed: if counts { byte == b'}' } else { closed } };
            }
        }
    }

    /// Goes on in a record, of which `bytes` are part.
    fn keep(&mut self, mut scanner: Scanner, bytes: &[u8], out: &mut Vec<u8>) {
        if scanner.may_be_list() && self.held.len() + bytes.len() <= LONGEST_WRAPPING {
            self.held.extend_from_slice(bytes);
        } else {
            scanner.is_no_list();
            out.append(&mut self.held);
            out.extend_from_slice(bytes);
        }
        self.place = Place::Inside(scanner);
    }
}

#[cfg(test)]
mod tests;
