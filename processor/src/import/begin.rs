//! An import of more than one chunk is named before its first rows come in, so that a killed one is known and can be taken
//! back. What comes in as a whole is named with it, and costs no commit more.

use schemas::UtcMicros;
use schemas::tables::Table;

use super::error::Failure;
use super::land::Lander;
use super::side;
use super::stored::row_of;
use super::summary::Summary;
use crate::lake::{Change, CommitError};
use crate::settle::SettleError;
use crate::settle::desk::TRIES;

impl Summary {
    /// Of an import whose lines are coming in: nobody knows yet how many.
    fn coming_in(&self) -> Self {
        let mut summary = Self::new(self.id.clone(), self.name.clone(), self.format.clone(), false);
        summary.added = self.added.none();
        summary.note = Some(format!(
            "its lines are coming in; if nobody is at it any more, import the file again, which goes on from there, or take \
             it back with `highwater edge-logs revert {}`",
            self.id
        ));
        summary
    }
}

impl Lander<'_> {
    /// Names the import, unless it is named already. One that is brought again while it is being taken back isn't any more.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let (id, summary) = (self.origin.import_id.to_string(), self.summary.coming_in());
        let row = side::edge_file(&self.origin, &summary, None, UtcMicros::now())
            .map_err(|source| SettleError::Rows { table: Table::EdgeFiles, source })?;
        let table = &mut self.side.edge_files;
        let mut add = Vec::new();
        for _ in 0..TRIES {
            table.refresh().await?;
            let stored = table.txn(&self.txn);
            let mut room = Change::default();
            // one that was never told of has no row
            if stored.is_some() {
                match row_of(table, &id).await? {
                    None => {}
                    Some(import) if import.summary.is_going() => room = side::room_for(table, "id", &id).await?,
                    Some(_) => return Ok(()),
                }
            }
            if add.is_empty() {
                add = table.write(&row).await?;
            }
            let change = Change {
                add: [add.clone(), room.add].concat(),
                remove: room.remove,
                txns: vec![(self.txn.clone(), 0)],
                expect: vec![(self.txn.clone(), stored)],
                ..Change::default()
            };
            match table.commit(change).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Failed(source)) => return Err(source.into()),
                Err(_) => {}
            }
        }
        Err(SettleError::Busy { tries: TRIES }.into())
    }

    /// Why chunks that were there are there no longer: an import was taken back, and this one is decided anew for it; or it
    /// is this one.
    pub(super) async fn set_back(&mut self) -> Failure {
        let edge_files = &mut self.side.edge_files;
        let looked = async {
            edge_files.refresh().await?;
            row_of(edge_files, &self.origin.import_id).await
        };
        match looked.await {
            Ok(Some(import)) if import.summary.is_going() => Failure::TakenBack(import.summary.id),
            Ok(_) => Failure::BeginAnew,
            Err(error) => error.into(),
        }
    }
}
