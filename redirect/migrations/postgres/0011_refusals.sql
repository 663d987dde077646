-- What an operator has put in place that a process doesn't take because it is wrong, and when that was said last.
CREATE TABLE refusals (
    process TEXT   COLLATE "C" NOT NULL,
    what    TEXT   COLLATE "C" NOT NULL,
    why     TEXT   COLLATE "C" NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (process, what)
);
