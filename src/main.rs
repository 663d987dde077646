//! Highwater.
fn main() {}
