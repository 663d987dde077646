//! What an error of the engine means to whoever asked.

use datafusion::error::DataFusionError;

use crate::error::QueryError;

/// Sorts an engine's error by what the caller can do about it.
pub(crate) fn classify(error: &DataFusionError) -> QueryError {
    if is_missing_file(error) {
        return QueryError::Stale(error.to_string());
    }
    let root = error.find_root();
    match root {
        DataFusionError::ResourcesExhausted(message) => QueryError::Resources(exhausted(message)),
        // its own text is that of a debugger
        DataFusionError::SQL(error, _) => QueryError::Statement(first_line(&error.to_string())),
        DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Configuration(_)
        | DataFusionError::Execution(_)
        | DataFusionError::ArrowError(..) => QueryError::Statement(first_line(&root.strip_backtrace())),
        other => QueryError::lake("running a query", other),
    }
}

/// Whether a data file was not there. Some layers keep only the text of the error below them.
fn is_missing_file(error: &DataFusionError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if matches!(error.downcast_ref(), Some(object_store::Error::NotFound { .. })) {
            return true;
        }
        cause = error.source();
    }
    let text = error.to_string();
    text.contains("Object at location") && text.contains("not found")
}

/// What could not be had. The engine names the greatest users of memory first, line by line, and says that last.
fn exhausted(message: &str) -> String {
    first_line(message.rsplit_once("\nError: ").map_or(message, |(_, cause)| cause))
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_go_to_who_can_mend_them() {
        let plan = DataFusionError::Plan("no column x".into()).context("while planning");
        assert!(matches!(classify(&plan), QueryError::Statement(text) if text.contains("no column x")));
        let memory = DataFusionError::ResourcesExhausted("no room".into());
        assert!(matches!(classify(&memory), QueryError::Resources(_)));
        let users = "Additional allocation failed for A with top memory consumers (across reservations) as:\n  A#1(can \
                     spill: true) consumed 9 MB\nError: Failed to allocate additional 1 MB for A.";
        let told = classify(&DataFusionError::ResourcesExhausted(users.into())).to_string();
        assert!(told.contains(": Failed to allocate additional 1 MB for A; group by"), "whole, and what to do: {told}");
        let gone = object_store::Error::NotFound { path: "a".into(), source: "b".into() };
        assert!(matches!(classify(&DataFusionError::ObjectStore(Box::new(gone))), QueryError::Stale(_)));
        let text = "Parquet error: Failed to fetch metadata for file a: Object at location /a not found: No such file";
        assert!(matches!(classify(&DataFusionError::External(text.into())), QueryError::Stale(_)));
        let other = DataFusionError::Internal("oh".into());
        assert!(matches!(classify(&other), QueryError::Lake { .. }));
    }
}
