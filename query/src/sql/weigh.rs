//! How much a statement may become once it is planned, told from its tree alone.
//!
//! A name of a `WITH` is planned as often as it is used, and an optimiser puts the expression behind a column in its
//! place: a text of a page can become a plan, or a value, of gigabytes. Both are counted here, from the inside out.
//! What is counted may be more than what a planner does, never less.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast;
use schemas::tables::Table;

use super::grow::{Growth, allowed, growth};

/// Most `SELECT`s, and tables and names of `WITH` in them, each as often as it is used.
const MAX_PARTS: u64 = 100;
/// Most tables that one `SELECT` joins.
const MAX_JOINED: usize = 16;
/// Most names that a statement gives to queries with `WITH`.
const MAX_NAMED: usize = 32;
/// Deepest expression. Time and stack of a planner grow with it, the time faster than its square.
const MAX_DEPTH: usize = 250;
/// Most columns in an expression, when those of inner queries are replaced by what is behind them.
const MAX_COLUMNS: u64 = 4_000;
/// Most texts that go into one text.
const MAX_TEXTS: u64 = 64;
/// Most `*` that stand for columns.
const MAX_WILDCARDS: usize = 16;
/// What a statement needs.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// The tables it reads.
    pub(super) tables: BTreeSet<Table>,
    /// Whether it makes texts longer than those of the rows.
    pub(super) longer_texts: bool,
}

/// Weighs `statement`; refuses, with a reason for its author, what is too heavy or not to be had.
pub(super) fn weigh(statement: &ast::Statement) -> Result<Needs, String> {
    let mut scale = Scale::default();
    match ast::Visit::visit(statement, &mut scale) {
        ControlFlow::Continue(()) => Ok(scale.needs),
        ControlFlow::Break(reason) => Err(reason),
    }
}

/// What a column, or the biggest of a query's, comes to.
#[derive(Clone, Copy)]
struct Size {
    columns: u64,
    texts: u64,
}

impl Size {
    const ONE: Self = Self { columns: 1, texts: 1 };

    fn most(self, other: Self) -> Self {
        Self { columns: self.columns.max(other.columns), texts: self.texts.max(other.texts) }
    }

    /// With each column replaced by `inner`.
    fn of(self, inner: Self) -> Self {
        Self { columns: self.columns.saturating_mul(inner.columns), texts: self.texts.saturating_mul(inner.texts) }
    }
}

/// The parts of an expression that have been seen.
#[derive(Clone, Copy, Default)]
struct Inside {
    columns: u64,
    texts: u64,
    longest: u64,
}

impl Inside {
    fn add(&mut self, size: Size) {
        self.columns = self.columns.saturating_add(size.columns);
        self.texts = self.texts.saturating_add(size.texts);
        self.longest = self.longest.max(size.texts);
    }
}

/// A query that is being looked at.
struct Frame {
    parts: u64,
    /// The biggest of its own expressions, and of what it reads.
    own: Size,
    below: Size,
    /// The names its `WITH` gives that are not reached yet, last first, and those that can be used.
    coming: Vec<TableReference>,
    named: Vec<(TableReference, u64, Size)>,
    /// Expressions around it.
    outside: usize,
}

#[derive(Default)]
struct Scale {
    needs: Needs,
    frames: Vec<Frame>,
    expressions: Vec<Inside>,
    named: usize,
    wildcards: usize,
}

impl Scale {
    /// Adds what is inside to the expression, or else the query, around it.
    fn put(&mut self, size: Size) {
        let outside = self.frames.last().map_or(0, |frame| frame.outside);
        match (self.expressions.get_mut(outside..).and_then(<[_]>::last_mut), self.frames.last_mut()) {
            (Some(around), _) => around.add(size),
            (None, Some(frame)) => frame.own = frame.own.most(size),
            (None, None) => {}
        }
    }

    fn read(&mut self, parts: u64, size: Size) {
        if let Some(frame) = self.frames.last_mut() {
            frame.parts = frame.parts.saturating_add(parts);
            frame.below = frame.below.most(size);
        }
    }
}

fn refuse(reason: impl Into<String>) -> ControlFlow<String> {
    ControlFlow::Break(reason.into())
}

impl ast::Visitor for Scale {
    type Break = String;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<String> {
        let mut coming = Vec::new();
        for named in query.with.iter().flat_map(|with| &with.cte_tables).rev() {
            match object_name_to_table_reference(vec![named.alias.name.clone()].into(), true) {
                Ok(name) => coming.push(name),
                Err(error) => return refuse(error.strip_backtrace()),
            }
        }
        self.named += coming.len();
        if self.named > MAX_NAMED {
            return refuse(format!("WITH names more than {MAX_NAMED} queries"));
        }
        let (own, below, outside) = (Size::ONE, Size::ONE, self.expressions.len());
        self.frames.push(Frame { parts: 0, own, below, coming, named: Vec::new(), outside });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<String> {
        let Some(frame) = self.frames.pop() else { return ControlFlow::Continue(()) };
        let size = frame.own.of(frame.below);
        self.needs.longer_texts |= size.texts > 1;
        if frame.parts > MAX_PARTS {
            return refuse(format!("more than {MAX_PARTS} SELECTs and tables, each counted as often as it is used"));
        }
        if size.columns > MAX_COLUMNS {
            return refuse(format!(
                "an expression has more than {MAX_COLUMNS} columns, those of inner queries counted"
            ));
        }
        if size.texts > MAX_TEXTS {
            return refuse(format!("a text is made of more than {MAX_TEXTS}, those of inner queries counted"));
        }
        let Some(around) = self.frames.last_mut() else { return ControlFlow::Continue(()) };
        if let Some(name) = around.coming.pop() {
            // WITH comes first in a query, so that these are its own
            around.named.push((name, frame.parts, size));
        } else if self.expressions.len() > around.outside {
            around.parts = around.parts.saturating_add(frame.parts);
            self.put(size);
        } else {
            self.read(frame.parts, size);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<String> {
        self.read(1, Size::ONE);
        let all = |item: &&ast::SelectItem| {
            matches!(item, ast::SelectItem::Wildcard(..) | ast::SelectItem::QualifiedWildcard(..))
        };
        if select.from.iter().map(|from| 1 + from.joins.len()).sum::<usize>() > MAX_JOINED {
            return refuse(format!("a SELECT joins more than {MAX_JOINED} tables"));
        }
        self.wildcards += select.projection.iter().filter(all).count();
        match self.wildcards > MAX_WILDCARDS {
            true => refuse(format!("more than {MAX_WILDCARDS} times *")),
            false => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<String> {
        let name = match object_name_to_table_reference(relation.clone(), true) {
            Ok(name) => name,
            Err(error) => return refuse(error.strip_backtrace()),
        };
        let mut named = self.frames.iter().rev().flat_map(|frame| frame.named.iter().rev());
        if let Some(&(_, parts, size)) = named.find(|(known, ..)| *known == name) {
            // the name itself is a part too
            self.read(parts.saturating_add(1), size);
            return ControlFlow::Continue(());
        }
        let TableReference::Bare { table } = &name else { return refuse(unknown(&name)) };
        let Ok(table) = table.parse() else { return refuse(unknown(&name)) };
        self.needs.tables.insert(table);
        self.read(1, Size::ONE);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &ast::Expr) -> ControlFlow<String> {
        if self.expressions.len() >= MAX_DEPTH {
            return refuse(format!("an expression is deeper than {MAX_DEPTH}; IN (…) is flat where OR is deep"));
        }
        self.expressions.push(Inside::default());
        allowed(expression).map_or_else(refuse, ControlFlow::Continue)
    }

    fn post_visit_expr(&mut self, expression: &ast::Expr) -> ControlFlow<String> {
        let Some(inside) = self.expressions.pop() else { return ControlFlow::Continue(()) };
        let is_column = matches!(expression, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_));
        let texts = match growth(expression) {
            Growth::All => inside.texts,
            Growth::Times(times) => inside.longest.saturating_mul(times),
        };
        self.put(Size { columns: inside.columns.saturating_add(u64::from(is_column)), texts: texts.max(1) });
        ControlFlow::Continue(())
    }
}

fn unknown(name: &TableReference) -> String {
    let words: Vec<&str> = Table::ALL.iter().map(|table| table.as_str()).collect();
    format!("there is no table {name}; there are {}", words.join(", "))
}
