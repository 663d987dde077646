//! `[geo]`: where clients are.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[geo]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Geo {
    /// A geography database in MMDB format; empty: none.
    pub(crate) mmdb: PathBuf,
}
