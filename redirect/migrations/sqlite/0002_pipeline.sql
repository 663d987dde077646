-- What the pipeline keeps here: the registry of journals, what has been published from it, the keys of visitors.

CREATE TABLE journals (
    id            TEXT    PRIMARY KEY,
    node          TEXT    NOT NULL,
    registered_at INTEGER NOT NULL,
    state         TEXT    NOT NULL CHECK (state IN ('open', 'closed', 'retired')),
    through       INTEGER NOT NULL,
    committed     INTEGER NOT NULL CHECK (committed >= 0)
) STRICT;

-- complete_through and final_through; neither ever goes back.
CREATE TABLE published (
    name TEXT    PRIMARY KEY,
    at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- made_on: the UTC day a key was made, later than day for the one new key of a past day.
CREATE TABLE visitor_keys (
    day     INTEGER PRIMARY KEY,
    secret  BLOB    NOT NULL CHECK (length(secret) = 16),
    made_on INTEGER NOT NULL
) STRICT;
