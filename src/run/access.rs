//! The link store's tokens, as the query service asks for them.

use async_trait::async_trait;
use query::AccessError;
use redirect::links::LinkStore;
use schemas::Principal;

/// Tokens of the link store.
#[derive(Clone, Debug)]
pub(crate) struct Tokens(pub(crate) LinkStore);

#[async_trait]
impl query::Access for Tokens {
    async fn authenticate(&self, token: &str) -> Result<Option<Principal>, AccessError> {
        self.0.authenticate(token).await.map_err(|error| AccessError(error.to_string()))
    }
}
