//! Files with new values in some rows against files that are written with these values from the start.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::{concat_batches, interleave_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use datafusion::parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use datafusion::parquet::basic::{Compression, Encoding};
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use datafusion::parquet::file::writer::SerializedFileWriter;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::super::layout::FileLayout;
use super::super::original::Original;
use super::super::parquet::parquet_schema;
use super::{ColumnEncoder, FreshRows, Scratch};

const ROWS: usize = 250;
const GROUP: usize = 100;

/// Numbers that are always the same.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn some<T>(&mut self, value: T) -> Option<T> {
        (self.next(6) > 0).then_some(value)
    }
}

/// The variety of rows whose column `later` has no value yet.
const EARLY: u64 = 30;

/// A column of every kind, with `variety` different values.
fn rows(count: usize, variety: u64, dice: &mut Dice) -> RecordBatch {
    let numbers: Vec<i64> = (0..count)
        .map(|_| i64::try_from(dice.next(variety)).unwrap() - 3)
        .collect();
    let small = |n: &i64| i8::try_from(*n % 100).unwrap();
    let double = |n: &i64| match n {
        0 => -0.0,
        n => f64::from(i32::try_from(*n).unwrap()) / 8.0,
    };
    let text = |n: &i64| format!("{}{n}", "é".repeat(usize::try_from(n.rem_euclid(3)).unwrap()));
    let opt = |dice: &mut Dice| -> Vec<Option<i64>> { numbers.iter().map(|n| dice.some(*n)).collect() };
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("id", Arc::new(Int64Array::from(numbers.clone())), false),
        (
            "flag",
            Arc::new(
                opt(dice)
                    .iter()
                    .map(|n| n.map(|n| n % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
            true,
        ),
        (
            "sure",
            Arc::new(numbers.iter().map(|n| Some(n % 3 == 0)).collect::<BooleanArray>()),
            false,
        ),
        (
            "small",
            Arc::new(opt(dice).iter().map(|n| n.as_ref().map(small)).collect::<Int8Array>()),
            true,
        ),
        ("long", Arc::new(opt(dice).into_iter().collect::<Int64Array>()), true),
        (
            "name",
            Arc::new(opt(dice).iter().map(|n| n.as_ref().map(text)).collect::<StringArray>()),
            true,
        ),
        (
            "label",
            Arc::new(numbers.iter().map(|n| Some(text(n))).collect::<StringArray>()),
            false,
        ),
        (
            "bytes",
            Arc::new(
                opt(dice)
                    .iter()
                    .map(|n| n.as_ref().map(|n| text(n).into_bytes()))
                    .collect::<BinaryArray>(),
            ),
            true,
        ),
        (
            "float",
            Arc::new(
                opt(dice)
                    .iter()
                    .map(|n| n.map(|n| f32::from(small(&n))))
                    .collect::<Float32Array>(),
            ),
            true,
        ),
        (
            "double",
            Arc::new(
                opt(dice)
                    .iter()
                    .map(|n| n.as_ref().map(double))
                    .collect::<Float64Array>(),
            ),
            true,
        ),
        (
            "day",
            Arc::new(
                opt(dice)
                    .iter()
                    .map(|n| n.map(|n| i32::try_from(n).unwrap()))
                    .collect::<Date32Array>(),
            ),
            true,
        ),
        (
            "time",
            Arc::new(
                opt(dice)
                    .into_iter()
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("UTC"),
            ),
            true,
        ),
        (
            "price",
            Arc::new(
                opt(dice)
                    .iter()
                    .map(|n| n.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(9, 2)
                    .unwrap(),
            ),
            true,
        ),
        (
            "huge",
            Arc::new(
                opt(dice)
                    .iter()
                    .map(|n| n.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(38, 10)
                    .unwrap(),
            ),
            true,
        ),
        (
            "later",
            Arc::new(
                opt(dice)
                    .into_iter()
                    .map(|n| n.filter(|_| variety != EARLY))
                    .collect::<Int64Array>(),
            ),
            true,
        ),
        (
            "words",
            Arc::new(
                opt(dice)
                    .iter()
                    .map(|n| n.as_ref().filter(|_| variety != EARLY).map(text))
                    .collect::<StringArray>(),
            ),
            true,
        ),
        ("nothing", Arc::new(StringArray::from(vec![None::<&str>; count])), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn properties(dictionary: bool, compression: Compression) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP))
        .set_data_page_row_count_limit(20)
        .set_write_batch_size(10)
        .set_dictionary_enabled(dictionary)
        .set_compression(compression)
}

fn file(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Bytes {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap().into()
}

fn metadata(file: &Bytes) -> ParquetMetaData {
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
    reader.parse_and_finish(file).unwrap()
}

/// `file` with the rows of `new` at `places`. `None`: it cannot be done in one of the row groups.
async fn patched(file: &Bytes, places: &[usize], new: &RecordBatch) -> Option<Bytes> {
    patched_but_for(&[], file, places, new).await
}

/// [`patched`], but for columns that are known to have the values already.
async fn patched_but_for(keys: &[String], file: &Bytes, places: &[usize], new: &RecordBatch) -> Option<Bytes> {
    let layout = FileLayout::data(&new.schema(), &[], &HashMap::new(), None).unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("file");
    store.put(&path, file.clone().into()).await.unwrap();
    let original = Original {
        path,
        metadata: metadata(file),
    };
    let schema = parquet_schema(&layout).unwrap().root_schema_ptr();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let mut start = 0;
    for (number, group) in original.metadata.row_groups().iter().enumerate() {
        let end = start + usize::try_from(group.num_rows()).unwrap();
        let (from, to) = (
            places.partition_point(|place| *place < start),
            places.partition_point(|place| *place < end),
        );
        let within: Vec<usize> = places[from..to].iter().map(|place| place - start).collect();
        let fresh = FreshRows::of(&layout, &new.slice(from, to - from)).unwrap();
        assert!(original.patchable(number));
        let chunks = original.patched(&store, number, &within, &fresh, keys).await.unwrap()?;
        let mut target = writer.next_row_group().unwrap();
        for (part, closed) in chunks {
            target.append_column(part.as_ref(), closed).unwrap();
        }
        target.close().unwrap();
        start = end;
    }
    Some(writer.into_inner().unwrap().into())
}

fn read(file: &Bytes, selection: Option<RowSelection>) -> RecordBatch {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let mut reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options).unwrap();
    if let Some(selection) = selection {
        reader = reader.with_row_selection(selection);
    }
    let schema: SchemaRef = Arc::clone(reader.schema());
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

/// `batch` with the rows of `new` at `places`.
fn replaced(batch: &RecordBatch, places: &[usize], new: &RecordBatch) -> RecordBatch {
    let source = |row| match places.binary_search(&row) {
        Ok(nth) => (1, nth),
        Err(_) => (0, row),
    };
    let rows: Vec<(usize, usize)> = (0..batch.num_rows()).map(source).collect();
    interleave_record_batch(&[batch, new], &rows).unwrap()
}

fn assert_same_file(found: &Bytes, expected: &RecordBatch, written: &Bytes) {
    assert_eq!(read(found, None).columns(), expected.columns());
    // Pages are found by their index.
    let selectors = (0..ROWS / 10).map(|nth| match nth % 4 {
        0 => RowSelector::select(10),
        _ => RowSelector::skip(10),
    });
    let selection = RowSelection::from_iter(selectors);
    assert_eq!(read(found, Some(selection.clone())), read(written, Some(selection)));
    let (found, written) = (metadata(found), metadata(written));
    let indexes = |metadata: &ParquetMetaData| metadata.column_index().cloned().unwrap();
    let (found_indexes, written_indexes) = (indexes(&found), indexes(&written));
    for (group, (is, should)) in found.row_groups().iter().zip(written.row_groups()).enumerate() {
        assert_eq!(is.num_rows(), should.num_rows());
        for (column, (is, should)) in is.columns().iter().zip(should.columns()).enumerate() {
            let (name, is, should) = (is.column_path(), is.statistics().unwrap(), should.statistics().unwrap());
            assert_eq!(is.null_count_opt(), should.null_count_opt(), "{name}");
            assert_eq!(is.min_bytes_opt(), should.min_bytes_opt(), "{name}");
            assert_eq!(is.max_bytes_opt(), should.max_bytes_opt(), "{name}");
            assert_eq!(
                (is.min_is_exact(), is.max_is_exact()),
                (should.min_is_exact(), should.max_is_exact()),
                "{name}"
            );
            let (is, should) = (&found_indexes[group][column], &written_indexes[group][column]);
            assert_eq!(is.num_pages(), should.num_pages(), "{name}");
            for page in 0..usize::try_from(is.num_pages()).unwrap() {
                assert_eq!(
                    super::close::bounds_of(is, page),
                    super::close::bounds_of(should, page),
                    "{name} {page}"
                );
                assert_eq!(is.null_count(page), should.null_count(page), "{name} {page}");
                assert_eq!(is.is_null_page(page), should.is_null_page(page), "{name} {page}");
            }
        }
    }
}

fn some_places(count: u64, dice: &mut Dice) -> Vec<usize> {
    let rows = u64::try_from(ROWS).unwrap();
    let mut places: Vec<usize> = (0..count).map(|_| usize::try_from(dice.next(rows)).unwrap()).collect();
    places.sort_unstable();
    places.dedup();
    places
}

#[tokio::test]
async fn patched_files_are_as_if_written_so() {
    let mut dice = Dice(7);
    let compressions = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(Default::default()),
    ];
    for dictionary in [false, true] {
        for compression in compressions {
            for count in [0, 1, 3, 40, 2000] {
                let mut expected = rows(ROWS, EARLY, &mut dice);
                let mut found = file(&expected, properties(dictionary, compression));
                // A patched file can be patched again.
                for variety in [20, 60, 5] {
                    let places = some_places(count, &mut dice);
                    let new = rows(places.len(), variety, &mut dice);
                    expected = replaced(&expected, &places, &new);
                    found = patched(&found, &places, &new).await.unwrap();
                    let written = file(&expected, properties(dictionary, compression));
                    assert_same_file(&found, &expected, &written);
                }
            }
        }
    }
}

#[tokio::test]
async fn chunks_and_pages_that_do_not_change_are_copied() {
    let mut dice = Dice(1);
    let batch = rows(ROWS, EARLY, &mut dice);
    let before = file(&batch, properties(true, Compression::SNAPPY));
    // Every row gets what it has, but for the name of row 130.
    let same = patched(&before, &(0..ROWS).collect::<Vec<_>>(), &batch).await.unwrap();
    let name = batch.schema().index_of("name").unwrap();
    let mut columns = batch.columns().to_vec();
    columns[name] = Arc::new(StringArray::from(vec!["other"; ROWS]));
    let other = RecordBatch::try_new(batch.schema(), columns).unwrap();
    let after = patched(&before, &[130], &other.slice(130, 1)).await.unwrap();
    let chunk = |file: &Bytes, group: usize, column: usize| {
        let (start, length) = metadata(file).row_group(group).column(column).byte_range();
        let start = usize::try_from(start).unwrap();
        file.slice(start..start + usize::try_from(length).unwrap())
    };
    for group in 0..3 {
        for column in 0..batch.num_columns() {
            assert_eq!(chunk(&before, group, column), chunk(&same, group, column));
            let changed = group == 1 && column == name;
            assert_eq!(chunk(&before, group, column) != chunk(&after, group, column), changed);
        }
    }
    let page = |file: &Bytes, page: usize| {
        let metadata = metadata(file);
        let location = metadata.offset_index().unwrap()[1][name].page_locations[page].clone();
        let start = usize::try_from(location.offset).unwrap();
        file.slice(start..start + usize::try_from(location.compressed_page_size).unwrap())
    };
    for number in [0, 2, 3, 4] {
        assert_eq!(page(&before, number), page(&after, number));
    }
    assert_ne!(page(&before, 1), page(&after, 1));
}

#[tokio::test]
async fn long_texts_have_bounds_around_them() {
    let texts = |char: &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            (0..ROWS).map(|i| format!("{}{i}", char.repeat(90))),
        ))
    };
    let batch = RecordBatch::try_from_iter_with_nullable([("t", texts("m"), true)]).unwrap();
    let new = RecordBatch::try_from_iter_with_nullable([("t", texts("z"), true)]).unwrap();
    for dictionary in [false, true] {
        let before = file(&batch, properties(dictionary, Compression::SNAPPY));
        let after = patched(&before, &[5], &new.slice(5, 1)).await.unwrap();
        assert_eq!(read(&after, None), replaced(&batch, &[5], &new.slice(5, 1)));
        let metadata = metadata(&after);
        let statistics = metadata.row_group(0).column(0).statistics().unwrap();
        let (min, max) = (statistics.min_bytes_opt().unwrap(), statistics.max_bytes_opt().unwrap());
        assert!(min <= "m".repeat(90).as_bytes() && max >= format!("{}5", "z".repeat(90)).as_bytes());
        assert!(!statistics.min_is_exact() && !statistics.max_is_exact());
        assert!(max.len() <= 64);
    }
}

#[tokio::test]
async fn what_is_stored_in_unknown_ways_is_left_to_others() {
    let batch = rows(ROWS, 30, &mut Dice(3));
    let old = properties(false, Compression::SNAPPY)
        .set_writer_version(datafusion::parquet::file::properties::WriterVersion::PARQUET_2_0);
    let old = Original {
        path: Path::from("file"),
        metadata: metadata(&file(&batch, old)),
    };
    assert!(!old.patchable(0));
    let gzip = Original {
        path: Path::from("file"),
        metadata: metadata(&file(&batch, properties(true, Compression::GZIP(Default::default())))),
    };
    assert!(!gzip.patchable(0) && !gzip.patchable(7));
}

/// A file of one row group, whose columns are encoded here where that can be done, in steps of `step` rows. Tells how many
/// columns were.
fn encoded(batch: &RecordBatch, step: usize, dictionary: bool, compression: Compression) -> (Bytes, usize) {
    let layout = FileLayout::data(&batch.schema(), &[], &HashMap::new(), None).unwrap();
    let schema = parquet_schema(&layout).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(dictionary)
        .set_compression(compression);
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema.root_schema_ptr(), Arc::clone(&properties)).unwrap();
    let library = ArrowRowGroupWriterFactory::new(&writer, batch.schema());
    let library = library.create_column_writers(0).unwrap();
    let mut target = writer.next_row_group().unwrap();
    let (mut start, mut ours, mut scratch) = (0, 0, Scratch::default());
    for (place, mut theirs) in library.into_iter().enumerate() {
        let column = batch.column(place);
        let mut encoder = ColumnEncoder::new(schema.column(place), column.data_type(), &properties);
        start = 0;
        while start < batch.num_rows() {
            let rows = step.min(batch.num_rows() - start);
            let part = column.slice(start, rows);
            match &mut encoder {
                Some(encoder) => encoder.write(&part, &mut scratch).unwrap(),
                None => {
                    let leaves = compute_leaves(batch.schema().field(place), &part).unwrap();
                    leaves.iter().for_each(|leaf| theirs.write(leaf).unwrap());
                }
            }
            start += rows;
        }
        match encoder {
            Some(encoder) => {
                assert!(encoder.memory() > 0);
                ours += 1;
                let (part, closed) = encoder.close(&mut scratch).unwrap();
                target.append_column(&part, closed).unwrap();
            }
            None => theirs.close().unwrap().append_to_row_group(&mut target).unwrap(),
        }
    }
    assert_eq!(start, batch.num_rows());
    target.close().unwrap();
    (writer.into_inner().unwrap().into(), ours)
}

#[test]
fn encoded_columns_hold_what_parquets_own_writer_puts_into_them() {
    let mut dice = Dice(11);
    for (count, variety) in [(1, 5), (100, 40), (20_000, 3), (21_000, 1 << 20)] {
        let batch = rows(count, variety, &mut dice);
        for dictionary in [false, true] {
            for (step, compression) in [(8192, Compression::SNAPPY), (777, Compression::UNCOMPRESSED)] {
                let (found, ours) = encoded(&batch, step, dictionary, compression);
                assert_eq!(ours, 12);
                assert_eq!(read(&found, None).columns(), batch.columns());
                let some = [RowSelector::skip(count / 3), RowSelector::select(count / 3)];
                let some = RowSelection::from_iter(some.into_iter().filter(|s| s.row_count > 0));
                let expected = batch.slice(count / 3, if count < 3 { 0 } else { count / 3 });
                if expected.num_rows() > 0 {
                    assert_eq!(read(&found, Some(some)).columns(), expected.columns());
                }
                let library = file(&batch, WriterProperties::builder());
                let (is, should) = (metadata(&found), metadata(&library));
                for (is, should) in is.row_group(0).columns().iter().zip(should.row_group(0).columns()) {
                    let name = is.column_path();
                    let (is, should) = (is.statistics().unwrap(), should.statistics().unwrap());
                    assert_eq!(is.min_bytes_opt(), should.min_bytes_opt(), "{name}");
                    assert_eq!(is.max_bytes_opt(), should.max_bytes_opt(), "{name}");
                    assert_eq!(is.null_count_opt(), should.null_count_opt(), "{name}");
                    assert_eq!(is.min_is_exact(), should.min_is_exact(), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_dictionary_that_is_full_is_followed_by_plain_pages() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..60_000).map(|i| format!("{i:030}"))));
    let batch = RecordBatch::try_from_iter_with_nullable([("t", texts, true)]).unwrap();
    let (found, _) = encoded(&batch, 8192, true, Compression::SNAPPY);
    assert_eq!(read(&found, None), batch);
    let metadata = metadata(&found);
    let chunk = metadata.row_group(0).column(0);
    assert!(chunk.dictionary_page_offset().is_some());
    let encodings: Vec<Encoding> = chunk.encodings().collect();
    assert!(encodings.contains(&Encoding::RLE_DICTIONARY) && encodings.contains(&Encoding::PLAIN));
    // Its pages have no more rows than those that readers skip by.
    let pages = &metadata.offset_index().unwrap()[0][0].page_locations;
    assert!(
        pages
            .windows(2)
            .all(|two| two[1].first_row_index - two[0].first_row_index <= 20_000)
    );
}

#[tokio::test]
async fn pages_of_a_large_dictionary_go_without_it() {
    let texts = |from: i64, count: i64| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            (from..from + count).map(|i| format!("text {i}")),
        ))
    };
    let batch = |from, count| RecordBatch::try_from_iter_with_nullable([("t", texts(from, count), true)]).unwrap();
    let (before, _) = encoded(&batch(0, 70_000), 8192, true, Compression::SNAPPY);
    let dictionary = |file: &Bytes| metadata(file).row_group(0).column(0).dictionary_page_offset();
    // One page of four, then all.
    for (places, kept) in [(vec![30_000], true), (vec![1, 30_000, 44_999, 69_999], false)] {
        let new = batch(-7, i64::try_from(places.len()).unwrap());
        let after = patched(&before, &places, &new).await.unwrap();
        assert_eq!(read(&after, None), replaced(&batch(0, 70_000), &places, &new));
        assert_eq!(dictionary(&after).is_some(), kept);
        let again = patched(&after, &[2], &batch(9, 1)).await.unwrap();
        assert_eq!(read(&again, None), replaced(&read(&after, None), &[2], &batch(9, 1)));
    }
    // What does not change stays as it is.
    let same = patched(&before, &[5, 30_000], &replaced(&batch(5, 2), &[1], &batch(30_000, 1)))
        .await
        .unwrap();
    assert_eq!(
        metadata(&same).row_group(0).compressed_size(),
        metadata(&before).row_group(0).compressed_size()
    );
}

/// A dictionary is left where its values are hardly ever stored twice, and grows where they are.
#[tokio::test]
async fn pages_of_a_dictionary_of_rare_values_go_without_it() {
    for (times, plain) in [(1, true), (2, true), (4, false)] {
        let text = |row: usize| format!("text {}", row / times);
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..30_000).map(text)));
        let batch = RecordBatch::try_from_iter_with_nullable([("t", texts, true)]).unwrap();
        let (before, _) = encoded(&batch, 8192, true, Compression::SNAPPY);
        let new: ArrayRef = Arc::new(StringArray::from_iter_values(["new", "newer"]));
        let new = RecordBatch::try_from_iter_with_nullable([("t", new, true)]).unwrap();
        let places = [7, 25_000];
        let after = patched(&before, &places, &new).await.unwrap();
        assert_eq!(read(&after, None), replaced(&batch, &places, &new), "{times}");
        let dictionary = metadata(&after).row_group(0).column(0).dictionary_page_offset();
        assert_eq!(dictionary.is_none(), plain, "{times}");
    }
}

#[tokio::test]
async fn keys_are_copied_unread() {
    let mut dice = Dice(11);
    let batch = rows(ROWS, EARLY, &mut dice);
    let before = file(&batch, properties(true, Compression::SNAPPY));
    let new = rows(2, 40, &mut dice);
    let keys = ["long", "label", "double"].map(str::to_owned);
    let after = patched_but_for(&keys, &before, &[3, 7], &new).await.unwrap();
    let expected = replaced(&batch, &[3, 7], &new);
    for (number, field) in batch.schema().fields().iter().enumerate() {
        // Equal doubles may differ in their bytes.
        let copied = ["long", "label"].contains(&field.name().as_str());
        let expected = if copied { &batch } else { &expected };
        assert_eq!(
            read(&after, None).column(number),
            expected.column(number),
            "{}",
            field.name()
        );
    }
}
