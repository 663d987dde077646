//! Workspaces, and the tokens that open them.

use std::fmt;

use super::db::{Row, Run};
use super::error::{Doing, LinkError};
use super::read::parsed;
use super::{LinkStore, check};
use rand::TryRngCore;
use rand::rngs::OsRng;
use schemas::link::DEFAULT_WORKSPACE;
use schemas::{Principal, Scope, UtcMicros};
use sha2::{Digest, Sha256};

/// What every token begins with, so that people and secret scanners know one when they see it.
const PREFIX: &str = "hw_";
/// Random bytes of a token.
const SECRET_BYTES: usize = 32;

/// A token just made. It is shown once: the store keeps only its SHA-256.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The token as a client sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What the store knows of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    /// Names it in lists: the beginning of its hash, from which the token can't be found.
    pub id: String,
    /// Whose it is; none: an operator's.
    pub workspace: Option<String>,
    /// What it may do.
    pub scope: Scope,
    /// When it was made.
    pub created_at: UtcMicros,
}

impl LinkStore {
    /// Adds a workspace.
    ///
    /// # Errors
    /// [`LinkError::Invalid`] when it can't be a name, [`LinkError::WorkspaceExists`], [`LinkError::Database`].
    pub async fn add_workspace(&self, name: &str, now: UtcMicros) -> Result<(), LinkError> {
        const SQL: &str = "INSERT INTO workspaces (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        const DOING: &str = "adding a workspace";
        check::workspace(name).map_err(|message| LinkError::field("name", message))?;
        let mut tx = self.pools.write().await.doing(DOING)?;
        let added = tx.query(SQL).bind(name).bind(now.0).run().await.doing(DOING)?;
        tx.commit().await.doing(DOING)?;
        if added == 0 { Err(LinkError::WorkspaceExists(name.to_owned())) } else { Ok(()) }
    }

    /// The names of all workspaces, in order.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn workspaces(&self) -> Result<Vec<String>, LinkError> {
        let names = self.pools.query("SELECT name FROM workspaces ORDER BY name").values().await;
        names.doing("listing workspaces")
    }

    /// Checks that there is a workspace of this name.
    ///
    /// # Errors
    /// [`LinkError::UnknownWorkspace`] when there is none, [`LinkError::Database`].
    pub async fn require_workspace(&self, name: &str) -> Result<(), LinkError> {
        match workspace_exists(&*self.pools, name).await? {
            true => Ok(()),
            false => Err(LinkError::UnknownWorkspace(name.to_owned())),
        }
    }

    /// Makes a token for a workspace.
    ///
    /// # Errors
    /// [`LinkError::UnknownWorkspace`], [`LinkError::Random`], [`LinkError::Database`].
    pub async fn add_token(&self, workspace: &str, scope: Scope, now: UtcMicros) -> Result<Token, LinkError> {
        self.insert_token(Some(workspace), scope, now).await
    }

    /// Makes an operator's token: it belongs to no workspace and sees all.
    ///
    /// # Errors
    /// [`LinkError::Random`], [`LinkError::Database`].
    pub async fn add_operator_token(&self, now: UtcMicros) -> Result<Token, LinkError> {
        self.insert_token(None, Scope::Admin, now).await
    }

    async fn insert_token(&self, workspace: Option<&str>, scope: Scope, now: UtcMicros) -> Result<Token, LinkError> {
        const SQL: &str = "INSERT INTO tokens (sha256, workspace, scope, created_at) VALUES ($1, $2, $3, $4)";
        const DOING: &str = "adding a token";
        let mut secret = [0; SECRET_BYTES];
        OsRng.try_fill_bytes(&mut secret)?;
        let token = Token(secret.iter().fold(PREFIX.to_owned(), |token, byte| format!("{token}{byte:02x}")));
        let mut tx = self.pools.write().await.doing(DOING)?;
        if let Some(name) = workspace
            && !workspace_exists(&mut tx, name).await?
        {
            return Err(LinkError::UnknownWorkspace(name.to_owned()));
        }
        tx.query(SQL)
            .bind(digest(token.reveal()))
            .bind(workspace)
            .bind(scope.as_str())
            .bind(now.0)
            .run()
            .await
            .doing(DOING)?;
        tx.commit().await.doing(DOING)?;
        Ok(token)
    }

    /// All tokens, by when they were made.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn tokens(&self) -> Result<Vec<TokenInfo>, LinkError> {
        const SQL: &str = "SELECT sha256, workspace, scope, created_at FROM tokens ORDER BY created_at, sha256";
        const DOING: &str = "listing tokens";
        let rows = self.pools.query(SQL).rows().await.doing(DOING)?;
        let info = |row: &Row| {
            let Principal { workspace, scope } = principal(row)?;
            Ok(TokenInfo {
                id: id_of(row.get("sha256")?),
                workspace,
                scope,
                created_at: UtcMicros(row.get("created_at")?),
            })
        };
        rows.iter().map(info).collect::<Result<_, sqlx::Error>>().doing(DOING)
    }

    /// Takes a token back: from now on nobody comes with it. Returns whether there was one with this id.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, LinkError> {
        const DOING: &str = "revoking a token";
        let mut tx = self.pools.write().await.doing(DOING)?;
        let tokens: Vec<Vec<u8>> = tx.query("SELECT sha256 FROM tokens").values().await.doing(DOING)?;
        let mut deleted = 0;
        for token in tokens.iter().filter(|token| id_of(token) == id) {
            deleted += tx.query("DELETE FROM tokens WHERE sha256 = $1").bind(&token[..]).run().await.doing(DOING)?;
        }
        tx.commit().await.doing(DOING)?;
        Ok(deleted > 0)
    }

    /// Who comes with this token; `None` when it is none of ours.
    ///
    /// It is looked up by its hash, so the time this takes says nothing about how much of a guess was right.
    ///
    /// # Errors
    /// [`LinkError::Database`] when the database fails.
    pub async fn authenticate(&self, token: &str) -> Result<Option<Principal>, LinkError> {
        const SQL: &str = "SELECT workspace, scope FROM tokens WHERE sha256 = $1";
        const DOING: &str = "checking a token";
        if !token.starts_with(PREFIX) || token.len() != PREFIX.len() + 2 * SECRET_BYTES {
            return Ok(None);
        }
        let row = self.pools.query(SQL).bind(digest(token)).row().await.doing(DOING)?;
        row.as_ref().map(principal).transpose().doing(DOING)
    }
}

/// Whether there is a workspace of this name, in a transaction or out of one.
pub(super) async fn workspace_exists(on: impl Run<'_>, name: &str) -> Result<bool, LinkError> {
    if name == DEFAULT_WORKSPACE {
        return Ok(true);
    }
    let row = on.statement("SELECT 1 FROM workspaces WHERE name = $1").bind(name).row().await;
    row.map(|row| row.is_some()).doing("reading a workspace")
}

fn principal(row: &Row) -> Result<Principal, sqlx::Error> {
    Ok(Principal { workspace: row.get("workspace")?, scope: parsed(row, "scope")? })
}

/// What names a token in lists, of its hash.
fn id_of(sha256: &[u8]) -> String {
    sha256.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn digest(token: &str) -> Vec<u8> {
    Sha256::digest(token).to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Place, on_each_database, store};
    use super::*;

    const NOW: UtcMicros = UtcMicros(1_773_480_413_123_456);

    on_each_database!(
        a_token_says_who_comes_in_every_process,
        a_token_taken_back_is_nobodys_and_others_stay,
        anything_else_is_nobody,
        workspaces_are_added_once_and_the_default_is_there,
    );

    async fn a_token_says_who_comes_in_every_process(place: Place) {
        let store = place.store().await;
        store.add_workspace("acme", NOW).await.unwrap();
        let write = store.add_token("acme", Scope::Write, NOW).await.unwrap();
        let operator = store.add_operator_token(NOW).await.unwrap();
        let other = place.store().await;
        let principal =
            |workspace: Option<&str>, scope| Some(Principal { workspace: workspace.map(Into::into), scope });
        assert_eq!(other.authenticate(write.reveal()).await.unwrap(), principal(Some("acme"), Scope::Write));
        assert_eq!(other.authenticate(operator.reveal()).await.unwrap(), principal(None, Scope::Admin));
    }

    async fn a_token_taken_back_is_nobodys_and_others_stay(place: Place) {
        let store = place.store().await;
        let kept = store.add_operator_token(NOW).await.unwrap();
        let token = store.add_token("default", Scope::Read, UtcMicros(NOW.0 + 1)).await.unwrap();
        let listed = store.tokens().await.unwrap();
        let of: Vec<_> = listed.iter().map(|info| (info.workspace.as_deref(), info.scope, info.created_at)).collect();
        assert_eq!(of, [(None, Scope::Admin, NOW), (Some("default"), Scope::Read, UtcMicros(NOW.0 + 1))]);
        assert!(!store.revoke_token("0123456789abcdef").await.unwrap() && !store.revoke_token("").await.unwrap());
        assert!(store.revoke_token(&listed[1].id).await.unwrap());
        assert_eq!(store.authenticate(token.reveal()).await.unwrap(), None);
        assert!(store.authenticate(kept.reveal()).await.unwrap().is_some());
        assert_eq!(store.tokens().await.unwrap(), listed[..1]);
    }

    async fn anything_else_is_nobody(place: Place) {
        let store = place.store().await;
        let token = store.add_token("default", Scope::Read, NOW).await.unwrap();
        assert!(token.reveal().starts_with("hw_"), "{}", token.reveal());
        assert_ne!(token, store.add_token("default", Scope::Read, NOW).await.unwrap());
        let (upper, cut) = (token.reveal().to_uppercase(), &token.reveal()[..token.reveal().len() - 1]);
        let zero = format!("hw_{}", "0".repeat(64));
        for stranger in ["", "hw_", upper.as_str(), cut, zero.as_str(), &"x".repeat(1 << 16)] {
            assert_eq!(store.authenticate(stranger).await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn the_store_holds_no_token() {
        let (dir, store) = store().await;
        let token = store.add_token("default", Scope::Read, NOW).await.unwrap();
        let secret = &token.reveal()[PREFIX.len()..];
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(secret));
        }
        assert!(!format!("{token:?}").contains(secret));
    }

    async fn workspaces_are_added_once_and_the_default_is_there(place: Place) {
        let store = place.store().await;
        assert!(matches!(store.add_workspace(DEFAULT_WORKSPACE, NOW).await, Err(LinkError::WorkspaceExists(_))));
        store.add_workspace("acme", NOW).await.unwrap();
        assert!(matches!(store.add_workspace("acme", NOW).await, Err(LinkError::WorkspaceExists(_))));
        assert!(matches!(store.add_workspace("a b", NOW).await, Err(LinkError::Invalid(_))));
        store.require_workspace("acme").await.unwrap();
        assert_eq!(store.workspaces().await.unwrap(), ["acme", DEFAULT_WORKSPACE]);
        assert!(matches!(store.require_workspace("other").await, Err(LinkError::UnknownWorkspace(_))));
        let refused = store.add_token("other", Scope::Read, NOW).await;
        assert!(matches!(refused, Err(LinkError::UnknownWorkspace(_))));
    }
}
