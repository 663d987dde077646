//! `[geo]` and `[privacy]`: where clients are, and what is not to be known of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[geo]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Geo {
    /// A geography database in MMDB format; empty: none.
    pub(crate) mmdb: PathBuf,
}

/// `[privacy]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Privacy {
    /// Honour `Sec-GPC: 1`.
    pub(crate) gpc: bool,
    /// Honour `DNT: 1`.
    pub(crate) dnt: bool,
    /// Query parameters that are kept beside those of campaigns.
    pub(crate) query: Vec<String>,
}

impl Default for Privacy {
    fn default() -> Self {
        let schemas::privacy::Privacy { gpc, dnt, query } = schemas::privacy::Privacy::default();
        Self { gpc, dnt, query }
    }
}

impl Privacy {
    /// The rules that follow.
    pub(crate) fn rules(&self) -> schemas::privacy::Privacy {
        schemas::privacy::Privacy { gpc: self.gpc, dnt: self.dnt, query: self.query.clone() }
    }
}

/// What is wrong with `[privacy]`.
pub(super) fn problems(privacy: &Privacy) -> Vec<String> {
    let is_name =
        |name: &str| !name.is_empty() && !name.contains(['&', '=', '#', '?']) && !name.contains(char::is_whitespace);
    let wrong = privacy.query.iter().filter(|name| !is_name(name));
    let wrong =
        wrong.map(|name| format!("privacy.query: {name:?} is not the name of a query parameter, as a query has it"));
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_query_can_have() {
        let of = |name: &str| problems(&Privacy { query: vec![name.to_owned()], ..Privacy::default() });
        for name in ["ref", "a%20b", "x[]", "é"] {
            assert_eq!(of(name), Vec::<String>::new());
        }
        for name in ["", "a b", "ref=1", "?ref"] {
            assert!(of(name)[0].contains("privacy.query") && of(name)[0].contains(name), "{name}");
        }
    }
}
