-- What the lake holds of journals that go through a topic.

-- The present life of each topic.
CREATE TABLE topics (
    topic      TEXT   COLLATE "C" PRIMARY KEY,
    generation TEXT   COLLATE "C" NOT NULL,
    partitions BIGINT NOT NULL CHECK (partitions > 0),
    begun_at   BIGINT NOT NULL
);

-- A journal has rows of one generation, one for each of its partitions. Positions from covered up to before missing_to are
-- to be sent again, once for each number in asked; missing_to is 0 when nothing is missing.
CREATE TABLE coverage (
    journal    TEXT   COLLATE "C" NOT NULL REFERENCES journals (id),
    part       BIGINT NOT NULL,
    generation TEXT   COLLATE "C" NOT NULL,
    covered    BIGINT NOT NULL CHECK (covered >= 0),
    through    BIGINT NOT NULL,
    ended      BIGINT NOT NULL,
    missing_to BIGINT NOT NULL,
    asked      BIGINT NOT NULL,
    PRIMARY KEY (journal, part)
);

-- How far the lake is with each partition, for status.
CREATE TABLE topic_reached (
    generation TEXT   COLLATE "C" NOT NULL,
    part       BIGINT NOT NULL,
    next_at    BIGINT NOT NULL,
    end_at     BIGINT NOT NULL,
    PRIMARY KEY (generation, part)
);
