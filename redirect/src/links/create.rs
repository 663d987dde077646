//! Creating links.

use rand::Rng;
use rand::distr::Alphanumeric;
use schemas::link::DEFAULT_WORKSPACE;
use schemas::{Analytics, Link, LinkId, LinkStatus, UtcMicros};

use super::access::workspace_exists;
use super::change::insert_revision;
use super::error::{Doing, FieldError, LinkError};
use super::{Domains, LinkStore, check, short_url};

/// Characters of a generated code: 62^7 codes, from a cryptographic source, so none can be guessed from others.
const GENERATED_CHARS: usize = 7;
/// How many generated codes may be taken before it is given up. At a billion links one in 3,500 is.
const GENERATED_TRIES: usize = 8;

/// A link to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    /// The tenant it will belong to.
    pub workspace: String,
    /// Where it leads.
    pub destination: String,
    /// Its code; one is generated when `None`.
    pub code: Option<String>,
    /// One of the domains served; the first when `None`.
    pub domain: Option<String>,
    /// What it promises about its clicks.
    pub analytics: Analytics,
    /// A name for people.
    pub title: Option<String>,
    /// Free labels.
    pub tags: Vec<String>,
}

impl NewLink {
    /// A link of the default workspace to `destination`, `billed`, with a generated code.
    pub fn to(destination: impl Into<String>) -> Self {
        Self {
            workspace: DEFAULT_WORKSPACE.to_owned(),
            destination: destination.into(),
            code: None,
            domain: None,
            analytics: Analytics::Billed,
            title: None,
            tags: Vec::new(),
        }
    }
}

impl LinkStore {
    /// Makes a link.
    ///
    /// # Errors
    /// [`LinkError::Invalid`] names every field at fault; [`LinkError::Taken`] when the code was ever given out, by
    /// any tenant; [`LinkError::UnknownWorkspace`]; [`LinkError::Database`] when the database fails.
    pub async fn create(&self, new: NewLink, now: UtcMicros) -> Result<Link, LinkError> {
        let given = new.code.is_some();
        let mut link = draft(new, &self.domains, now)?;
        for _ in 0..GENERATED_TRIES {
            if !given {
                link.code = rand::rng().sample_iter(Alphanumeric).take(GENERATED_CHARS).map(char::from).collect();
            }
            if self.insert(&link).await? {
                link.short_url = short_url(&link.domain, &link.code);
                return Ok(link);
            }
            if given {
                break;
            }
        }
        Err(LinkError::Taken { domain: link.domain, code: link.code })
    }

    /// Inserts the link with its first revision; false when the code is taken.
    async fn insert(&self, link: &Link) -> Result<bool, LinkError> {
        const SQL: &str = "INSERT INTO links (id, workspace, domain, code, destination, analytics, status, revision,
                                              created_at, title, tags)
                           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
                           ON CONFLICT (domain, code) DO NOTHING";
        const DOING: &str = "creating a link";
        let mut tx = self.pools.write().await.doing(DOING)?;
        if !workspace_exists(&mut tx, &link.workspace).await? {
            return Err(LinkError::UnknownWorkspace(link.workspace.clone()));
        }
        let inserted = tx
            .query(SQL)
            .bind(link.id.to_string())
            .bind(&link.workspace)
            .bind(&link.domain)
            .bind(&link.code)
            .bind(&link.destination)
            .bind(link.analytics.as_str())
            .bind(link.status.as_str())
            .bind(link.revision)
            .bind(link.created_at.0)
            .bind(&link.title)
            .bind(tags_text(&link.tags))
            .run()
            .await
            .doing(DOING)?;
        if inserted == 0 {
            return Ok(false);
        }
        insert_revision(&mut tx, link, link.created_at).await?;
        self.commit(tx, link).await?;
        Ok(true)
    }
}

/// Checks every field, so that whoever typed them is told of all that is wrong at once.
fn draft(new: NewLink, domains: &Domains, now: UtcMicros) -> Result<Link, LinkError> {
    let mut errors = Vec::new();
    let mut wrong = |field: &str, message: String| errors.push(FieldError::new(field, message));
    let destination = check::destination(&new.destination, domains)
        .map_err(|message| wrong("destination", message))
        .unwrap_or_default();
    if let Some(Err(message)) = new.code.as_deref().map(check::code) {
        wrong("code", message);
    }
    let domain = match new.domain.as_deref() {
        None => domains.first(),
        Some(given) => domains.resolve(given).unwrap_or_else(|| {
            let served: Vec<&str> = domains.names().collect();
            wrong("domain", format!("{given:?} is not served here; expected one of {}", served.join(", ")));
            ""
        }),
    };
    let title = new.title.as_deref().map(check::title).transpose();
    let title = title.map_err(|message| wrong("title", message)).unwrap_or_default().flatten();
    let tags = check::tags(&new.tags).map_err(|message| wrong("tags", message)).unwrap_or_default();
    if !errors.is_empty() {
        return Err(LinkError::Invalid(errors));
    }
    Ok(Link {
        id: LinkId::new(),
        workspace: new.workspace,
        domain: domain.to_owned(),
        code: new.code.unwrap_or_default(),
        short_url: String::new(),
        destination,
        analytics: new.analytics,
        status: LinkStatus::Active,
        reason: None,
        checked_at: None,
        revision: 1,
        created_at: now,
        title,
        tags,
    })
}

/// Tags as stored: a JSON array.
pub(super) fn tags_text(tags: &[String]) -> String {
    serde_json::Value::from(tags).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Place, on_each_database};
    use super::super::{Change, Changed, Which};
    use super::*;

    const NOW: UtcMicros = UtcMicros(1_773_480_413_123_456);

    on_each_database!(
        what_is_not_said_is_filled_in,
        what_is_said_is_kept,
        all_that_is_wrong_is_said_at_once,
        a_code_is_never_given_out_twice,
        a_workspace_must_be_there,
        of_two_who_want_one_code_one_gets_it,
        caches_of_the_process_are_told,
    );

    fn with_code(code: &str) -> NewLink {
        NewLink { code: Some(code.into()), ..NewLink::to("https://example.com/") }
    }

    async fn what_is_not_said_is_filled_in(place: Place) {
        let store = place.store().await;
        let link = store.create(NewLink::to("https://example.com"), NOW).await.unwrap();
        assert_eq!((link.workspace.as_str(), link.domain.as_str()), ("default", "sho.rt"));
        assert_eq!((link.analytics, link.status, link.revision), (Analytics::Billed, LinkStatus::Active, 1));
        assert_eq!((link.destination.as_str(), link.created_at), ("https://example.com/", NOW));
        assert_eq!(link.code.len(), 7);
        assert!(link.code.bytes().all(|b| b.is_ascii_alphanumeric()), "{}", link.code);
        assert_eq!(link.short_url, format!("https://sho.rt/{}", link.code));
    }

    async fn what_is_said_is_kept(place: Place) {
        let store = place.store().await;
        let new = NewLink {
            code: Some("née".into()),
            domain: Some("SECOND.example:443".into()),
            analytics: Analytics::Internal,
            title: Some(" T ".into()),
            tags: vec!["b".into(), "a, \"x\"".into(), "b".into()],
            ..NewLink::to("https://example.com/")
        };
        let link = store.create(new, NOW).await.unwrap();
        assert_eq!(link.short_url, "https://second.example/n%C3%A9e");
        assert_eq!(link.tags, ["b", "a, \"x\""]);
        assert_eq!(link.title.as_deref(), Some("T"));
        let which = Which { workspace: None, domain: Some("second.example".into()), code: "née".into() };
        assert_eq!(store.get(&which).await.unwrap(), link);
    }

    async fn all_that_is_wrong_is_said_at_once(place: Place) {
        let store = place.store().await;
        let new = NewLink {
            code: Some("a/b".into()),
            domain: Some("elsewhere.example".into()),
            title: Some("a\nb".into()),
            tags: vec![String::new()],
            ..NewLink::to("ftp://example.com/")
        };
        let LinkError::Invalid(errors) = store.create(new, NOW).await.unwrap_err() else { panic!("not invalid") };
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["destination", "code", "domain", "title", "tags"]);
        assert!(errors[2].message.contains("sho.rt, second.example"), "{}", errors[2]);
    }

    async fn a_code_is_never_given_out_twice(place: Place) {
        let store = place.store().await;
        let other = place.store().await;
        store.add_workspace("acme", NOW).await.unwrap();
        store.create(with_code("a"), NOW).await.unwrap();
        let again = NewLink { workspace: "acme".into(), ..with_code("a") };
        assert!(matches!(other.create(again.clone(), NOW).await, Err(LinkError::Taken { .. })));
        let which = Which { workspace: None, domain: None, code: "a".into() };
        store.change(&which, &Change::Delete, NOW).await.unwrap();
        assert!(matches!(other.create(again, NOW).await, Err(LinkError::Taken { .. })));
        // Another domain and another case are other links.
        other.create(NewLink { domain: Some("second.example".into()), ..with_code("a") }, NOW).await.unwrap();
        other.create(with_code("A"), NOW).await.unwrap();
    }

    async fn a_workspace_must_be_there(place: Place) {
        let store = place.store().await;
        let new = NewLink { workspace: "acme".into(), ..with_code("a") };
        assert!(matches!(store.create(new, NOW).await, Err(LinkError::UnknownWorkspace(name)) if name == "acme"));
    }

    async fn of_two_who_want_one_code_one_gets_it(place: Place) {
        let first = place.store().await;
        let second = place.store().await;
        for n in 0..20 {
            let code = n.to_string();
            let (a, b) = tokio::join!(first.create(with_code(&code), NOW), second.create(with_code(&code), NOW));
            assert_eq!(usize::from(a.is_ok()) + usize::from(b.is_ok()), 1, "{a:?} {b:?}");
            let refused = a.and(b).unwrap_err();
            assert!(matches!(refused, LinkError::Taken { .. }), "{refused}");
        }
    }

    async fn caches_of_the_process_are_told(place: Place) {
        let store = place.store().await;
        let mut changes = store.clone().changes();
        store.create(with_code("a"), NOW).await.unwrap();
        assert_eq!(changes.try_recv().unwrap(), Changed { domain: "sho.rt".into(), code: "a".into() });
        assert!(store.create(with_code("a"), NOW).await.is_err());
        assert!(changes.try_recv().is_err());
    }
}
