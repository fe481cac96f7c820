//! Gathered values against those that Arrow's reader has.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
    new_null_array,
};
use datafusion::arrow::compute::{cast, concat_batches, take};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::basic::{Compression, Encoding, ZstdLevel};
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use datafusion::parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};

use super::chunk::{Chunk, Scratch};
use super::file::{LateFile, Place};
use super::form::Form;
use crate::scan::tasks::ScanTask;

/// The rows of a row group.
const GROUP: usize = 400;

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

    /// Ascending places, about one in `step`.
    fn places(&mut self, rows: usize, step: u64) -> Vec<usize> {
        (0..rows).filter(|_| self.next(step) == 0).collect()
    }
}

/// How many rows are NULL.
#[derive(Debug, Clone, Copy)]
enum Nulls {
    Never,
    /// Some, one by one.
    Scattered,
    /// Long runs of NULLs and of values.
    Runs,
    Always,
}

/// `count` numbers of `variety` different ones, and NULLs.
fn numbers(count: usize, variety: u64, nulls: Nulls, dice: &mut Dice) -> Vec<Option<i64>> {
    let number = |row: usize| {
        let number = i64::try_from(dice.next(variety)).unwrap() - 3;
        let is_null = match nulls {
            Nulls::Never => false,
            Nulls::Scattered => dice.next(5) == 0,
            Nulls::Runs => row / 70 % 2 == 1,
            Nulls::Always => true,
        };
        (!is_null).then_some(number)
    };
    (0..count).map(number).collect()
}

/// A column of every type that is gathered.
fn columns(numbers: &[Option<i64>]) -> Vec<(&'static str, ArrayRef)> {
    let ints: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    let small: ArrayRef = Arc::new(numbers.iter().map(|n| n.map(|n| n % 100)).collect::<Int64Array>());
    let to = |array: &ArrayRef, data_type: DataType| cast(array, &data_type).unwrap();
    let double = |n: i64| f64::from(i32::try_from(n).unwrap()) / 8.0;
    let text = |n: i64| match n % 11 {
        0 => String::new(),
        1 => format!("{n}-{}", "long ".repeat(60)),
        n => format!("é{n}"),
    };
    let decimal = |precision, scale, factor: i128| -> ArrayRef {
        let values = numbers.iter().map(|n| n.map(|n| i128::from(n) * factor));
        let values = values.collect::<Decimal128Array>();
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    };
    let times = TimestampMicrosecondArray::from(numbers.to_vec());
    let floats = numbers
        .iter()
        .map(|n| n.map(|n| f32::from(i16::try_from(n % 1000).unwrap())));
    vec![
        (
            "flag",
            Arc::new(numbers.iter().map(|n| n.map(|n| n % 3 == 0)).collect::<BooleanArray>()),
        ),
        ("tiny", to(&small, DataType::Int8)),
        ("short", to(&small, DataType::Int16)),
        ("int", to(&ints, DataType::Int32)),
        ("long", ints.clone()),
        ("float", Arc::new(floats.collect::<Float32Array>())),
        (
            "double",
            Arc::new(numbers.iter().map(|n| n.map(double)).collect::<Float64Array>()),
        ),
        ("day", to(&to(&ints, DataType::Int32), DataType::Date32)),
        ("utc", Arc::new(times.clone().with_timezone("UTC"))),
        ("local", Arc::new(times)),
        (
            "text",
            Arc::new(numbers.iter().map(|n| n.map(text)).collect::<StringArray>()),
        ),
        (
            "bytes",
            Arc::new(
                numbers
                    .iter()
                    .map(|n| n.map(|n| n.to_be_bytes()))
                    .collect::<BinaryArray>(),
            ),
        ),
        ("money", decimal(9, 2, 3)),
        ("wealth", decimal(18, 4, -1_000_003)),
        ("fortune", decimal(38, 10, 1_000_000_000_000_000_000_007)),
    ]
}

/// The same as a batch, of columns that cannot be NULL unless they are.
fn batch(numbers: &[Option<i64>], nulls: Nulls) -> RecordBatch {
    let nullable = !matches!(nulls, Nulls::Never);
    let columns = columns(numbers)
        .into_iter()
        .map(|(name, array)| (name, array, nullable));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// A file of `batch`.
fn written(batch: &RecordBatch, properties: WriterProperties) -> Bytes {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}

fn metadata(bytes: &Bytes) -> ParquetMetaData {
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
    reader.parse_and_finish(bytes).unwrap()
}

fn opened(bytes: &Bytes, schema: &Arc<Schema>) -> LateFile {
    let task = ScanTask {
        ordinal: 0,
        path: "file".to_owned(),
        size: u64::try_from(bytes.len()).unwrap(),
        range: None,
        rows: None,
        modification_time: 0,
        partition_values: Vec::new(),
        deletion_vector: None,
    };
    LateFile::new(task, Arc::new(metadata(bytes)), schema)
}

/// The parts of a file that a chunk's `wanted` rows need, and these rows.
fn gathered(bytes: &Bytes, chunk: &Chunk<'_>, wanted: &[usize], of: &DataType) -> Option<(ArrayRef, usize)> {
    let reading = chunk.reading(wanted)?;
    let small = |byte: u64| usize::try_from(byte).unwrap();
    let ranges = reading.ranges.iter();
    let parts: Vec<Bytes> = ranges
        .map(|range| bytes.slice(small(range.start)..small(range.end)))
        .collect();
    chunk.gather(&reading, &parts, wanted, of, &mut Scratch::default())
}

/// Compares rows of all sorts of density with what Arrow reads. Gives the number of pages that were unpacked.
fn check(bytes: &Bytes, schema: &Arc<Schema>, dice: &mut Dice, case: &str) -> usize {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.clone())
        .unwrap()
        .build()
        .unwrap();
    let all = concat_batches(schema, &reader.map(Result::unwrap).collect::<Vec<_>>()).unwrap();
    let file = opened(bytes, schema);
    let groups = metadata(bytes).num_row_groups();
    let (mut first, mut unpacked) = (0, 0);
    for group in 0..groups {
        let rows = file.group_rows(group);
        for step in [1, 6, 90] {
            let wanted = dice.places(rows, step);
            let places: UInt64Array = wanted
                .iter()
                .map(|row| Some(u64::try_from(first + row).unwrap()))
                .collect();
            for (field, place) in schema.fields().iter().zip(file.places().expect(case)) {
                let Place::Stored(column, form) = place else {
                    panic!("{case}: {} is missing", field.name());
                };
                let chunk = file.chunk(group, *column, *form).unwrap();
                let found = gathered(bytes, &chunk, &wanted, field.data_type());
                let (found, pages) = found.unwrap_or_else(|| panic!("{case}: {}", field.name()));
                unpacked += pages;
                let known = take(all.column_by_name(field.name()).unwrap(), &places, None).unwrap();
                assert_eq!(
                    found.as_ref(),
                    known.as_ref(),
                    "{case}: {}, one in {step}",
                    field.name()
                );
            }
        }
        first += rows;
    }
    unpacked
}

fn properties(compression: Compression, dictionary: bool, version: WriterVersion) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(compression)
        .set_dictionary_enabled(dictionary)
        .set_writer_version(version)
        .set_encoding(Encoding::PLAIN)
        .set_write_batch_size(64)
        .set_data_page_row_count_limit(130)
        .set_max_row_group_row_count(Some(GROUP))
}

#[test]
fn gathered_values_are_those_that_arrow_reads() {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3).unwrap());
    let mut dice = Dice(17);
    for nulls in [Nulls::Never, Nulls::Scattered, Nulls::Runs, Nulls::Always] {
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd] {
            for (dictionary, variety) in [(false, 1_000_000), (true, 2), (true, 40), (true, 1_000_000)] {
                for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                    let case = format!("{nulls:?} {compression} {dictionary} {variety} {version:?}");
                    let batch = batch(&numbers(2 * GROUP + 50, variety, nulls, &mut dice), nulls);
                    let builder = properties(compression, dictionary, version);
                    // A dictionary that is full turns the pages behind it plain.
                    let builder = builder.set_dictionary_page_size_limit(600);
                    let bytes = written(&batch, builder.build());
                    check(&bytes, &batch.schema(), &mut dice, &case);
                }
            }
        }
    }
}

#[test]
fn chunks_without_page_locations_are_walked() {
    let mut dice = Dice(3);
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let batch = batch(
            &numbers(2 * GROUP + 50, 50, Nulls::Scattered, &mut dice),
            Nulls::Scattered,
        );
        let builder = properties(Compression::SNAPPY, true, version)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        let bytes = written(&batch, builder.build());
        assert!(metadata(&bytes).offset_index().is_none());
        check(&bytes, &batch.schema(), &mut dice, "walked");
    }
}

#[test]
fn pages_without_a_wanted_row_are_neither_read_nor_unpacked() {
    let numbers: Vec<Option<i64>> = (0..400).map(Some).collect();
    let batch = batch(&numbers, Nulls::Never);
    for dictionary in [false, true] {
        let builder = properties(Compression::SNAPPY, dictionary, WriterVersion::PARQUET_1_0);
        let bytes = written(&batch, builder.build());
        let file = opened(&bytes, &batch.schema());
        let column = batch.schema().index_of("long").unwrap();
        let chunk = file.chunk(0, column, Form::Fixed(8)).unwrap();
        let pages = usize::from(dictionary);
        let reading = chunk.reading(&[300]).unwrap();
        assert_eq!(reading.ranges.len(), 1 + pages);
        assert!(reading.bytes() < chunk.metadata.byte_range().1);
        let (values, unpacked) = gathered(&bytes, &chunk, &[300], &DataType::Int64).unwrap();
        let wanted: ArrayRef = Arc::new(Int64Array::from(vec![300]));
        assert_eq!((&values, unpacked), (&wanted, 1 + pages));
        assert!(
            gathered(&bytes, &chunk, &[400], &DataType::Int64).is_none(),
            "no such row"
        );
        let (values, unpacked) = gathered(&bytes, &chunk, &[], &DataType::Int64).unwrap();
        assert_eq!((values.len(), unpacked), (0, pages));
    }
}

#[test]
fn what_is_damaged_is_refused() {
    let mut dice = Dice(5);
    for dictionary in [false, true] {
        let batch = batch(&numbers(150, 40, Nulls::Scattered, &mut dice), Nulls::Scattered);
        let builder = properties(Compression::SNAPPY, dictionary, WriterVersion::PARQUET_1_0);
        let bytes = written(&batch, builder.build());
        let file = opened(&bytes, &batch.schema());
        let wanted = dice.places(150, 9);
        for (field, place) in batch.schema().fields().iter().zip(file.places().unwrap()) {
            let Place::Stored(column, form) = place else {
                panic!("{} is missing", field.name());
            };
            let chunk = file.chunk(0, *column, *form).unwrap();
            let reading = chunk.reading(&wanted).unwrap();
            let small = |byte: u64| usize::try_from(byte).unwrap();
            let part = |range: &std::ops::Range<u64>| bytes.slice(small(range.start)..small(range.end));
            let parts: Vec<Bytes> = reading.ranges.iter().map(part).collect();
            for (number, length) in (0..parts.len()).flat_map(|n| (0..parts[n].len()).map(move |length| (n, length))) {
                let mut cut = parts.clone();
                cut[number] = cut[number].slice(..length);
                let found = chunk.gather(&reading, &cut, &wanted, field.data_type(), &mut Scratch::default());
                assert!(found.is_none(), "{}, {length} bytes", field.name());
            }
            // Other bytes may be other values, but neither more nor fewer, and nothing worse.
            for _ in 0..300 {
                let mut other = parts.clone();
                let number = small(dice.next(u64::try_from(other.len()).unwrap()));
                let mut changed = other[number].to_vec();
                let at = small(dice.next(u64::try_from(changed.len()).unwrap()));
                changed[at] ^= 1 << dice.next(8);
                other[number] = changed.into();
                let found = chunk.gather(&reading, &other, &wanted, field.data_type(), &mut Scratch::default());
                assert!(found.is_none_or(|(values, _)| values.len() == wanted.len()));
            }
        }
    }
}

#[test]
fn what_is_stored_in_other_ways_is_left_alone() {
    let rows = numbers(100, 1_000, Nulls::Scattered, &mut Dice(1));
    let batch = batch(&rows, Nulls::Scattered);
    let properties = || WriterProperties::builder().set_compression(Compression::SNAPPY);
    let places = |bytes: &Bytes, name: &str, data_type: DataType| {
        let schema = Arc::new(Schema::new(vec![Field::new(name, data_type, true)]));
        opened(bytes, &schema).places().map(<[_]>::to_vec)
    };
    let plain = written(&batch, properties().build());
    assert!(places(&plain, "long", DataType::Int64).is_some());
    // Other types than the table's, which have to be cast.
    for (name, data_type) in [
        ("int", DataType::Int64),
        ("short", DataType::Int8),
        ("float", DataType::Float64),
        ("day", DataType::Int32),
        ("local", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        ("utc", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("utc", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))),
        ("long", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("text", DataType::Binary),
        ("bytes", DataType::Utf8),
        ("money", DataType::Decimal128(10, 2)),
        ("money", DataType::Int32),
        ("LONG", DataType::Int64),
    ] {
        assert!(
            places(&plain, name, data_type.clone()).is_none(),
            "{name} as {data_type}"
        );
    }
    // Other encodings and compressions.
    for properties in [
        properties()
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BINARY_PACKED),
        properties()
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::BYTE_STREAM_SPLIT),
        properties().set_compression(Compression::LZ4_RAW),
    ] {
        let one = batch.project(&[batch.schema().index_of("long").unwrap()]).unwrap();
        assert!(places(&written(&one, properties.build()), "long", DataType::Int64).is_none());
    }
    // Numbers without a sign.
    let unsigned: ArrayRef = Arc::new(UInt32Array::from(vec![1, u32::MAX]));
    let unsigned = RecordBatch::try_from_iter([("int", unsigned)]).unwrap();
    let unsigned = written(&unsigned, properties().build());
    assert!(places(&unsigned, "int", DataType::Int32).is_none());
    // A smaller number fits into a larger type, and a column that is not there is NULL.
    assert!(places(&plain, "tiny", DataType::Int16).is_some());
    let missing = places(&plain, "new", DataType::Int16).unwrap();
    assert!(matches!(missing.as_slice(), [Place::Missing]));
}

#[test]
fn smaller_numbers_become_larger_types() {
    let tiny: ArrayRef = Arc::new(Int8Array::from(vec![Some(-128), None, Some(127)]));
    let bytes = written(
        &RecordBatch::try_from_iter([("n", tiny)]).unwrap(),
        WriterProperties::new(),
    );
    let wanted: [(DataType, ArrayRef); 3] = [
        (DataType::Int8, Arc::new(Int8Array::from(vec![-128, 127]))),
        (DataType::Int16, Arc::new(Int16Array::from(vec![-128, 127]))),
        (DataType::Int32, Arc::new(Int32Array::from(vec![-128, 127]))),
    ];
    for (data_type, wanted) in wanted {
        let schema = Arc::new(Schema::new(vec![Field::new("n", data_type.clone(), true)]));
        let file = opened(&bytes, &schema);
        let Some([Place::Stored(column, form)]) = file.places() else {
            panic!("{data_type}");
        };
        let chunk = file.chunk(0, *column, *form).unwrap();
        let (found, _) = gathered(&bytes, &chunk, &[0, 2], &data_type).unwrap();
        assert_eq!(&found, &wanted);
        let (found, _) = gathered(&bytes, &chunk, &[1], &data_type).unwrap();
        assert_eq!(&found, &new_null_array(&data_type, 1));
    }
}

#[test]
fn rows_are_found_in_their_row_group() {
    let batch = batch(&numbers(1_000, 10, Nulls::Never, &mut Dice(2)), Nulls::Never);
    let builder = properties(Compression::SNAPPY, true, WriterVersion::PARQUET_1_0);
    let file = opened(&written(&batch, builder.build()), &batch.schema());
    assert_eq!(file.rows(), 1_000);
    for (row, wanted) in [(0, (0, 0)), (399, (0, 0)), (400, (1, 400)), (999, (2, 800))] {
        assert_eq!(file.group_of(row).unwrap(), wanted);
    }
    assert!(file.group_of(1_000).is_err());
}

#[test]
fn dates_are_days() {
    let days: ArrayRef = Arc::new(Date32Array::from(vec![-1, 0, 20_000]));
    let batch = RecordBatch::try_from_iter([("d", days)]).unwrap();
    check(
        &written(&batch, WriterProperties::new()),
        &batch.schema(),
        &mut Dice(1),
        "days",
    );
}
