-- What holds processes up that bring clicks on their way into the lake, by who says so, and when that was said last.
CREATE TABLE troubles (
    process TEXT    NOT NULL PRIMARY KEY,
    why     TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
