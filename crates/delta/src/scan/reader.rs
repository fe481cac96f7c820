//! File tasks to rows, through DataFusion's Parquet source.

use std::sync::Arc;

use alluvium_core::Result;
use alluvium_exec::columns;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::DataFusionError;
use datafusion::common::config::TableParquetOptions;
use datafusion::datasource::physical_plan::parquet::{CachedParquetFileReaderFactory, ParquetRowSelection};
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfigBuilder, FileSource, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::{collect_columns, conjunction_opt, reassign_expr_columns};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::scalar::ScalarValue;
use datafusion_datasource::{PartitionedFile, TableSchema};
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::LocalReads;
use crate::scan::ScanDesc;
use crate::scan::deleted::{Placed, Vectors};
use crate::scan::tasks::ScanTask;

/// Reads certain columns of the files of one table.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    desc: Arc<ScanDesc>,
    layout: TableSchema,
    /// The columns to read, as indices into `layout`.
    projection: Vec<usize>,
    output: SchemaRef,
    /// What all reads begin with; its clones count into the same metrics.
    source: ParquetSource,
}

impl Reader {
    /// Reads the columns at `projection` of [`ScanDesc::output_schema`].
    pub(crate) fn try_new(desc: Arc<ScanDesc>, projection: &[usize]) -> Result<Self> {
        let layout = desc.file_layout();
        let output = Arc::new(desc.output_schema().project(projection)?);
        let indices = output.fields().iter().map(|f| layout.table_schema().index_of(f.name()));
        let projection = indices.collect::<Result<_, _>>()?;
        let source = ParquetSource::new(layout.clone());
        Ok(Self {
            desc,
            layout,
            projection,
            output,
            source,
        })
    }

    /// Reads other columns of the same files, and counts into the same metrics.
    pub(super) fn narrowed(&self, output: SchemaRef) -> Result<Self> {
        let indices = output
            .fields()
            .iter()
            .map(|f| self.layout.table_schema().index_of(f.name()));
        Ok(Self {
            projection: indices.collect::<Result<_, _>>()?,
            output,
            ..self.clone()
        })
    }

    /// Whether a column is in the files, and not one of the partition or made while reading.
    pub(super) fn is_in_files(&self, name: &str) -> bool {
        self.layout.file_schema().index_of(name).is_ok()
    }

    /// A column that can be read.
    pub(super) fn field(&self, name: &str) -> Option<FieldRef> {
        let schema = self.desc.output_schema();
        schema.fields().iter().find(|field| field.name() == name).cloned()
    }

    /// What is read.
    pub(super) fn output(&self) -> &SchemaRef {
        &self.output
    }

    /// What the Parquet source has counted.
    pub(super) fn metrics(&self) -> MetricsSet {
        self.source.metrics().clone_inner()
    }

    /// The filters that a Parquet source can use: it makes `__row` itself, after filtering.
    pub(super) fn usable(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let schema = self.layout.schema_without_virtual_columns();
        let known = |f: &&Arc<dyn PhysicalExpr>| collect_columns(f).iter().all(|c| schema.index_of(c.name()).is_ok());
        let usable = filters
            .iter()
            .filter(known)
            .map(|f| reassign_expr_columns(Arc::clone(f), schema));
        Ok(usable.collect::<Result<_, _>>()?)
    }

    /// Whether there is something to gain from filtering while decoding: columns that the filters do not need are then
    /// decoded only for rows that pass. When nothing but the filters' own columns is read, it only costs.
    pub(super) fn decodes_late(&self, filters: &[Arc<dyn PhysicalExpr>]) -> bool {
        let used: Vec<_> = filters
            .iter()
            .flat_map(collect_columns)
            .map(|c| c.name().to_owned())
            .collect();
        let read = self.output.fields().iter().filter(|f| self.is_in_files(f.name()));
        !used.is_empty() && read.into_iter().any(|f| !used.contains(f.name()))
    }

    /// The rows of `tasks` in their order. `filters` (see [`Self::usable`]) may leave rows out, or not; with `late`
    /// they do, but for those of floats.
    pub(crate) fn stream(
        &self,
        tasks: Vec<ScanTask>,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        late: bool,
        partition: usize,
        ctx: &Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let filters = filters.iter().flat_map(split_conjunction);
        let filters = filters.filter(|filter| !self.compares_floats(filter)).cloned();
        let filter = conjunction_opt(filters).map(|predicate| Filter { predicate, late });
        let output = Arc::clone(&self.output);
        match self.open(&tasks, filter, partition, ctx) {
            Ok(rows) => rows,
            Err(e) => Box::pin(RecordBatchStreamAdapter::new(
                output,
                stream::iter([Err(DataFusionError::from(e))]),
            )),
        }
    }

    /// Bounds in Parquet's footers leave out NaN, which is greater than any number here: rows would be lost by them.
    fn compares_floats(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        let schema = self.layout.table_schema();
        let is_float = |name: &str| schema.field_with_name(name).is_ok_and(|f| f.data_type().is_floating());
        collect_columns(filter).iter().any(|column| is_float(column.name()))
    }

    fn open(
        &self,
        tasks: &[ScanTask],
        filter: Option<Filter>,
        partition: usize,
        ctx: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let files = tasks.iter().map(|task| self.file(task)).collect::<Result<Vec<_>>>()?;
        let mut projection = self.projection.clone();
        let vectors = Vectors::of(&self.desc, tasks, ctx);
        let vectors = vectors
            .map(|vectors| self.with_places(&mut projection, vectors))
            .transpose()?;
        let mut config = FileScanConfigBuilder::new(self.desc.store_url()?, self.source(filter, ctx)?)
            .with_projection_indices(Some(projection))?
            .with_preserve_order(true);
        // In the group of its own partition, so that the metrics bear its number.
        for _ in 0..partition {
            config = config.with_file_group(FileGroup::default());
        }
        let config = config.with_file_group(FileGroup::new(files)).build();
        let rows = DataSourceExec::from_data_source(config).execute(partition, Arc::clone(ctx))?;
        let (schema, output) = (Arc::clone(&self.output), Arc::clone(&self.output));
        let shaped = match vectors {
            Some(vectors) => vectors
                .drop_from(rows)
                .map(move |batch| Ok(shape(&batch?, &output)?))
                .boxed(),
            None => rows.map(move |batch| Ok(shape(&batch?, &output)?)).boxed(),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, shaped)))
    }

    /// Tells `vectors` where the columns stand that say of each row which it is; they are read even if they are not
    /// part of the output.
    fn with_places(&self, projection: &mut Vec<usize>, vectors: Vectors) -> Result<Placed> {
        let mut place = |name: &str| -> Result<usize> {
            let index = self.layout.table_schema().index_of(name)?;
            Ok(projection.iter().position(|i| *i == index).unwrap_or_else(|| {
                projection.push(index);
                projection.len() - 1
            }))
        };
        Ok(vectors.placed(place(columns::FILE)?, place(columns::ROW)?))
    }

    fn source(&self, filter: Option<Filter>, ctx: &TaskContext) -> Result<Arc<dyn FileSource>> {
        let mut options = TableParquetOptions {
            global: ctx.session_config().options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        // Delta's timestamps are microseconds of UTC, however old writers stored them.
        options.global.coerce_int96 = Some("us".to_owned());
        options.global.coerce_int96_tz = Some("UTC".to_owned());
        let size_hint = options.global.metadata_size_hint;
        let mut source = self
            .source
            .clone()
            .with_table_parquet_options(options)
            .with_pushdown_filters(filter.as_ref().is_some_and(|f| f.late))
            .with_parquet_file_reader_factory(Arc::new(self.factory(ctx)?));
        if let Some(hint) = size_hint {
            source = source.with_metadata_size_hint(hint);
        }
        if let Some(filter) = filter {
            source = source.with_predicate(filter.predicate);
        }
        Ok(Arc::new(source))
    }

    /// Where the files are.
    pub(super) fn store(&self, ctx: &TaskContext) -> Result<Arc<dyn ObjectStore>> {
        let store = ctx.runtime_env().object_store(self.desc.store_url()?)?;
        Ok(LocalReads::over(store, self.desc.location.scheme()))
    }

    fn factory(&self, ctx: &TaskContext) -> Result<CachedParquetFileReaderFactory> {
        let cache = ctx.runtime_env().cache_manager.get_file_metadata_cache();
        Ok(CachedParquetFileReaderFactory::new(self.store(ctx)?, cache))
    }

    /// What a file says about its row groups and pages. Whoever has read it before has left it in the session's cache.
    pub(super) async fn metadata(&self, task: &ScanTask, ctx: &TaskContext) -> Result<Arc<ParquetMetaData>> {
        let hint = ctx.session_config().options().execution.parquet.metadata_size_hint;
        let unseen = ExecutionPlanMetricsSet::new();
        let mut reader = self.factory(ctx)?.create_reader(0, self.file(task)?, hint, &unseen)?;
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = reader.get_metadata(Some(&options)).await;
        Ok(metadata.map_err(DataFusionError::from)?)
    }

    /// Where the file of `task` is in the store.
    pub(super) fn path(&self, task: &ScanTask) -> Result<Path> {
        self.desc.path_of(&task.path)
    }

    fn file(&self, task: &ScanTask) -> Result<PartitionedFile> {
        let mut values = task.partition_values.clone();
        values.push(ScalarValue::UInt32(Some(task.ordinal)));
        let meta = ObjectMeta {
            location: self.path(task)?,
            last_modified: chrono::DateTime::from_timestamp_millis(task.modification_time).unwrap_or_default(),
            size: task.size,
            e_tag: None,
            version: None,
        };
        let file = PartitionedFile::new_from_meta(meta).with_partition_values(values);
        let file = match &task.rows {
            Some(rows) => file.with_extension(ParquetRowSelection::new(rows.clone())),
            None => file,
        };
        Ok(match task.range {
            Some((start, end)) => file.with_range(start, end),
            None => file,
        })
    }
}

#[derive(Debug, Clone)]
struct Filter {
    predicate: Arc<dyn PhysicalExpr>,
    late: bool,
}

/// Drops the columns beyond `output`, and puts the others under `output`'s fields.
fn shape(batch: &RecordBatch, output: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().iter().take(output.fields().len()).cloned().collect();
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(output),
        columns,
        &options,
    )?)
}
