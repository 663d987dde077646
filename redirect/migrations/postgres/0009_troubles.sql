-- What holds processes up that bring clicks on their way into the lake, by who says so, and when that was said last.
CREATE TABLE troubles (
    process TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    why     TEXT   COLLATE "C" NOT NULL,
    at      BIGINT NOT NULL
);
