-- From the root of the repository:
--
--     cargo run --bin alluvium -- -w target/quickstart -f examples/quickstart.sql
--
-- A week of earthquakes comes in two deliveries. The second one brings new quakes, and records of known quakes that
-- seismologists have revised in the meantime.

DROP TABLE IF EXISTS earthquakes;

CREATE TABLE earthquakes (
    id        STRING NOT NULL,
    time      TIMESTAMP,
    updated   TIMESTAMP,
    mag       DOUBLE,
    mag_type  STRING,
    place     STRING,
    type      STRING,
    status    STRING,
    longitude DOUBLE,
    latitude  DOUBLE,
    depth_km  DOUBLE
) USING DELTA;

-- The first delivery: every record is new.
UPSERT INTO earthquakes USING 'examples/data/earthquakes-1.csv' KEYS (id) SEQUENCE BY updated;

-- The second one: 227 quakes are new, 157 records replace older ones. Had a newer record been stored, it would stay.
UPSERT INTO earthquakes USING 'examples/data/earthquakes-2.csv' KEYS (id) SEQUENCE BY updated COMMENT 'second delivery';

-- The second one again, by mistake: nothing changes, nothing is committed.
UPSERT INTO earthquakes USING 'examples/data/earthquakes-2.csv' KEYS (id) SEQUENCE BY updated;

SELECT status, count(*) AS quakes, max(mag) AS strongest FROM earthquakes GROUP BY status ORDER BY status;

DESCRIBE HISTORY earthquakes;
