//! Reads the part of YAML that uap-core's files are written in: a list of flat mappings under each top-level key,
//! scalars on one line. Anything else is an error with its line, so that a new release of uap-core that uses more of
//! YAML stops the build instead of losing rules. Shared by the build script and the parity tests.

use std::collections::BTreeMap;

/// One entry of a list: its keys and values. An empty or `null` value is left out.
pub(crate) type Entry = BTreeMap<String, String>;

/// The lists of a file by their top-level key.
///
/// # Errors
/// Names the line that is not understood.
pub(crate) fn read(text: &str) -> Result<BTreeMap<String, Vec<Entry>>, String> {
    let mut lists: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    let mut current: Option<String> = None;
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}: {line}", number + 1);
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') || content == "---" {
            continue;
        }
        if !line.starts_with([' ', '-']) {
            let name = content.strip_suffix(':').ok_or_else(|| wrong("expected a key of the file"))?;
            lists.entry(name.to_owned()).or_default();
            current = Some(name.to_owned());
            continue;
        }
        let list = current.as_ref().and_then(|name| lists.get_mut(name)).ok_or_else(|| wrong("no key above"))?;
        let (starts, pair) = match content.strip_prefix("- ") {
            Some(rest) => (true, rest.trim_start()),
            None => (false, content),
        };
        if starts {
            list.push(Entry::new());
        }
        let entry = list.last_mut().ok_or_else(|| wrong("no entry above"))?;
        let (key, value) = pair.split_once(':').ok_or_else(|| wrong("expected a key and a value"))?;
        if let Some(value) = scalar(value.trim()).map_err(|what| wrong(&what))? {
            entry.insert(key.trim().to_owned(), value);
        }
    }
    Ok(lists)
}

/// A scalar of one line; `None` when it is empty or `null`.
fn scalar(text: &str) -> Result<Option<String>, String> {
    let (quote, rest) = match text.as_bytes().first() {
        None => return Ok(None),
        Some(quote @ (b'\'' | b'"')) => (*quote, &text[1..]),
        Some(b'|' | b'>' | b'&' | b'*' | b'[' | b'{' | b'!') => return Err("not a plain or quoted scalar".to_owned()),
        Some(_) => {
            let plain = text.split(" #").next().unwrap_or_default().trim_end();
            return Ok((plain != "null" && plain != "~").then(|| plain.to_owned()));
        }
    };
    let mut value = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match chars.next() {
            None => return Err("the quote is not closed".to_owned()),
            Some('\'') if quote == b'\'' => {
                if chars.as_str().starts_with('\'') {
                    chars.next();
                    value.push('\'');
                } else {
                    break;
                }
            }
            Some('"') if quote == b'"' => break,
            Some('\\') if quote == b'"' => value.push(escaped(chars.next())?),
            Some(c) => value.push(c),
        }
    }
    let after = chars.as_str().trim();
    if !after.is_empty() && !after.starts_with('#') {
        return Err("text after the closing quote".to_owned());
    }
    Ok((!value.is_empty()).then_some(value))
}

fn escaped(c: Option<char>) -> Result<char, String> {
    match c {
        Some(c @ ('\\' | '"' | '/' | ' ')) => Ok(c),
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some('r') => Ok('\r'),
        other => Err(format!("escape {other:?} is not known")),
    }
}
