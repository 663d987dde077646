//! Whether a text is one statement that only reads.

use datafusion::common::TableReference;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast;
use schemas::tables::Table;

use crate::error::QueryError;
use crate::failure::classify;

/// Longest text, bytes.
const MAX_TEXT: usize = 64 * 1024;
/// Deepest nesting of expressions and queries.
const MAX_DEPTH: usize = 60;
/// Most tables named, each time counted.
const MAX_TABLES: usize = 32;

/// A statement that may be planned.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) statement: Statement,
    /// The tables it names.
    pub(crate) tables: Vec<Table>,
}

/// Reads `text`.
///
/// # Errors
/// [`QueryError::Statement`] when it is not exactly one `SELECT` over known tables.
pub(crate) fn check(text: &str) -> Result<Checked, QueryError> {
    let refused = |message: String| QueryError::Statement(message);
    if text.len() > MAX_TEXT {
        return Err(refused(format!("the statement is longer than {MAX_TEXT} bytes")));
    }
    let mut statements = DFParserBuilder::new(text)
        .with_recursion_limit(MAX_DEPTH)
        .build()
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|error| classify(&error))?;
    let (Some(statement), true) = (statements.pop_front(), statements.is_empty()) else {
        return Err(refused("expected exactly one statement".to_owned()));
    };
    let reads = matches!(&statement, Statement::Statement(inner) if matches!(**inner, ast::Statement::Query(_)));
    if !reads {
        return Err(refused("only SELECT is answered here".to_owned()));
    }
    let (named, _) = resolve_table_references(&statement, true).map_err(|error| refused(error.strip_backtrace()))?;
    if named.len() > MAX_TABLES {
        return Err(refused(format!("more than {MAX_TABLES} tables are named")));
    }
    let tables = named.iter().map(known).collect::<Result<_, _>>()?;
    Ok(Checked { statement, tables })
}

fn known(name: &TableReference) -> Result<Table, QueryError> {
    let table = match name {
        TableReference::Bare { table } => table.parse().ok(),
        _ => None,
    };
    table.ok_or_else(|| {
        let words: Vec<&str> = Table::ALL.iter().map(|table| table.as_str()).collect();
        QueryError::Statement(format!("there is no table {name}; there are {}", words.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_select_over_known_tables_is_fine() {
        let checked = check("with x as (select code from clicks) select * from x join rejects on true;").unwrap();
        let mut tables = checked.tables;
        tables.sort();
        assert_eq!(tables, [Table::Clicks, Table::Rejects]);
        assert!(check("select 1").unwrap().tables.is_empty());
    }

    #[test]
    fn all_else_is_refused() {
        for text in [
            "",
            ";",
            "select 1; select 2",
            "selec 1",
            "insert into clicks select * from clicks",
            "delete from clicks",
            "update clicks set code = 'x'",
            "create table x as select 1",
            "create external table x stored as parquet location '/etc'",
            "drop table clicks",
            "copy clicks to '/tmp/x.parquet'",
            "copy (select 1) to '/tmp/x.csv'",
            "set datafusion.execution.batch_size = 1",
            "reset datafusion.execution.batch_size",
            "show tables",
            "show all",
            "describe clicks",
            "explain select 1",
            "explain analyze select 1",
            "prepare p as select 1",
            "execute p",
            "begin",
            "select * from '/etc/passwd'",
            "select * from '/tmp/x.parquet'",
            "select * from information_schema.tables",
            "select * from highwater.public.clicks",
            "select * from tokens",
            "select * from \"Clicks\"",
        ] {
            assert!(matches!(check(text), Err(QueryError::Statement(_))), "{text}");
        }
        assert!(check(&format!("select '{}'", "x".repeat(MAX_TEXT))).is_err());
        assert!(check(&format!("select {}1{}", "(".repeat(5_000), ")".repeat(5_000))).is_err());
        let many = vec!["clicks"; MAX_TABLES + 1].join(" cross join ");
        assert!(check(&format!("select 1 from {many}")).is_ok(), "a set of tables is counted once");
    }

    proptest! {
        #[test]
        fn any_text_is_checked_or_refused(text in "(select|from|where|clicks|\\(|\\)|,|;|'| |[a-z*0-9]){0,40}") {
            let _ = check(&text);
        }
    }
}
