//! Places for work that takes memory and time: so many in all, and not all of them for one workspace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use http::header::RETRY_AFTER;

use super::problem::Problem;

/// Who is at work. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Of what there are places, for people.
    what: &'static str,
    all: usize,
    each: usize,
    retry_after: &'static str,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// A place, until dropped.
#[derive(Debug)]
pub(super) struct Place {
    workspace: String,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

impl Places {
    /// `all` places for `what`, of which one workspace may have `each`; who gets none may ask again after so many
    /// seconds.
    pub(super) fn new(what: &'static str, all: usize, each: usize, retry_after: &'static str) -> Self {
        Self { what, all, each, retry_after, taken: Arc::default() }
    }

    /// A place for a workspace.
    ///
    /// # Errors
    /// 429 when the workspace has as many as it may, 503 when there are none.
    pub(super) fn take(&self, workspace: &str) -> Result<Place, Problem> {
        let Self { what, all, each, retry_after, .. } = self;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.get(workspace).is_some_and(|own| own >= each) {
            let detail = format!("{each} {what} of this workspace are being taken in; wait for one");
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", "Too many at once", detail);
            return Err(problem.with(RETRY_AFTER, retry_after));
        }
        if taken.values().sum::<usize>() >= *all {
            let detail = format!("as many {what} as can be are being taken in; try again");
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Busy", detail);
            return Err(problem.with(RETRY_AFTER, retry_after));
        }
        *taken.entry(workspace.to_owned()).or_default() += 1;
        Ok(Place { workspace: workspace.to_owned(), taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.workspace) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.workspace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse as _;

    #[test]
    fn one_workspace_can_not_take_them_all() {
        let places = Places::new("things", 3, 2, "1");
        let status = |taken: Result<Place, Problem>| taken.unwrap_err().into_response().status().as_u16();
        let (a, _b) = (places.take("w").unwrap(), places.take("w").unwrap());
        assert_eq!(status(places.take("w")), 429);
        let _c = places.take("v").unwrap();
        assert_eq!(status(places.take("u")), 503);
        drop(a);
        drop(places.take("w").unwrap());
        let _d = places.take("u").unwrap();
        assert_eq!(places.taken.lock().unwrap().len(), 3);
    }
}
