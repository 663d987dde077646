//! Changing links. What a change makes of a link is decided by a pure function ([`apply`]); the store writes it, with
//! its revision, in one transaction.

use schemas::{Analytics, Link, LinkStatus, UtcMicros};

use super::create::tags_text;
use super::db::Tx;
use super::error::{Doing, FieldError, LinkError};
use super::read::find;
use super::{Domains, LinkStore, Which, check};

/// New values of a link's fields; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Where it leads.
    pub destination: Option<String>,
    /// What it promises about its clicks.
    pub analytics: Option<Analytics>,
    /// A name for people; `Some(None)` removes it.
    pub title: Option<Option<String>>,
    /// Free labels.
    pub tags: Option<Vec<String>>,
}

/// A change of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// New values.
    Edit(Edit),
    /// Taken down, for a reason that visitors are told.
    Disable {
        /// Why.
        reason: String,
    },
    /// Back from a takedown.
    Enable,
    /// Gone for good, its code never given out again.
    Delete,
}

impl Change {
    /// Whether it must be in force within a limit, whatever else fails (promise P8).
    fn is_takedown(&self) -> bool {
        matches!(self, Self::Disable { .. } | Self::Delete)
    }
}

impl LinkStore {
    /// Changes a link and returns it as it now is. A change that changes nothing makes no revision.
    ///
    /// # Errors
    /// [`LinkError::Invalid`] names every field at fault; [`LinkError::NotFound`]; [`LinkError::Deleted`] when it is
    /// a tombstone (deleting one again is no error); [`LinkError::Database`] when the database fails;
    /// [`LinkError::DiskFull`], for a takedown only when the space held for it is used up too.
    pub async fn change(&self, which: &Which, change: &Change, now: UtcMicros) -> Result<Link, LinkError> {
        loop {
            match self.change_once(which, change, now).await {
                Err(error) if error.is_disk_full() && change.is_takedown() && self.pools.make_room().await => {}
                changed => return changed,
            }
        }
    }

    async fn change_once(&self, which: &Which, change: &Change, now: UtcMicros) -> Result<Link, LinkError> {
        const DOING: &str = "changing a link";
        let mut tx = self.pools.write().await.doing(DOING)?;
        let before = find(&mut tx, which, &self.domains).await?;
        let after = apply(&before, change, &self.domains)?;
        if after == before {
            return Ok(after);
        }
        // Clocks go back, and other nodes have others: a revision never comes into force before the one it follows.
        let last: i64 = tx
            .query("SELECT MAX(effective_at) FROM link_revisions WHERE link_id = $1")
            .bind(after.id.to_string())
            .one()
            .await
            .doing(DOING)?;
        update(&mut tx, &after).await?;
        insert_revision(&mut tx, &after, now.max(UtcMicros(last))).await?;
        self.commit(tx, &after).await?;
        Ok(after)
    }
}

/// The link after the change; equal to `before` when there is nothing to change.
fn apply(before: &Link, change: &Change, domains: &Domains) -> Result<Link, LinkError> {
    let mut after = before.clone();
    if before.status == LinkStatus::Deleted {
        return match change {
            Change::Delete => Ok(after),
            _ => Err(LinkError::Deleted { domain: after.domain, code: after.code }),
        };
    }
    match change {
        Change::Edit(edit) => apply_edit(&mut after, edit, domains)?,
        Change::Disable { reason } => {
            after.status = LinkStatus::Disabled;
            after.reason = Some(check::reason(reason).map_err(|message| LinkError::field("reason", message))?);
        }
        Change::Enable => (after.status, after.reason) = (LinkStatus::Active, None),
        Change::Delete => (after.status, after.reason) = (LinkStatus::Deleted, None),
    }
    if after != *before {
        after.revision += 1;
    }
    Ok(after)
}

fn apply_edit(link: &mut Link, edit: &Edit, domains: &Domains) -> Result<(), LinkError> {
    let mut errors = Vec::new();
    let mut wrong = |field: &str, message: String| errors.push(FieldError::new(field, message));
    if let Some(given) = &edit.destination {
        match check::destination(given, domains) {
            // Where it was checked last says nothing about the new destination.
            Ok(destination) if destination != link.destination => {
                (link.destination, link.checked_at) = (destination, None);
            }
            Ok(_) => {}
            Err(message) => wrong("destination", message),
        }
    }
    if let Some(given) = &edit.title {
        match given.as_deref().map(check::title).transpose() {
            Ok(title) => link.title = title.flatten(),
            Err(message) => wrong("title", message),
        }
    }
    if let Some(given) = &edit.tags {
        match check::tags(given) {
            Ok(tags) => link.tags = tags,
            Err(message) => wrong("tags", message),
        }
    }
    if let Some(analytics) = edit.analytics {
        link.analytics = analytics;
    }
    if errors.is_empty() { Ok(()) } else { Err(LinkError::Invalid(errors)) }
}

async fn update(tx: &mut Tx, link: &Link) -> Result<(), LinkError> {
    const SQL: &str = "UPDATE links SET destination = $2, analytics = $3, status = $4, reason = $5, checked_at = $6,
                              revision = $7, title = $8, tags = $9
                       WHERE id = $1";
    tx.query(SQL)
        .bind(link.id.to_string())
        .bind(&link.destination)
        .bind(link.analytics.as_str())
        .bind(link.status.as_str())
        .bind(&link.reason)
        .bind(link.checked_at.map(|at| at.0))
        .bind(link.revision)
        .bind(&link.title)
        .bind(tags_text(&link.tags))
        .run()
        .await
        .map(drop)
        .doing("changing a link")
}

/// Writes down what of the link is in force from `effective_at` on.
pub(super) async fn insert_revision(tx: &mut Tx, link: &Link, effective_at: UtcMicros) -> Result<(), LinkError> {
    const SQL: &str = "INSERT INTO link_revisions (link_id, revision, effective_at, destination, analytics, status)
                       VALUES ($1, $2, $3, $4, $5, $6)";
    tx.query(SQL)
        .bind(link.id.to_string())
        .bind(link.revision)
        .bind(effective_at.0)
        .bind(&link.destination)
        .bind(link.analytics.as_str())
        .bind(link.status.as_str())
        .run()
        .await
        .map(drop)
        .doing("writing a revision")
}

#[cfg(test)]
mod tests;
