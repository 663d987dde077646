-- Who shares the partitions of a stream (a topic's generation), and until when that is believed without a word.
CREATE TABLE members (
    stream TEXT   COLLATE "C" NOT NULL,
    name   TEXT   COLLATE "C" NOT NULL,
    until  BIGINT NOT NULL,
    PRIMARY KEY (stream, name)
);

-- Who reads a partition, and until when nobody else may; generation counts its owners.
CREATE TABLE leases (
    stream     TEXT   COLLATE "C" NOT NULL,
    part       BIGINT NOT NULL CHECK (part >= 0),
    owner      TEXT   COLLATE "C" NOT NULL,
    until      BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    PRIMARY KEY (stream, part)
);
