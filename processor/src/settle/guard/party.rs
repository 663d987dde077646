//! Whose lines are judged together.
//!
//! ```text
//! provider, hour ──┬── the operator's own:  `nginx`       lines of the operator's logs, of all workspaces but those below
//!                  └── one tenant's:        `nginx/acme`  lines of the tenant's uploads; and of the operator's logs, where
//!                                                         the tenant has told of events of that provider's requests
//! ```
//! What a tenant brings, lines or events, decides about its own lines alone: it may hold them or have them counted twice,
//! to its own harm. Which of the two a row is follows from the lake, so that everybody comes to the same.

use std::borrow::Cow;

use schemas::link::DEFAULT_WORKSPACE;

use crate::lake::TableHandle;
use crate::settle::elsewhere::{self, Elsewhere};

/// Whose lines of a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Party {
    pub(super) provider: String,
    /// None: the operator's own.
    pub(super) tenant: Option<String>,
}

/// The text by which `arrivals` knows a provider's lines that a tenant has uploaded; without one, an operator has brought
/// them. Neither name has the sign between them.
pub(crate) fn brought_by<'a>(provider: &'a str, tenant: Option<&str>) -> Cow<'a, str> {
    tenant.map_or(Cow::Borrowed(provider), |tenant| Cow::Owned(format!("{provider}/{tenant}")))
}

/// The tenant that has uploaded a log for the links of `workspace` alone. Workspace `default` is the operator's own, also
/// where nobody else is.
pub(crate) fn tenant_of(workspace: Option<&str>) -> Option<&str> {
    workspace.filter(|workspace| *workspace != DEFAULT_WORKSPACE)
}

impl Party {
    /// Of what is written by its name, or by [`brought_by`].
    pub(super) fn named(name: &str) -> Self {
        let (provider, tenant) =
            name.split_once('/').map_or((name, None), |(provider, tenant)| (provider, Some(tenant)));
        Self { provider: provider.to_owned(), tenant: tenant.map(str::to_owned) }
    }

    /// Of lines of an hour that were `brought` so, and are of links of `workspace`.
    pub(super) fn of(tables: (&TableHandle, &TableHandle), brought: &str, workspace: &str, hour: i64) -> Self {
        let party = Self::named(brought);
        if party.tenant.is_none() && elsewhere::has_told(tables, &party.provider, workspace, hour) {
            return Self { tenant: Some(workspace.to_owned()), ..party };
        }
        party
    }

    /// As transactions, status and summaries have it.
    pub(super) fn name(&self) -> Cow<'_, str> {
        brought_by(&self.provider, self.tenant.as_deref())
    }

    /// Whether lines of an hour are its own.
    pub(super) fn has(&self, told: &Elsewhere, is_uploaded: bool, workspace: &str, hour: i64) -> bool {
        match &self.tenant {
            None => !is_uploaded && !told.has_told(workspace, hour),
            Some(tenant) => tenant == workspace && (is_uploaded || told.has_told(workspace, hour)),
        }
    }

    /// Whether lines of an hour tell it something: its own, and of a tenant's also those in the operator's logs.
    pub(super) fn sees(&self, told: &Elsewhere, is_uploaded: bool, workspace: &str, hour: i64) -> bool {
        match &self.tenant {
            None => !is_uploaded && !told.has_told(workspace, hour),
            Some(tenant) => tenant == workspace,
        }
    }

    /// Whether lines without a link may be of this workspace's party.
    pub(super) fn has_unlinked(&self) -> bool {
        self.tenant.as_deref() == Some(DEFAULT_WORKSPACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::UtcMicros;
    use schemas::time::HOUR;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for name in ["nginx", "nginx/acme", "nginx/a.b-c_D"] {
            assert_eq!(Party::named(name).name(), name);
        }
        assert_eq!(Party::named("nginx/acme").tenant.as_deref(), Some("acme"));
        assert_eq!(brought_by("nginx", tenant_of(Some("acme"))), "nginx/acme");
        assert_eq!(brought_by("nginx", tenant_of(Some("default"))), "nginx", "nobody else is there as a rule");
    }

    #[test]
    fn lines_are_of_one_party_each() {
        let told: Elsewhere = [("teller".to_owned(), UtcMicros(10 * HOUR))].into_iter().collect();
        let parties: Vec<Party> = ["nginx", "nginx/teller", "nginx/quiet"].map(Party::named).into();
        for (is_uploaded, workspace, hour, party) in [
            (false, "quiet", 10, "nginx"),
            (true, "quiet", 10, "nginx/quiet"),
            (false, "teller", 10, "nginx/teller"),
            (false, "teller", 8, "nginx"),
            (true, "teller", 8, "nginx/teller"),
        ] {
            let of: Vec<_> = parties.iter().filter(|one| one.has(&told, is_uploaded, workspace, hour)).collect();
            assert_eq!(of.iter().map(|one| one.name()).collect::<Vec<_>>(), [party], "{workspace} {hour}");
            assert!(of[0].sees(&told, is_uploaded, workspace, hour));
        }
        assert!(!parties[0].sees(&told, true, "quiet", 10) && parties[2].sees(&told, false, "quiet", 10));
    }
}
