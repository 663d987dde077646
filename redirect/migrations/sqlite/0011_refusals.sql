-- What an operator has put in place that a process doesn't take because it is wrong, and when that was said last.
CREATE TABLE refusals (
    process TEXT    NOT NULL,
    what    TEXT    NOT NULL,
    why     TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (process, what)
) STRICT, WITHOUT ROWID;
