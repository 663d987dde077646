//! Whose lines are judged together.
//!
//! ```text
//! provider, hour ──┬── the operator's own:  `nginx`       lines of the operator's logs, of all workspaces but those below
//!                  └── one tenant's:        `nginx/acme`  lines of the tenant's uploads; and of the operator's logs, where
//!                                                         the tenant has told of events of that hour's requests, before
//!                                                         anything stood of the operator's hour
//! ```
//! What a tenant brings, lines or events, decides about its own lines alone: it may hold them or have them counted twice,
//! to its own harm. Which of the two a row is follows from the lake, so that everybody comes to the same.

use std::borrow::Cow;

use schemas::link::DEFAULT_WORKSPACE;

use super::stands::Split;

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

    /// Of lines of an hour that were brought as this one's, and are of links of `workspace`.
    pub(super) fn of_lines(&self, split: &Split, workspace: &str, hour: i64) -> Self {
        let is_apart = self.tenant.is_none() && split.is_apart(workspace, hour);
        if is_apart { self.of_tenant(workspace) } else { self.clone() }
    }

    /// A tenant's, of the same provider.
    pub(super) fn of_tenant(&self, workspace: &str) -> Self {
        Self { provider: self.provider.clone(), tenant: Some(workspace.to_owned()) }
    }

    /// As transactions, status and summaries have it.
    pub(super) fn name(&self) -> Cow<'_, str> {
        brought_by(&self.provider, self.tenant.as_deref())
    }

    /// Whether lines of an hour are its own.
    pub(super) fn has(&self, split: &Split, is_uploaded: bool, workspace: &str, hour: i64) -> bool {
        match &self.tenant {
            None => !is_uploaded && !split.is_apart(workspace, hour),
            Some(tenant) => tenant == workspace && (is_uploaded || split.is_apart(workspace, hour)),
        }
    }

    /// Whether lines of an hour tell it something: its own, and of a tenant's also those in the operator's logs.
    pub(super) fn sees(&self, split: &Split, is_uploaded: bool, workspace: &str, hour: i64) -> bool {
        match &self.tenant {
            None => !is_uploaded && !split.is_apart(workspace, hour),
            Some(tenant) => tenant == workspace,
        }
    }

    /// Whether lines without a link may be of this party.
    pub(super) fn may_have_unlinked(&self) -> bool {
        self.tenant.as_deref().is_none_or(|tenant| tenant == DEFAULT_WORKSPACE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stands::tests::split_of;
    use super::*;
    use crate::settle::elsewhere::Elsewhere;
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
        let split = split_of(told, &[]);
        let parties: Vec<Party> = ["nginx", "nginx/teller", "nginx/quiet"].map(Party::named).into();
        for (is_uploaded, workspace, hour, party) in [
            (false, "quiet", 10, "nginx"),
            (true, "quiet", 10, "nginx/quiet"),
            (false, "teller", 10, "nginx/teller"),
            (false, "teller", 8, "nginx"),
            (false, "teller", 12, "nginx"),
            (true, "teller", 8, "nginx/teller"),
        ] {
            let of: Vec<_> = parties.iter().filter(|one| one.has(&split, is_uploaded, workspace, hour)).collect();
            assert_eq!(of.iter().map(|one| one.name()).collect::<Vec<_>>(), [party], "{workspace} {hour}");
            assert!(of[0].sees(&split, is_uploaded, workspace, hour));
            let brought = Party::named(&brought_by("nginx", Some(workspace).filter(|_| is_uploaded)));
            assert_eq!(brought.of_lines(&split, workspace, hour).name(), party);
        }
        assert!(!parties[0].sees(&split, true, "quiet", 10) && parties[2].sees(&split, false, "quiet", 10));
    }

    #[test]
    fn nobody_leaves_an_hour_of_which_something_stands() {
        let told = ["early", "late", "named"].map(|who| (who.to_owned(), UtcMicros(10 * HOUR)));
        let told: Elsewhere = told.into_iter().collect();
        for (stands, is_whole) in [(0, false), (1, true), (2, true), (3 + 4, true)] {
            let own = [("nginx/early", 10, 8), ("nginx/late", 10, 1), ("nginx/named", 10, 3)];
            let split = split_of(told.clone(), &[&[("nginx", 10, stands)][..], &own].concat());
            let party = |who: &str| Party::named("nginx").of_lines(&split, who, 10).name().into_owned();
            assert_eq!(party("early"), "nginx/early", "it was one before");
            assert_eq!(party("named"), "nginx/named", "it has a word of its own");
            assert_eq!(party("late"), if is_whole { "nginx" } else { "nginx/late" });
            assert_eq!(split.stays("late", 10), is_whole);
            assert!(!split.stays("quiet", 10) && !split.stays("early", 10));
        }
    }
}
