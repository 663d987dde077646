//! Expressions that can make much of little: which are refused, and how long the texts of others get.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};

/// Most columns of a `CUBE`: it is as many groupings as they have subsets.
const MAX_CUBE: usize = 6;

/// How long the text that an expression makes can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// As long as all texts in it together.
    All,
    /// So many times the longest text in it.
    Times(u64),
}

/// Refuses an expression, without what is in it, whose size is that of a number and not of a text.
pub(super) fn allowed(expression: &Expr) -> Result<(), String> {
    match expression {
        Expr::Cast { data_type, .. } => plain(data_type),
        Expr::TypedString(typed) => plain(&typed.data_type),
        Expr::Convert { data_type: Some(data_type), .. } => plain(data_type),
        Expr::Cube(columns) if columns.len() > MAX_CUBE => Err(format!("CUBE of more than {MAX_CUBE} columns")),
        Expr::Function(function) => {
            let name = name(function);
            let most = match (name.as_str(), function.within_group.is_empty()) {
                ("approx_percentile_cont", within) => 1 + usize::from(within),
                ("approx_percentile_cont_with_weight", within) => 2 + usize::from(within),
                _ => return Ok(()),
            };
            match arguments(function).len() > most {
                true => Err(format!("{name} can't be given a number of centroids")),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Lists of a given length are made at that length, whatever it is.
fn plain(data_type: &DataType) -> Result<(), String> {
    match data_type {
        DataType::Array(_) | DataType::Struct(..) => Err(format!("there is no type {data_type} here")),
        _ => Ok(()),
    }
}

/// How long the text of `expression` can get.
pub(super) fn growth(expression: &Expr) -> Growth {
    match expression {
        Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } | Expr::Overlay { .. } => Growth::All,
        Expr::Function(function) => match name(function).as_str() {
            "concat" | "concat_ws" | "overlay" => Growth::All,
            "regexp_replace" => Growth::Times(replacing(&arguments(function))),
            _ => Growth::Times(1),
        },
        _ => Growth::Times(1),
    }
}

/// How many times as long a text gets by a replacement: what is captured comes as often as it is named, and all of it
/// at each place when there is a flag.
fn replacing(arguments: &[&Expr]) -> u64 {
    let Some(Expr::Value(value)) = arguments.get(2) else { return u64::MAX };
    let Value::SingleQuotedString(text) = &value.value else { return u64::MAX };
    let captured = text.chars().filter(|char| matches!(char, '\\' | '$')).count();
    let each = if arguments.len() > 3 { text.len() } else { 0 };
    1 + captured as u64 + each as u64
}

fn name(function: &Function) -> String {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.map_or_else(String::new, |ident| ident.value.to_lowercase())
}

fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let expression = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expression))
        | &FunctionArg::Named { arg: FunctionArgExpr::Expr(ref expression), .. }
        | &FunctionArg::ExprNamed { arg: FunctionArgExpr::Expr(ref expression), .. } => Some(expression),
        _ => None,
    };
    list.args.iter().filter_map(expression).collect()
}
