//! Reading links: one, a page of them, and what a redirect needs.

use std::sync::Arc;

use schemas::{Analytics, Link, LinkId, LinkStatus, UtcMicros};

use super::db::{Row, Run};
use super::domains::{normalise, short_url};
use super::error::{Doing, LinkError};
use super::{Domains, LinkStore};

/// The columns of a link, as [`link`] reads them.
macro_rules! link_columns {
    () => {
        "id, workspace, domain, code, destination, analytics, status, reason, checked_at, revision, created_at, \
         title, tags"
    };
}

/// What a redirect needs to know of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Immutable identity.
    pub link_id: LinkId,
    /// The tenant.
    pub workspace: Arc<str>,
    /// The revision in force.
    pub revision: i32,
    /// Where it leads: a URL in normal form, ASCII only.
    pub destination: Arc<str>,
    /// What it promises about its clicks.
    pub analytics: Analytics,
    /// Whether it redirects.
    pub status: LinkStatus,
    /// Why it was disabled.
    pub reason: Option<Arc<str>>,
}

/// Which link is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// The tenant whose links are looked at; `None` (an operator) looks at all. Another tenant's link is not found.
    pub workspace: Option<String>,
    /// The host name. Without it the link on the default domain is meant, else the only one with this code.
    pub domain: Option<String>,
    /// The code.
    pub code: String,
}

/// Which links to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListLinks {
    /// The tenant whose links are listed; `None` (an operator) lists all.
    pub workspace: Option<String>,
    /// Only links of this status; `None` lists all but tombstones.
    pub status: Option<LinkStatus>,
    /// Continue behind this link, the last of the page before.
    pub after: Option<LinkId>,
    /// The most links to return.
    pub limit: u32,
}

/// A page of links, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The links.
    pub links: Vec<Link>,
    /// Where the next page continues; `None` on the last.
    pub next: Option<LinkId>,
}

impl LinkStore {
    /// What a redirect for `code` on `domain` (as stored: see [`Domains::resolve`]) needs; `None` when there is no
    /// such link. Tombstones are found.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn lookup(&self, domain: &str, code: &str) -> Result<Option<Target>, LinkError> {
        const SQL: &str = "SELECT id, workspace, revision, destination, analytics, status, reason
                           FROM links WHERE domain = $1 AND code = $2";
        let row = self.pools.query(SQL).bind(domain).bind(code).row().await;
        row.and_then(|row| row.as_ref().map(target).transpose()).doing("looking up a link")
    }

    /// One link, tombstones too.
    ///
    /// # Errors
    /// [`LinkError::NotFound`]; [`LinkError::Invalid`] when no domain was named and several have the code;
    /// [`LinkError::Database`] when the database fails.
    pub async fn get(&self, which: &Which) -> Result<Link, LinkError> {
        find(&*self.pools, which, &self.domains).await
    }

    /// Domains of links that aren't among those configured: their links answer 404.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn unserved_domains(&self) -> Result<Vec<String>, LinkError> {
        // from domain to domain along the index, however many links there are
        const SQL: &str = "WITH RECURSIVE d (domain) AS (SELECT min(domain) FROM links UNION ALL
                           SELECT (SELECT min(domain) FROM links WHERE links.domain > d.domain) FROM d
                           WHERE d.domain IS NOT NULL) SELECT domain FROM d WHERE domain IS NOT NULL";
        let rows = self.pools.query(SQL).values().await.doing("listing the links' domains")?;
        Ok(rows.into_iter().filter(|domain: &String| !self.domains.names().any(|name| name == domain)).collect())
    }

    /// A page of links, newest first.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn list(&self, list: &ListLinks) -> Result<Page, LinkError> {
        let mut query = self.pools.query(concat!("SELECT ", link_columns!(), " FROM links WHERE status "));
        query = match list.status {
            Some(status) => query.push("= ").push_bind(status.as_str()),
            None => query.push("<> ").push_bind(LinkStatus::Deleted.as_str()),
        };
        if let Some(workspace) = &list.workspace {
            query = query.push(" AND workspace = ").push_bind(workspace);
        }
        if let Some(after) = list.after {
            query = query.push(" AND id < ").push_bind(after.to_string());
        }
        let limit = list.limit as usize;
        query = query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(list.limit) + 1);
        let rows = query.rows().await.doing("listing links")?;
        let links: Result<Vec<Link>, _> = rows.iter().take(limit).map(link).collect();
        let links = links.doing("listing links")?;
        let next = links.last().filter(|_| rows.len() > limit).map(|link| link.id);
        Ok(Page { links, next })
    }
}

/// Finds the link that is meant, in a transaction or out of one.
pub(super) async fn find(on: impl Run<'_>, which: &Which, domains: &Domains) -> Result<Link, LinkError> {
    let domain = which.domain.as_deref().map(|domain| stored_domain(domain, domains));
    let mut query =
        on.statement(concat!("SELECT ", link_columns!(), " FROM links WHERE code = ")).push_bind(&which.code);
    if let Some(domain) = &domain {
        query = query.push(" AND domain = ").push_bind(domain);
    }
    if let Some(workspace) = &which.workspace {
        query = query.push(" AND workspace = ").push_bind(workspace);
    }
    let rows = query.rows().await.doing("reading a link")?;
    let found: Result<Vec<Link>, _> = rows.iter().map(link).collect();
    let mut found = found.doing("reading a link")?;
    if let Some(at) = found.iter().position(|link| link.domain == domains.first()) {
        return Ok(found.swap_remove(at));
    }
    match found.len() {
        0 => Err(LinkError::NotFound { domain, code: which.code.clone() }),
        1 => Ok(found.swap_remove(0)),
        _ => Err(LinkError::field("domain", "several domains have a link with this code; name one of them")),
    }
}

/// The domain that a link stands under when someone writes `given`.
pub(super) fn stored_domain(given: &str, domains: &Domains) -> String {
    match domains.resolve(given) {
        Some(served) => served.to_owned(),
        // Not served (any more), but links of it may be there.
        None => normalise(given).unwrap_or_else(|| given.to_owned()),
    }
}

fn target(row: &Row) -> Result<Target, sqlx::Error> {
    Ok(Target {
        link_id: parsed(row, "id")?,
        workspace: row.get::<&str>("workspace")?.into(),
        revision: row.get("revision")?,
        destination: row.get::<&str>("destination")?.into(),
        analytics: parsed(row, "analytics")?,
        status: parsed(row, "status")?,
        reason: row.get::<Option<&str>>("reason")?.map(Arc::from),
    })
}

/// A row of [`link_columns`] as a link.
pub(super) fn link(row: &Row) -> Result<Link, sqlx::Error> {
    let (domain, code): (String, String) = (row.get("domain")?, row.get("code")?);
    let tags = serde_json::from_str(row.get("tags")?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(Link {
        id: parsed(row, "id")?,
        workspace: row.get("workspace")?,
        short_url: short_url(&domain, &code),
        domain,
        code,
        destination: row.get("destination")?,
        analytics: parsed(row, "analytics")?,
        status: parsed(row, "status")?,
        reason: row.get("reason")?,
        checked_at: row.get::<Option<i64>>("checked_at")?.map(UtcMicros),
        revision: row.get("revision")?,
        created_at: UtcMicros(row.get("created_at")?),
        title: row.get("title")?,
        tags,
    })
}

/// A text column as the type whose words it holds.
pub(super) fn parsed<T>(row: &Row, column: &str) -> Result<T, sqlx::Error>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.get::<&str>(column)?.parse().map_err(|error: T::Err| sqlx::Error::Decode(error.into()))
}

#[cfg(test)]
mod tests;
