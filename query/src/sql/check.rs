//! Whether a text is one statement that only reads, and of a size that can be planned.

use std::collections::BTreeSet;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use schemas::tables::Table;

use super::weigh::weigh;
use crate::error::QueryError;
use crate::failure::classify;

/// Longest text, bytes.
const MAX_TEXT: usize = 16 * 1024;
/// Most words and signs. A tree can be about as deep as that, whatever its shape: `a or b or c …` nests to the left,
/// which the parser's own limit doesn't see. The stacks of the query threads are made for it.
const MAX_TOKENS: usize = 2_000;
/// Deepest nesting of brackets and queries.
const MAX_DEPTH: usize = 60;

/// A statement that may be planned.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) statement: Statement,
    /// The tables it names.
    pub(crate) tables: BTreeSet<Table>,
    /// Whether it makes texts longer than those of the rows.
    pub(crate) longer_texts: bool,
}

/// Reads `text`. Needs a deep stack: only on the query threads.
///
/// # Errors
/// [`QueryError::Statement`] when it is not exactly one `SELECT` over known tables, or too big a one.
pub(crate) fn check(text: &str) -> Result<Checked, QueryError> {
    let refused = |message: String| QueryError::Statement(message);
    let mut statements = DFParserBuilder::new(tokens(text)?)
        .with_dialect(&GenericDialect {})
        .with_recursion_limit(MAX_DEPTH)
        .build()
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|error| classify(&error))?;
    let (Some(statement), true) = (statements.pop_front(), statements.is_empty()) else {
        return Err(refused("expected exactly one statement".to_owned()));
    };
    let needs = match &statement {
        Statement::Statement(inner) if matches!(**inner, ast::Statement::Query(_)) => weigh(inner).map_err(refused)?,
        _ => {
            return Err(refused(
                "only SELECT is answered here; docs/tables.md shows the tables and their columns".to_owned(),
            ));
        }
    };
    Ok(Checked { statement, tables: needs.tables, longer_texts: needs.longer_texts })
}

/// The words and signs of `text`.
fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, QueryError> {
    let refused = |message: String| QueryError::Statement(message);
    if text.len() > MAX_TEXT {
        return Err(refused(format!("the statement is longer than {MAX_TEXT} bytes")));
    }
    let tokens = Tokenizer::new(&GenericDialect {}, text)
        .tokenize_with_location()
        .map_err(|error| refused(error.to_string()))?;
    let count = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).count();
    match count > MAX_TOKENS {
        true => Err(refused(format!("the statement has more than {MAX_TOKENS} words and signs"))),
        false => Ok(tokens),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_select_over_known_tables_is_fine() {
        let checked = check("with x as (select code from clicks) select * from x join rejects on true;").unwrap();
        assert_eq!(Vec::from_iter(checked.tables), [Table::Clicks, Table::Rejects]);
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
    }

    proptest! {
        #[test]
        fn any_text_is_checked_or_refused(text in "(select|from|where|clicks|\\(|\\)|,|;|'| |[a-z*0-9]){0,40}") {
            let _ = check(&text);
        }
    }
}
