//! Reading input, so that whoever sent it learns of everything that is wrong with it: JSON bodies field by field,
//! query parameters, the code in the path.

use std::fmt;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

use super::problem::Problem;
use super::{Manage, body};
use crate::links::FieldError;

/// The fields of a JSON object. Each is taken once; [`Fields::finish`] then says what was wrong, also of fields that
/// nobody took.
#[derive(Debug, Default)]
pub(super) struct Fields {
    object: Map<String, Value>,
    known: Vec<&'static str>,
    errors: Vec<FieldError>,
}

impl Fields {
    /// Adds a field as sent.
    fn insert(&mut self, name: String, value: Value) {
        if self.object.insert(name.clone(), value).is_some() {
            self.errors.push(FieldError::new(name, "is given twice"));
        }
    }

    /// A field's value as sent, `null` included; `None` when it was not sent.
    fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.object.remove(name)
    }

    /// A text. `None`: not sent; `Some(None)`: `null`.
    pub(super) fn nullable_text(&mut self, name: &'static str) -> Option<Option<String>> {
        match self.take(name)? {
            Value::Null => Some(None),
            Value::String(text) => Some(Some(text)),
            other => self.wrong(name, format!("must be a string, not {}", kind(&other))),
        }
    }

    /// A text, or `None` when it is `null` or was not sent.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.nullable_text(name).flatten()
    }

    /// A text that must be there; empty when it is not, which [`Fields::finish`] then reports.
    pub(super) fn required_text(&mut self, name: &'static str) -> String {
        match self.nullable_text(name) {
            Some(Some(text)) => return text,
            Some(None) => self.errors.push(FieldError::new(name, "must not be null")),
            None if self.errors.iter().any(|error| error.field == name) => {}
            None => self.errors.push(FieldError::new(name, "is required")),
        }
        String::new()
    }

    /// A text that can be left out, but not removed.
    pub(super) fn present_text(&mut self, name: &'static str) -> Option<String> {
        match self.nullable_text(name)? {
            None => self.wrong(name, "must not be null".to_owned()),
            text => text,
        }
    }

    /// A word of a vocabulary that can be left out, but not removed.
    pub(super) fn word<T: std::str::FromStr>(&mut self, name: &'static str) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        match self.present_text(name)?.parse() {
            Ok(word) => Some(word),
            Err(error) => self.wrong(name, error.to_string()),
        }
    }

    /// A list of texts; `null` is the empty one.
    pub(super) fn texts(&mut self, name: &'static str) -> Option<Vec<String>> {
        let values = match self.take(name)? {
            Value::Null => Vec::new(),
            Value::Array(values) => values,
            other => return self.wrong(name, format!("must be an array of strings, not {}", kind(&other))),
        };
        let mut texts = Vec::with_capacity(values.len());
        for value in values {
            match value {
                Value::String(text) => texts.push(text),
                other => return self.wrong(name, format!("must be an array of strings, but holds {}", kind(&other))),
            }
        }
        Some(texts)
    }

    /// All that was wrong, unknown fields too. To be called when every field has been taken.
    pub(super) fn finish(mut self) -> Result<(), Problem> {
        for name in self.object.keys() {
            let message = match self.known.as_slice() {
                [] => "is not known here; no field is expected".to_owned(),
                known => format!("is not known here; expected one of {}", known.join(", ")),
            };
            self.errors.push(FieldError::new(name, message));
        }
        if self.errors.is_empty() { Ok(()) } else { Err(Problem::invalid(self.errors)) }
    }

    fn wrong<T>(&mut self, name: &str, message: String) -> Option<T> {
        self.errors.push(FieldError::new(name, message));
        None
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A JSON object as body; an empty body has no fields.
impl FromRequest<Manage> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, manage: &Manage) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let body = body::read(body, manage.config.max_body, manage.config.body_deadline).await?;
        if body.is_empty() {
            return Ok(Self::default());
        }
        if !is_json(&parts.headers) {
            let detail = "the body must be sent with \"Content-Type: application/json\"";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", "Unsupported media type", detail));
        }
        serde_json::from_slice(&body).map_err(|error| match error.classify() {
            Category::Data => bad_json(format!("the body must be a JSON object: {error}")),
            _ => bad_json(format!("the body is no JSON: {error}")),
        })
    }
}

/// The fields of an object; one that is given twice is at fault, since readers differ in which of the two they take.
impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some((name, value)) = map.next_entry()? {
                    fields.insert(name, value);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

fn bad_json(detail: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-json", "Bad JSON", detail)
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(content_type)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else { return false };
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || media_type.starts_with("application/") && media_type.ends_with("+json")
}

/// The query's parameters, each taken once, as [`Fields`] are.
#[derive(Debug)]
pub(super) struct Params(Fields);

impl Params {
    /// A parameter's text; `None` when it was not sent.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.0.text(name)
    }

    /// A parameter as a word of a vocabulary or a number.
    pub(super) fn word<T: std::str::FromStr>(&mut self, name: &'static str) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        self.0.word(name)
    }

    /// Reports a parameter.
    pub(super) fn wrong(&mut self, name: &str, message: &str) {
        self.0.errors.push(FieldError::new(name, message));
    }

    /// All that was wrong, unknown parameters too.
    pub(super) fn finish(self) -> Result<(), Problem> {
        self.0.finish()
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut fields = Fields::default();
        for (name, value) in url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            fields.insert(name.into_owned(), Value::String(value.into_owned()));
        }
        Ok(Self(fields))
    }
}

/// The code in the path, decoded.
#[derive(Debug)]
pub(super) struct Code(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Code {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(code)) => Ok(Self(code)),
            // Escapes that are no UTF-8: no link can have such a code.
            Err(_) => Err(Problem::no_such_path()),
        }
    }
}
