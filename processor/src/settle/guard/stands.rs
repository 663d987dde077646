//! What stands of a party's hour, as a transaction of `clicks` says it.
//!
//! ```text
//! mismatch/<provider>[/<workspace>]/<hour>  =  1 open │ 2 recovered │ 3 counted   + 4 the word is being carried out
//!                                                                                 + 8 a party of its own since before
//! ```
//! What stands of the operator's hour holds for every line that was of it when it began to stand: a workspace that tells
//! of its events afterwards takes none away. Those that had told before are marked then, as they were judged by
//! themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::party::Party;
use crate::lake::TableHandle;
use crate::settle::elsewhere::Elsewhere;

/// What stands of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Ids don't meet: its lines without an event wait.
    Open,
    /// An operator has said that their events were lost.
    Recovered,
    /// An operator has said that they are counted, under other ids.
    Counted,
}

impl Standing {
    /// The word that is written and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Recovered => "recovered",
            Self::Counted => "counted",
        }
    }
}

/// The bits of a value that say what stands, and the further ones.
const STANDING: i64 = 3;
const UNDER_WAY: i64 = 4;
const APART: i64 = 8;

/// All that is said of an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// What stands, if anything.
    pub(super) standing: Option<Standing>,
    /// Whether an operator's word is still being carried out.
    pub(super) is_under_way: bool,
    /// Whether a workspace's lines were its own matter before something stood of the operator's hour.
    pub(super) is_apart: bool,
}

impl Said {
    pub(super) fn of(clicks: &TableHandle, party: &Party, hour: i64) -> Self {
        clicks.txn(&txn_of(party, hour)).map(Self::from_value).unwrap_or_default()
    }

    fn from_value(value: i64) -> Self {
        let standing = match value & STANDING {
            1 => Some(Standing::Open),
            2 => Some(Standing::Recovered),
            3 => Some(Standing::Counted),
            _ => None,
        };
        Self { standing, is_under_way: value & UNDER_WAY != 0, is_apart: value & APART != 0 }
    }

    fn value(self) -> i64 {
        let standing = match self.standing {
            None => 0,
            Some(Standing::Open) => 1,
            Some(Standing::Recovered) => 2,
            Some(Standing::Counted) => 3,
        };
        let flag = |is_set: bool, flag: i64| if is_set { flag } else { 0 };
        standing | flag(self.is_under_way, UNDER_WAY) | flag(self.is_apart, APART)
    }

    /// The operator's word, if one was given.
    pub(super) fn word(self) -> Option<Standing> {
        self.standing.filter(|standing| *standing != Standing::Open)
    }

    /// The transaction that says so.
    pub(super) fn txn(self, party: &Party, hour: i64) -> (String, i64) {
        (txn_of(party, hour), self.value())
    }
}

/// The beginning of the transactions that say what stands.
pub(super) const PREFIX: &str = "mismatch/";

fn txn_of(party: &Party, hour: i64) -> String {
    format!("{PREFIX}{}/{hour}", party.name())
}

/// All that is said, of hours whose transaction begins so.
pub(super) fn said_of<'a>(
    clicks: &'a TableHandle,
    prefix: &'a str,
) -> impl Iterator<Item = (Party, i64, Said)> + use<'a> {
    clicks.txns_with_prefix(prefix).filter_map(|(txn, value)| {
        let (party, hour) = txn[PREFIX.len()..].rsplit_once('/')?;
        Some((Party::named(party), hour.parse().ok()?, Said::from_value(value)))
    })
}

/// The open hours of a snapshot.
pub(super) fn open_hours(clicks: &TableHandle) -> impl Iterator<Item = (Party, i64)> {
    let open = said_of(clicks, PREFIX).filter(|(_, _, said)| said.standing == Some(Standing::Open));
    open.map(|(party, hour, _)| (party, hour))
}

/// What one commit lets stand of hours: each transaction once, whatever several parties say of it.
#[derive(Debug, Default)]
pub(super) struct Change(BTreeMap<String, i64>);

impl Change {
    fn said(&self, clicks: &TableHandle, party: &Party, hour: i64) -> Said {
        match self.0.get(&txn_of(party, hour)) {
            Some(value) => Said::from_value(*value),
            None => Said::of(clicks, party, hour),
        }
    }

    /// Lets something else stand of a party's hour from now on; `is_under_way`: there is more to be done for it.
    pub(super) fn stand(
        &mut self,
        clicks: &TableHandle,
        split: &Split,
        (party, hour): (&Party, i64),
        standing: Option<Standing>,
        is_under_way: bool,
    ) {
        let before = self.said(clicks, party, hour);
        self.0.extend([Said { standing, is_under_way, ..before }.txn(party, hour)]);
        if party.tenant.is_none() && before.standing.is_none() && standing.is_some() {
            for workspace in split.told.tellers(hour) {
                let own = party.of_tenant(workspace);
                let said = self.said(clicks, &own, hour);
                self.0.extend((!said.is_apart).then(|| Said { is_apart: true, ..said }.txn(&own, hour)));
            }
        }
    }

    /// Its transactions.
    pub(super) fn into_txns(self) -> Vec<(String, i64)> {
        self.0.into_iter().collect()
    }
}

/// The transactions by which something else stands of one party's hour; as [`Change::stand`].
pub(super) fn now_stands(
    clicks: &TableHandle,
    split: &Split,
    hour: (&Party, i64),
    standing: Option<Standing>,
    is_under_way: bool,
) -> Vec<(String, i64)> {
    let mut change = Change::default();
    change.stand(clicks, split, hour, standing, is_under_way);
    change.into_txns()
}

/// Which workspaces' lines of a provider's logs are parties of their own.
#[derive(Debug, Default)]
pub(super) struct Split {
    told: Elsewhere,
    /// Hours of which something stands for all who weren't apart before.
    whole: BTreeSet<i64>,
    /// Who was, or has a word of its own.
    apart: BTreeMap<i64, BTreeSet<String>>,
}

impl Split {
    /// As the lake has it.
    pub(super) fn read(provider: &str, clicks: &TableHandle, arrivals: &TableHandle) -> Self {
        let mut split = Self { told: Elsewhere::read(provider, clicks, arrivals), ..Self::default() };
        for (party, hour, said) in said_of(clicks, &format!("{PREFIX}{provider}/")) {
            split.add(&party, hour, said);
        }
        split
    }

    fn add(&mut self, party: &Party, hour: i64, said: Said) {
        match &party.tenant {
            None if said.standing.is_some() => drop(self.whole.insert(hour)),
            Some(tenant) if said.is_apart || said.word().is_some() => {
                self.apart.entry(hour).or_default().insert(tenant.clone());
            }
            _ => {}
        }
    }

    /// Whether a workspace's lines of an hour are its own matter, in the operator's logs too.
    pub(super) fn is_apart(&self, workspace: &str, hour: i64) -> bool {
        let was_apart = || self.apart.get(&hour).is_some_and(|apart| apart.contains(workspace));
        self.told.has_told(workspace, hour) && (!self.whole.contains(&hour) || was_apart())
    }

    /// Whether a workspace has told of events of an hour whose lines are the operator's matter nevertheless.
    pub(super) fn stays(&self, workspace: &str, hour: i64) -> bool {
        self.told.has_told(workspace, hour) && !self.is_apart(workspace, hour)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A split where these have told of events at these times, and this is said of the operator's and others' hours.
    pub(in super::super) fn split_of(told: Elsewhere, said: &[(&str, i64, i64)]) -> Split {
        let mut split = Split { told, ..Split::default() };
        said.iter().for_each(|(party, hour, value)| split.add(&Party::named(party), *hour, Said::from_value(*value)));
        split
    }

    #[test]
    fn what_is_said_is_read_as_it_was_written() {
        for value in 0..16 {
            assert_eq!(Said::from_value(value).value(), value);
        }
        let word = |value| Said::from_value(value).word();
        assert_eq!(
            [word(1), word(2 | UNDER_WAY), word(3), word(APART)],
            [None, Some(Standing::Recovered), Some(Standing::Counted), None]
        );
    }
}
