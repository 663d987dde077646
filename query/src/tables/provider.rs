//! A snapshot as a table that DataFusion can read: files are skipped by the log's bounds, row groups and pages by the
//! files' own. Only filters on a list are used for that, see [`usable`].

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::config::TableParquetOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use schemas::tables::Table;

use super::prune;
use super::snapshot::TableSnapshot;

/// Parsed footers of data files, shared by all queries. Paths are never used twice, so nothing in it goes stale.
pub(crate) type Footers = Arc<FileMetadataCache>;

/// One snapshot, all its rows.
#[derive(Debug)]
pub(crate) struct LakeTable {
    snapshot: Arc<TableSnapshot>,
    schema: SchemaRef,
    footers: Footers,
}

/// The URL under which a table's store is known to the query engine; it names no place.
pub(crate) fn store_url(table: Table) -> String {
    // an underscore is no part of a host name
    format!("lake://{}/", table.as_str().replace('_', "-"))
}

impl LakeTable {
    /// All rows of `snapshot`.
    pub(crate) fn new(snapshot: Arc<TableSnapshot>, footers: Footers) -> Self {
        let schema = snapshot.table.schema();
        Self { snapshot, schema, footers }
    }

    /// The filters that files may be skipped by, as one predicate over all columns.
    fn predicate(&self, state: &dyn Session, filters: &[Expr]) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(filter) = conjunction(filters.iter().filter(|filter| usable(filter)).cloned()) else {
            return Ok(None);
        };
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        state.create_physical_expr(filter, &schema).map(Some)
    }

    fn table_schema(&self) -> TableSchema {
        let partitions = self.snapshot.table.partitioned_by();
        let (partition, file): (Vec<_>, Vec<_>) =
            self.schema.fields().iter().cloned().partition(|field| partitions.contains(&field.name().as_str()));
        TableSchema::builder(Arc::new(arrow::datatypes::Schema::new(file))).with_table_partition_cols(partition).build()
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(pushdown(filters))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let predicate = self.predicate(state, filters)?;
        let table = self.snapshot.table;
        let files = prune::keep(table, &self.schema, &self.snapshot.files, predicate.as_ref())?;
        if files.is_empty() {
            let schema = match projection {
                Some(projection) => Arc::new(self.schema.project(projection)?),
                None => Arc::clone(&self.schema),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let url = ObjectStoreUrl::parse(store_url(table))?;
        let store = state.runtime_env().object_store(&url)?;
        let global = state.config_options().execution.parquet.clone();
        let options = TableParquetOptions { global, ..TableParquetOptions::default() };
        let mut source = ParquetSource::new(self.table_schema())
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(CachedParquetFileReaderFactory::new(
                store,
                Arc::clone(&self.footers),
            )));
        if let Some(predicate) = predicate {
            source = source.with_predicate(predicate);
        }
        let files = files.iter().map(|file| {
            PartitionedFile::new_from_meta(file.meta.clone()).with_partition_values(file.partition.clone())
        });
        let groups = FileGroup::new(files.collect()).split_files(state.config().target_partitions());
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(groups)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

/// What DataFusion is told of each filter: it applies them all itself; some are also used to skip files.
pub(super) fn pushdown(filters: &[&Expr]) -> Vec<TableProviderFilterPushDown> {
    let answer = |filter: &&Expr| match usable(filter) {
        true => TableProviderFilterPushDown::Inexact,
        false => TableProviderFilterPushDown::Unsupported,
    };
    filters.iter().map(answer).collect()
}

/// Whether a filter may be used to skip: comparisons of plain columns with literals, and `AND` and `OR` of them. They
/// can't fail, so that no tenant learns from an error what is in another's rows.
pub(super) fn usable(filter: &Expr) -> bool {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => usable(left) && usable(right),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let comparison = matches!(
                op,
                Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
            );
            comparison && (column_and_literal(left, right) || column_and_literal(right, left))
        }
        Expr::InList(list) => is_column(&list.expr) && list.list.iter().all(is_literal),
        Expr::Between(between) => is_column(&between.expr) && is_literal(&between.low) && is_literal(&between.high),
        Expr::IsNull(inner) | Expr::IsNotNull(inner) => is_column(inner),
        _ => false,
    }
}

fn column_and_literal(one: &Expr, other: &Expr) -> bool {
    is_column(one) && is_literal(other)
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_))
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{cast, col, lit};

    #[test]
    fn only_filters_that_cannot_fail_are_used() {
        for filter in [
            col("code").eq(lit("a")),
            lit("a").eq(col("code")),
            col("code").in_list(vec![lit("a"), lit("b")], true),
            col("weight").between(lit(1.0), lit(2.0)),
            col("agent").is_null(),
            col("code").eq(lit("a")).and(col("status").gt(lit(301))).or(col("agent").is_not_null()),
        ] {
            assert!(usable(&filter), "{filter}");
        }
        for filter in [
            (lit(1) / col("status")).eq(lit(1)),
            cast(col("code"), arrow::datatypes::DataType::Int64).eq(lit(1i64)),
            col("code").eq(col("domain")),
            col("code").like(lit("a%")),
            col("code").eq(lit("a")).or((lit(1) / col("status")).eq(lit(1))),
        ] {
            assert!(!usable(&filter), "{filter}");
        }
    }
}
