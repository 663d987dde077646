-- Billed clicks that journals have lost, as their nodes tell, and how many of them are in rows of table gaps.
CREATE TABLE losses (
    journal  TEXT    PRIMARY KEY,
    lost     INTEGER NOT NULL CHECK (lost >= 0),
    at_least INTEGER NOT NULL CHECK (at_least >= 0),
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    why      TEXT    NOT NULL,
    recorded INTEGER NOT NULL CHECK (recorded >= 0)
) STRICT, WITHOUT ROWID;
