//! The link store's tokens, as the query service asks for them.

use async_trait::async_trait;
use redirect::links::LinkStore;
use schemas::Principal;

/// Tokens of the link store.
#[derive(Clone, Debug)]
pub(crate) struct Tokens(pub(crate) LinkStore);

#[async_trait]
impl query::Access for Tokens {
    async fn authenticate(&self, token: &str) -> Option<Principal> {
        match self.0.authenticate(token).await {
            Ok(principal) => principal,
            Err(error) => {
                // a token that can't be checked is not accepted
                tracing::error!(%error, "a token could not be checked");
                None
            }
        }
    }
}
