//! The beginning of a file: what it is found to be is one format, or an error that shows every reading.
#![no_main]

use highwater_fuzz::settings;
use ingest::edge::{Format, SniffError, sniff};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|head: &[u8]| {
    match sniff(head, &settings()) {
        Ok(None) => assert!(head.iter().all(|byte| byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(byte))),
        Ok(Some(found)) => assert!(!found.why.is_empty()),
        Err(SniffError::None { readings, .. }) => assert_eq!(readings.len(), Format::ALL.len()),
        Err(error @ SniffError::Several { .. }) => assert!(error.to_string().lines().count() > 1),
    }
});
