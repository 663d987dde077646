//! One workspace's rows of a table, enforced below everything a query can say.
//!
//! ```text
//! the query's own filters, joins …        may fail, may be slow: over this tenant's rows only
//!   Fence                                 nothing is pushed through it from above
//!     FilterExec workspace = '…'          decides, row by row
//!       scan (skips files by workspace = '…' and by filters that can't fail)
//! ```
//! No statistics leave it: those of the files count other tenants' rows too.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType, col, lit};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, PlanProperties,
};

use super::provider::{LakeTable, pushdown};

/// The rows of one workspace.
#[derive(Debug)]
pub(crate) struct TenantTable {
    inner: LakeTable,
    workspace: Box<str>,
}

impl TenantTable {
    /// The rows of `workspace` in `inner`.
    pub(crate) fn new(inner: LakeTable, workspace: &str) -> Self {
        Self { inner, workspace: workspace.into() }
    }

    /// Rows of no workspace at all (a gap of a whole journal) concern every tenant.
    fn own(&self) -> Result<Expr> {
        let own = col("workspace").eq(lit(&*self.workspace));
        let schema = self.inner.schema();
        Ok(if schema.field_with_name("workspace")?.is_nullable() { own.or(col("workspace").is_null()) } else { own })
    }
}

#[async_trait]
impl TableProvider for TenantTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
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
        _limit: Option<usize>, // counts rows of all tenants, so it is left to the plan above
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.inner.schema();
        let workspace = schema.index_of("workspace")?;
        let wanted: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
        let mut read = wanted.clone();
        if !read.contains(&workspace) {
            read.push(workspace);
        }
        let own = self.own()?;
        let mut all = filters.to_vec();
        all.push(own.clone());
        let scan = self.inner.scan(state, Some(&read), &all, None).await?;
        let predicate = state.create_physical_expr(own, &DFSchema::try_from(scan.schema())?)?;
        let keep: Vec<usize> = (0..wanted.len()).collect();
        let filter = FilterExecBuilder::new(predicate, scan).apply_projection(Some(keep))?.build()?;
        Ok(Arc::new(Fence::new(Arc::new(filter))))
    }
}

/// Passes rows through and lets nothing down: DataFusion would else merge the query's own filters into the tenant's
/// and evaluate them, errors and all, on other tenants' rows.
#[derive(Debug)]
struct Fence {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Fence {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for Fence {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fence")
    }
}

impl ExecutionPlan for Fence {
    fn name(&self) -> &str {
        "Fence"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(input))),
            _ => Err(DataFusionError::Internal("a fence has one input".to_owned())),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
