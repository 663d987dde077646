//! What is said of a file that comes once more: that nothing was read, and that what it is told otherwise now has no effect.

use ingest::edge::IdMode;

use super::options::ImportOptions;
use super::stored::Stored;

impl Stored {
    /// What whoever brings the file again should know, who asks for it to be taken in as `asked`.
    pub(super) fn told_again(&self, asked: &ImportOptions) -> String {
        let mut told = format!("taken in already on {}: nothing was read again", self.imported_at);
        let otherwise = self.otherwise(asked);
        if !otherwise.is_empty() {
            told.push_str(&format!(
                "; what is asked for otherwise now has no effect ({}): take it back first, with `highwater edge-logs revert {}`",
                otherwise.join(", "),
                self.summary.id
            ));
        }
        if let Some(note) = &self.summary.note {
            told.push_str(&format!("; {note}"));
        }
        told
    }

    /// What is asked for now, and was otherwise then. What isn't asked for by name is whatever it was.
    fn otherwise(&self, asked: &ImportOptions) -> Vec<String> {
        let mut otherwise = Vec::new();
        let mut compare = |what: &str, now: Option<&str>, then: &str| {
            if let Some(now) = now.filter(|now| *now != then) {
                otherwise.push(format!("{what} {now}, not {then}"));
            }
        };
        compare("format", asked.format.map(|format| format.as_str()), &self.summary.format);
        compare("source", asked.source.as_deref(), self.source_name.as_deref().unwrap_or("none"));
        if let Some(then) = &self.options {
            let id = (asked.id != IdMode::Auto).then(|| asked.id.to_string());
            compare("id", id.as_deref(), &then.id.to_string());
            compare("unknown codes", Some(asked.unknown_codes.as_str()), then.unknown_codes.as_str());
        }
        otherwise
    }
}

#[cfg(test)]
mod tests {
    use ingest::edge::Format;
    use schemas::UtcMicros;

    use super::super::options::UnknownCodes;
    use super::super::summary::Summary;
    use super::*;

    #[test]
    fn what_is_asked_for_otherwise_is_named_and_nothing_else() {
        let options = ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() };
        let mut stored = Stored {
            summary: Summary::new("abc".into(), "a.log".into(), "nginx-json".into(), false),
            workspace: "default".into(),
            provider: "nginx".into(),
            source_name: Some("s".into()),
            sha256: "abcd".into(),
            location: None,
            imported_at: UtcMicros(0),
            is_begun: false,
            options: Some(options.clone()),
        };
        let same = "taken in already on 1970-01-01T00:00:00Z: nothing was read again";
        let again = ImportOptions { source: Some("s".into()), format: Some(Format::NginxJson), ..options };
        assert_eq!(stored.told_again(&again), same);
        assert_eq!(stored.told_again(&ImportOptions::default()), same, "what isn't asked for is as it was");
        let otherwise = ImportOptions {
            id: IdMode::Trusted,
            format: Some(Format::CloudFrontV1),
            source: Some("t".into()),
            unknown_codes: UnknownCodes::Ignore,
            ..ImportOptions::default()
        };
        let told = stored.told_again(&otherwise);
        for part in [
            "format cloudfront-v1, not nginx-json",
            "source t, not s",
            "id trusted, not status-only",
            "unknown codes ignore, not keep",
            "edge-logs revert abc",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        stored.summary.note = Some("the file ends in the middle of a line".into());
        assert!(stored.told_again(&again).ends_with("again; the file ends in the middle of a line"));
    }
}
