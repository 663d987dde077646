//! Loads under way: one for each link, however many wait for it.
//!
//! A flight that is called off still tells those who wait for it, who asked before it was called off; but what it
//! brings is not kept, and who asks later begins a new one. Boarding, landing and calling off exclude each other.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The flights under way.
pub(super) struct Flights<V> {
    board: Mutex<Board<V>>,
    /// The most at once; more are turned away rather than queued without end.
    most: usize,
}

struct Board<V> {
    flights: HashMap<Box<[u8]>, Flight<V>>,
    next: u64,
}

struct Flight<V> {
    number: u64,
    landed: watch::Receiver<Option<V>>,
}

/// What became of an attempt to board.
pub(super) enum Boarded<V> {
    /// One is under way.
    Joined(watch::Receiver<Option<V>>),
    /// It is the caller's to fly.
    Begun(Ticket<V>, watch::Receiver<Option<V>>),
    /// Too many are under way.
    Full,
}

/// A flight, to be flown. However that ends, it doesn't stay on the board.
pub(super) struct Ticket<V> {
    flights: Arc<Flights<V>>,
    key: Box<[u8]>,
    number: u64,
    tell: watch::Sender<Option<V>>,
}

impl<V> Flights<V> {
    /// None under way, and never more than `most`.
    pub(super) fn new(most: usize) -> Self {
        Self { board: Mutex::new(Board { flights: HashMap::new(), next: 0 }), most }
    }

    /// Joins the flight of `key`, or begins it.
    pub(super) fn board(self: &Arc<Self>, key: &[u8]) -> Boarded<V> {
        let mut board = self.lock();
        if let Some(flight) = board.flights.get(key) {
            return Boarded::Joined(flight.landed.clone());
        }
        if board.flights.len() >= self.most {
            return Boarded::Full;
        }
        let number = board.next;
        board.next += 1;
        let (tell, landed) = watch::channel(None);
        board.flights.insert(key.into(), Flight { number, landed: landed.clone() });
        Boarded::Begun(Ticket { flights: Arc::clone(self), key: key.into(), number, tell }, landed)
    }

    /// Calls off the flight of `key`, and does `also` before anybody can board again.
    pub(super) fn call_off(&self, key: &[u8], also: impl FnOnce()) {
        let mut board = self.lock();
        board.flights.remove(key);
        also();
    }

    /// Calls off all of them, and does `also` before anybody can board again.
    pub(super) fn call_off_all(&self, also: impl FnOnce()) {
        let mut board = self.lock();
        board.flights.clear();
        also();
    }

    fn lock(&self) -> MutexGuard<'_, Board<V>> {
        // a panic while it was held leaves nothing half done
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Ticket<V> {
    /// The key that it was begun for.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Lands with `value`: it is kept, unless the flight was called off, and told to those who wait.
    pub(super) fn land(self, value: V, keep: impl FnOnce(&V)) {
        {
            let mut board = self.flights.lock();
            if self.take_off_board(&mut board) {
                keep(&value);
            }
        }
        // nobody may be waiting any more
        let _ = self.tell.send(Some(value));
    }

    /// Whether it was still on the board.
    fn take_off_board(&self, board: &mut Board<V>) -> bool {
        let ours = board.flights.get(&self.key).is_some_and(|flight| flight.number == self.number);
        if ours {
            board.flights.remove(&self.key);
        }
        ours
    }
}

impl<V> Drop for Ticket<V> {
    fn drop(&mut self) {
        self.take_off_board(&mut self.flights.lock());
    }
}

impl<V> fmt::Debug for Flights<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").field("under_way", &self.lock().flights.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(flights: &Arc<Flights<u8>>, key: &[u8]) -> (Ticket<u8>, watch::Receiver<Option<u8>>) {
        match flights.board(key) {
            Boarded::Begun(ticket, landed) => (ticket, landed),
            _ => panic!("{key:?} is under way"),
        }
    }

    #[test]
    fn all_who_ask_share_one_flight() {
        let flights = Arc::new(Flights::new(9));
        let (ticket, first) = begin(&flights, b"a");
        let Boarded::Joined(second) = flights.board(b"a") else { panic!("began another") };
        let mut kept = None;
        ticket.land(7, |value| kept = Some(*value));
        assert_eq!((kept, *first.borrow(), *second.borrow()), (Some(7), Some(7), Some(7)));
        begin(&flights, b"a");
    }

    #[test]
    fn a_flight_called_off_keeps_nothing_and_holds_up_nobody() {
        let flights = Arc::new(Flights::new(9));
        let (old, waiting) = begin(&flights, b"a");
        let (other, _) = begin(&flights, b"b");
        let mut done = false;
        flights.call_off(b"a", || done = true);
        assert!(done);
        let (new, _) = begin(&flights, b"a");
        old.land(1, |_| panic!("kept what was called off"));
        assert_eq!(*waiting.borrow(), Some(1), "who asked before is told");
        assert!(matches!(flights.board(b"a"), Boarded::Joined(_)), "the new one is not the old one's to end");
        let mut kept = 0;
        new.land(2, |value| kept += value);
        other.land(3, |value| kept += value);
        assert_eq!(kept, 5);

        let (all, _) = begin(&flights, b"a");
        flights.call_off_all(|| ());
        all.land(1, |_| panic!("kept what was called off"));
    }

    #[test]
    fn a_flight_that_never_lands_leaves_the_board() {
        let flights = Arc::new(Flights::new(1));
        let (ticket, waiting) = begin(&flights, b"a");
        assert!(matches!(flights.board(b"b"), Boarded::Full));
        drop(ticket);
        assert!(waiting.has_changed().is_err(), "those who wait learn that it is over");
        begin(&flights, b"b");
    }
}
