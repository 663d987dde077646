//! The functions that a statement may call: a list of what is in, so that nothing new comes in by itself. Out are
//! those that make much of little (`repeat`, `lpad`, `range`, `arrow_cast` to lists of a length, and in time `levenshtein`
//! …), and those that tell of files and versions.

use std::sync::Arc;

use datafusion::execution::SessionStateDefaults as Defaults;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

const SCALAR: &[&str] = &[
    // any type
    "arrow_typeof",
    "coalesce",
    "greatest",
    "least",
    "nullif",
    "nvl",
    "nvl2",
    // texts
    "ascii",
    "bit_length",
    "btrim",
    "character_length",
    "chr",
    "concat",
    "concat_ws",
    "contains",
    "ends_with",
    "find_in_set",
    "initcap",
    "left",
    "lower",
    "ltrim",
    "octet_length",
    "overlay",
    "regexp_count",
    "regexp_instr",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "reverse",
    "right",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "substr_index",
    "to_hex",
    "translate",
    "upper",
    // times
    "current_date",
    "current_time",
    "date_bin",
    "date_part",
    "date_trunc",
    "from_unixtime",
    "make_date",
    "make_time",
    "now",
    "to_char",
    "to_date",
    "to_local_time",
    "to_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
];

const AGGREGATE: &[&str] = &[
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "grouping",
    "last_value",
    "max",
    "median",
    "min",
    "nth_value",
    "percentile_cont",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

/// What a session knows.
#[derive(Debug)]
pub(crate) struct Functions {
    pub(crate) scalar: Vec<Arc<ScalarUDF>>,
    pub(crate) aggregate: Vec<Arc<AggregateUDF>>,
    pub(crate) window: Vec<Arc<WindowUDF>>,
    pub(crate) planners: Vec<Arc<dyn ExprPlanner>>,
}

impl Default for Functions {
    fn default() -> Self {
        let scalar = Defaults::default_scalar_functions();
        let aggregate = Defaults::default_aggregate_functions();
        Self {
            scalar: scalar.into_iter().filter(|function| SCALAR.contains(&function.name())).collect(),
            aggregate: aggregate.into_iter().filter(|function| AGGREGATE.contains(&function.name())).collect(),
            window: Defaults::default_window_functions(),
            planners: Defaults::default_expr_planners(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_function_exists() {
        let functions = Functions::default();
        let known: Vec<&str> = functions.scalar.iter().map(|function| function.name()).collect();
        for name in SCALAR {
            assert!(known.contains(name), "{name}");
        }
        let known: Vec<&str> = functions.aggregate.iter().map(|function| function.name()).collect();
        for name in AGGREGATE {
            assert!(known.contains(name), "{name}");
        }
    }
}
