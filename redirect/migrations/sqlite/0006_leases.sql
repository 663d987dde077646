-- Who shares the partitions of a stream (a topic's generation), and until when that is believed without a word.
CREATE TABLE members (
    stream TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (stream, name)
) STRICT, WITHOUT ROWID;

-- Who reads a partition, and until when nobody else may; generation counts its owners.
CREATE TABLE leases (
    stream     TEXT    NOT NULL,
    part       INTEGER NOT NULL CHECK (part >= 0),
    owner      TEXT    NOT NULL,
    until      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (stream, part)
) STRICT, WITHOUT ROWID;
