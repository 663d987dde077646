//! What a report can be grouped and filtered by.

use datafusion::logical_expr::{Expr, col, lit, when};
use datafusion::prelude::ident;
use datafusion::scalar::ScalarValue;

use super::continent;

/// A dimension: its name in requests, and the column it is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dimension(&'static str);

/// All of them, by name.
const NAMES: &[&str] = &[
    "country",
    "region",
    "city",
    "continent",
    "device",
    "browser",
    "os",
    "referrer",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_term",
    "utm_content",
    "language",
    "class",
    "agent",
    "source",
    "code",
    "domain",
    "destination",
];

impl Dimension {
    /// The dimension of that name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|known| **known == name).map(|known| Self(known))
    }

    /// All names, for messages.
    pub(crate) fn names() -> String {
        NAMES.join(", ")
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Whether the hours of table `clicks_hourly` have it, and not only clicks.
    pub(crate) fn is_of_hours(self) -> bool {
        matches!(self.0, "code" | "domain" | "class")
    }

    /// Its value in a row: null when unknown.
    pub(crate) fn value(self) -> datafusion::error::Result<Expr> {
        let column = self.column();
        let unknown = match self.0 {
            "device" => column.clone().in_list(vec![lit(""), lit("unknown")], false),
            "continent" => return continent::of(column),
            _ => column.clone().eq(lit("")),
        };
        when(unknown, lit(ScalarValue::Utf8(None))).otherwise(column)
    }

    /// Rows with one of `values`; the empty value stands for unknown.
    pub(crate) fn one_of(self, values: &[String]) -> Expr {
        let known = self.list(values, false);
        if values.iter().any(String::is_empty) { known.or(self.column().is_null()) } else { known }
    }

    /// Rows with none of `values`. Rows whose value is unknown stay, unless the empty value is given.
    pub(crate) fn none_of(self, values: &[String]) -> Expr {
        let others = self.list(values, true);
        if values.iter().any(String::is_empty) {
            others.and(self.column().is_not_null())
        } else {
            others.or(self.column().is_null())
        }
    }

    fn list(self, values: &[String], negated: bool) -> Expr {
        let literals: Vec<Expr> = match self.0 {
            "continent" => values.iter().flat_map(|value| continent::countries(value)).map(lit).collect(),
            _ => values.iter().map(|value| lit(value.as_str())).collect(),
        };
        self.column().in_list(literals, negated)
    }

    fn column(self) -> Expr {
        match self.0 {
            "continent" => col("country"),
            name => ident(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dimension_has_a_column() {
        let schema = schemas::tables::Table::Clicks.schema();
        let hours = schemas::tables::Table::ClicksHourly.schema();
        for name in NAMES {
            let dimension = Dimension::named(name).unwrap();
            assert_eq!(dimension.name(), *name);
            assert_eq!(dimension.is_of_hours(), hours.field_with_name(name).is_ok(), "{name}");
            for column in dimension.column().column_refs() {
                assert!(schema.field_with_name(&column.name).is_ok(), "{name}");
            }
        }
        assert_eq!(Dimension::named("visitor"), None);
    }
}
