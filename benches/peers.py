# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "deltalake==1.6.6",
#     "duckdb==1.5.5",
#     "duckdb-extension-delta==1.5.5",
#     "duckdb-extension-ducklake==1.5.5",
#     "pandas==3.1.1",
#     "polars==2.1.0",
#     "pyarrow==26.0.1",
#     "pysail==0.7.2",
#     "pyspark-client==4.2.0",
# ]
# ///
"""The command line beside DuckLake, Sail and Polars, on the tables and sources that the report keeps with --work.

    cargo build --release -p alluvium-cli
    cargo run --release -p alluvium-benches -- --rows 10000000 --only-ours --reps 1 --no-usage --work lab
    uv run benches/peers.py --rows 10000000 --work lab

uv installs what the head of this file names; any Python that has it does.

Each measurement is one process and one fresh copy of the table, with the files warm in the page cache. Engines take
turns, and each repetition begins with another one. Of ours the whole process is timed, start included; of the others
what lies between opening the table and the commit, without imports, servers and connections.

- alluvium: one statement, on a table with deletion vectors
- ducklake: DuckDB and its own table format, which keeps deletions in files of their own; the same rows in as many files
- sail: Spark's SQL, on a table with deletion vectors
- polars: an anti join with the keys of the source's range, and an append; insert-only loads and nothing else

After the first run of each engine DuckDB reads the table: the number of rows, and the sum of their versions or in a
history the number of current ones, must be those that follow from table and source.
"""

import argparse
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from multiprocessing import get_context
from pathlib import Path

LOADS = {
    **dict.fromkeys(("w1", "w2", "w3", "w10", "w12"), "upsert"),
    **dict.fromkeys(("w4", "w4c", "w5"), "insert only"),
    "w7": "history",
    "w9": "newest",
}
VALIDITY = "updated_at AS valid_from, CAST(NULL AS TIMESTAMP) AS valid_to, true AS is_current"
CLOSE = "UPDATE SET valid_to = s.updated_at, is_current = false"


@dataclass
class Load:
    """What is done to which table (a directory) with which source (a Parquet file)."""

    kind: str
    table: str
    source: str


def alluvium(load: Load) -> str:
    """The statement, in a warehouse in which the table is `t`."""
    history = "TRACK HISTORY ON (row_hash) VALIDITY COLUMNS (valid_from, valid_to, is_current)"
    verb, clauses = {
        "upsert": ("UPSERT", "KEYS (id)"),
        "insert only": ("INSERT ONLY", "KEYS (id)"),
        "newest": ("MERGE OVERWRITE", "KEYS (id) DEDUPLICATE ON (id) BY updated_at DESC"),
        # As the others do, it trusts the hash.
        "history": ("SCD2 MERGE", f"KEYS (id) SEQUENCE BY updated_at {history} OPTIONS ('merge.compare' 'tracked')"),
    }[load.kind]
    return f"{verb} INTO t USING '{load.source}' {clauses}"


# The others do first what is not timed, and return what is.


def ducklake(load: Load):
    source = f"read_parquet('{load.source}')"
    newest = f"(FROM {source} QUALIFY row_number() OVER (PARTITION BY id ORDER BY updated_at DESC) = 1)"
    merge = "MERGE INTO lake.t AS t USING {} AS s ON t.id = s.id "
    update, insert = "WHEN MATCHED THEN UPDATE ", "WHEN NOT MATCHED THEN INSERT BY NAME"
    current = "(FROM lake.t WHERE is_current)"
    statements = {
        "upsert": [merge.format(source) + update + insert],
        "insert only": [merge.format(source) + insert],
        "newest": [merge.format(newest) + update + insert],
        "history": [
            f"CREATE TEMP TABLE changes AS FROM {source} ANTI JOIN {current} USING (id, row_hash)",
            merge.format("changes") + f"AND t.is_current WHEN MATCHED THEN {CLOSE}",
            f"INSERT INTO lake.t BY NAME SELECT *, {VALIDITY} FROM changes",
        ],
    }[load.kind]
    database = duckdb_with("ducklake")

    def run():
        attach(database, load.table)
        for statement in ["BEGIN", *statements, "COMMIT"]:
            database.execute(statement)

    return run


def sail(load: Load):
    os.environ.setdefault("RUST_LOG", "error")
    from pyarrow.parquet import read_schema
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    spark = SparkSession.builder.remote("sc://{}:{}".format(*server.listening_address)).getOrCreate()
    spark.client.set_retry_policies([])  # an error is an error: the client would repeat the query for many minutes
    spark.sql("SELECT 1").collect()  # the session is made with the first query
    columns = ", ".join(read_schema(load.source).names)
    table, source, stage = f"delta.`{load.table}`", f"parquet.`{load.source}`", f"parquet.`{load.table}.changes`"
    merge = f"MERGE INTO {table} AS t USING ({{}}) AS s ON t.id = s.{{}} "
    update, insert = "WHEN MATCHED THEN UPDATE SET * ", "WHEN NOT MATCHED THEN INSERT *"
    numbered = f"SELECT *, row_number() OVER (PARTITION BY id ORDER BY updated_at DESC) AS place FROM {source}"
    # A change comes twice: with its key, to close the stored version, and without one, to be inserted.
    twice = (
        f"SELECT stored_id, {columns}, {VALIDITY} FROM {stage} WHERE stored_id IS NOT NULL "
        f"UNION ALL SELECT CAST(NULL AS BIGINT), {columns}, {VALIDITY} FROM {stage}"
    )
    statement = {
        "upsert": merge.format(f"SELECT * FROM {source}", "id") + update + insert,
        "insert only": merge.format(f"SELECT * FROM {source}", "id") + insert,
        "newest": merge.format(f"SELECT {columns} FROM ({numbered}) WHERE place = 1", "id") + update + insert,
        "history": merge.format(twice, "stored_id") + f"AND t.is_current WHEN MATCHED THEN {CLOSE} {insert}",
    }[load.kind]
    current = f"SELECT id AS stored_id, row_hash AS stored_hash FROM {table} WHERE is_current"
    changes = (
        f"SELECT * FROM {source} LEFT JOIN ({current}) ON id = stored_id "
        "WHERE stored_id IS NULL OR stored_hash <> row_hash"
    )

    def run():
        if load.kind == "history":  # kept in a file, as the merge would find them again for each use
            spark.sql(changes).write.parquet(f"{load.table}.changes")
        spark.sql(statement).collect()

    run.server = server  # it stops when nobody holds it
    return run


def polars(load: Load):
    import polars as pl
    from deltalake import write_deltalake

    def run():
        source = pl.scan_parquet(load.source)
        ends = source.select(low=pl.min("id"), high=pl.max("id")).collect().row(0)
        stored = pl.scan_delta(load.table).filter(pl.col("id").is_between(*ends)).select("id")
        new = source.join(stored, on="id", how="anti").collect(engine="streaming")
        write_deltalake(load.table, new, mode="append")

    return run


PEERS = {"ducklake": ducklake, "sail": sail, "polars": polars}


def duckdb_with(extension: str):
    """A DuckDB with an extension from its wheel."""
    import duckdb

    wheel = importlib.import_module(f"duckdb_extension_{extension}")
    file = f"extensions/v{duckdb.__version__}/{extension}.duckdb_extension"
    database = duckdb.connect()
    database.execute(f"LOAD '{Path(wheel.__file__).parent / file}'")
    return database


def attach(database, table):
    options = f"DATA_PATH '{table}/data/', OVERRIDE_DATA_PATH true"
    database.execute(f"ATTACH 'ducklake:{table}/catalog.db' AS lake ({options})")


def table_of(workload: str, args) -> Path:
    """The table as the report wrote it, without deletion vectors."""
    half = max(args.files // 2, 1)
    names = {"w7": f"history-{args.rows // 2}-in-{half}", "w12": f"wide-{args.rows // 20}-in-{half}"}
    return args.work / names.get(workload, f"table-{args.rows}-in-{args.files}")


def source_of(workload: str, args) -> Path:
    found = sorted(args.work.glob(f"source-{workload}-*-of-{args.rows}/00.parquet"))
    # The report keeps sources of another size, too, if it was asked for them.
    usual = [path for path in found if "-one-in-" in path.parent.name]
    (source,) = usual or found
    return source


def layout_for(engine: str, table: Path) -> Path:
    """The table that is copied for an engine. DuckLake's is written when it is first needed, file by file."""
    match engine:
        case "polars":
            return table
        case "alluvium" | "sail":
            return table.with_name(f"{table.name}-with-vectors")
    lake = table.with_name(f"{table.name}-as-ducklake")
    if not lake.is_dir():
        with tempfile.TemporaryDirectory(dir=table.parent) as unfinished:
            database = duckdb_with("ducklake")
            attach(database, unfinished)
            database.execute("CALL lake.set_option('parquet_compression', 'snappy')")
            database.execute(f"CREATE TABLE lake.t AS FROM read_parquet('{table}/*.parquet') LIMIT 0")
            for file in table.glob("*.parquet"):
                database.execute(f"INSERT INTO lake.t FROM read_parquet('{file}')")
            database.close()
            shutil.copytree(unfinished, lake)
    return lake


def link_or_copy(source: str, copy: str):
    """Data files never change; logs and catalogs may."""
    (os.link if source.endswith(".parquet") else shutil.copy2)(source, copy)


def expected(load: Load, original: Path) -> tuple:
    """Rows after the load, and the sum of their versions or the number of current ones."""
    after = {
        "upsert": "SELECT ver AS mark FROM t ANTI JOIN s USING (id) UNION ALL SELECT ver FROM s",
        "insert only": "SELECT ver AS mark FROM t UNION ALL SELECT ver FROM s ANTI JOIN t USING (id)",
        "newest": "SELECT ver AS mark FROM t ANTI JOIN s USING (id) UNION ALL SELECT max(ver) FROM s GROUP BY id",
        "history": "WITH new AS (FROM s ANTI JOIN (FROM t WHERE is_current) USING (id, row_hash)) "
        "SELECT (is_current AND id NOT IN (SELECT id FROM new))::INT AS mark FROM t UNION ALL SELECT 1 FROM new",
    }[load.kind]
    database = duckdb_with("delta")
    database.execute(f"CREATE VIEW t AS FROM read_parquet('{original}/*.parquet')")
    database.execute(f"CREATE VIEW s AS FROM read_parquet('{load.source}')")
    return database.execute(f"SELECT count(*), sum(mark) FROM ({after})").fetchone()


def found(engine: str, load: Load) -> tuple:
    """The same, in the table that the engine left behind."""
    database = duckdb_with("ducklake" if engine == "ducklake" else "delta")
    if engine == "ducklake":
        attach(database, load.table)
    table = "lake.t" if engine == "ducklake" else f"delta_scan('{load.table}')"
    mark = "is_current::INT" if load.kind == "history" else "ver"
    return database.execute(f"SELECT count(*), sum({mark}) FROM {table}").fetchone()


def measure(engine: str, load: Load, args) -> tuple[float, float]:
    """Seconds and peak memory in MiB of one load in a process of its own."""
    command = [sys.executable, __file__, "--load", json.dumps([engine, *astuple(load)])]
    if engine == "alluvium":
        command = [args.alluvium, "--warehouse", Path(load.table).parent, "--command", alluvium(load)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            raise RuntimeError(f"{engine} failed on {load.source}:\n{errors.read()}")
        if engine != "alluvium":
            output.seek(0)
            seconds = float(output.read().split()[-1])
    return seconds, usage.ru_maxrss / 1024


def run_in_this_process(engine: str, *load: str):
    run = PEERS[engine](Load(*load))
    started = time.perf_counter()
    run()
    print(time.perf_counter() - started, flush=True)
    os._exit(0)  # Sail's server has threads that do not end


def apart(function, *arguments):
    """What the function gives back, in a process of its own: no process has a lower peak than the one that began it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def runs_of(workload: str, engines: list[str], args) -> dict[str, list]:
    """All runs of a workload, by engine."""
    kind, original, source = LOADS[workload], table_of(workload, args), source_of(workload, args)
    engines = [engine for engine in engines if engine != "polars" or kind == "insert only"]
    runs = {engine: [] for engine in engines}
    for repetition in range(args.reps):
        first = repetition % len(engines)
        for engine in engines[first:] + engines[:first]:
            with tempfile.TemporaryDirectory(dir=args.work, prefix="run-") as scratch:
                load = Load(kind, f"{scratch}/t", str(source))
                shutil.copytree(apart(layout_for, engine, original), load.table, copy_function=link_or_copy)
                os.sync()
                runs[engine].append(measure(engine, load, args))
                print(workload, engine, *runs[engine][-1], file=sys.stderr)
                if repetition > 0:
                    continue
                if (got := apart(found, engine, load)) != (want := apart(expected, load, original)):
                    raise RuntimeError(f"{engine} left {got} in the table of {workload} instead of {want}")
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="directory of the report's --work")
    parser.add_argument("--rows", type=int, default=1_000_000, help="the report's --rows (1000000)")
    parser.add_argument("--files", type=int, default=32, help="the report's --files (32)")
    parser.add_argument("--reps", type=int, default=3, help="runs of each engine and workload (3)")
    parser.add_argument("--workload", default=",".join(LOADS), help="workloads, separated by commas")
    parser.add_argument("--against", default=",".join(PEERS), help="engines, separated by commas")
    parser.add_argument("--alluvium", default="target/release/alluvium", help="the binary (target/release/alluvium)")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        run_in_this_process(*json.loads(args.load))
    if not args.work:
        parser.error("--work is missing")
    args.work = args.work.resolve()
    print("| workload | engine | median s | x ours | peak MiB |\n|---|---|---:|---:|---:|")
    for workload in args.workload.split(","):
        runs = runs_of(workload, ["alluvium", *args.against.split(",")], args)
        ours = statistics.median(seconds for seconds, _ in runs["alluvium"])
        for engine, measured in runs.items():
            seconds, peak = (statistics.median(column) for column in zip(*measured, strict=True))
            print(f"| {workload} | {engine} | {seconds:.3f} | {seconds / ours:.2f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
