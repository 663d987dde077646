-- What the lake holds of journals that go through a topic.

-- The present life of each topic.
CREATE TABLE topics (
    topic      TEXT    PRIMARY KEY,
    generation TEXT    NOT NULL,
    partitions INTEGER NOT NULL CHECK (partitions > 0),
    begun_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A journal has rows of one generation, one for each of its partitions. Positions from covered up to before missing_to are
-- to be sent again, once for each number in asked; missing_to is 0 when nothing is missing.
CREATE TABLE coverage (
    journal    TEXT    NOT NULL REFERENCES journals (id),
    part       INTEGER NOT NULL,
    generation TEXT    NOT NULL,
    covered    INTEGER NOT NULL CHECK (covered >= 0),
    through    INTEGER NOT NULL,
    ended      INTEGER NOT NULL,
    missing_to INTEGER NOT NULL,
    asked      INTEGER NOT NULL,
    PRIMARY KEY (journal, part)
) STRICT, WITHOUT ROWID;

-- How far the lake is with each partition, for status.
CREATE TABLE topic_reached (
    generation TEXT    NOT NULL,
    part       INTEGER NOT NULL,
    next_at    INTEGER NOT NULL,
    end_at     INTEGER NOT NULL,
    PRIMARY KEY (generation, part)
) STRICT, WITHOUT ROWID;
