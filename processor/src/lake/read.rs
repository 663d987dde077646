//! Reading data files: chosen columns, as Arrow batches.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::{DataFile, LakeError, TableHandle, columns};

/// Rows of a batch that is read.
const BATCH_ROWS: usize = 16 * 1024;
/// A file's last bytes, read at once in the hope that its footer is in them.
const FOOTER_BYTES: usize = 64 * 1024;

impl TableHandle {
    /// Reads `columns` of a file, in that order; all of the file's columns when none are named. The partition
    /// column `date` is in no file.
    ///
    /// # Errors
    /// [`LakeError::Rows`] for a column that the file lacks and that isn't a later addition, and for a file that can't be
    /// read.
    pub async fn read(&self, file: &DataFile, columns: &[&str]) -> Result<Vec<RecordBatch>, LakeError> {
        let read = tokio::time::timeout(self.place.deadline(), self.read_columns(file, columns)).await;
        let table = self.table();
        read.map_err(|_| self.place.too_late("reading rows"))?.map_err(|source| LakeError::Rows {
            table,
            doing: "reading rows",
            source,
        })
    }

    async fn read_columns(&self, file: &DataFile, columns: &[&str]) -> Result<Vec<RecordBatch>, ParquetError> {
        let reader =
            Reader { store: Arc::clone(&self.place.store), path: Path::from(file.path.as_str()), size: file.size };
        let builder = ParquetRecordBatchStreamBuilder::new(reader).await?.with_batch_size(BATCH_ROWS);
        let builder = projected(builder, columns);
        let batches: Vec<RecordBatch> = builder.build()?.try_collect().await?;
        let table = self.table();
        batches.into_iter().map(|batch| Ok(columns::completed(table, batch, columns)?)).collect()
    }
}

/// A file in the store, read in ranges.
pub(super) struct Reader {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    pub(super) size: u64,
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        async move { Ok(self.store.get_range(&self.path, range).await?) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move { Ok(self.store.get_ranges(&self.path, &ranges).await?) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        async move {
            let size = self.size;
            let footer = ParquetMetaDataReader::new()
                .with_arrow_reader_options(options)
                .with_prefetch_hint(Some(FOOTER_BYTES.min(size as usize)));
            Ok(Arc::new(footer.load_and_finish(self, size).await?))
        }
        .boxed()
    }
}

/// Reads only these columns, as far as the file has them; all when none are named.
pub(super) fn projected(
    builder: ParquetRecordBatchStreamBuilder<Reader>,
    wanted: &[&str],
) -> ParquetRecordBatchStreamBuilder<Reader> {
    if wanted.is_empty() {
        return builder;
    }
    let present = columns::present(builder.schema(), wanted);
    let mask = ProjectionMask::columns(builder.parquet_schema(), present);
    builder.with_projection(mask)
}
