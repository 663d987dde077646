-- Edge logs that wait to be taken in, and what became of them: uploads, and objects of watched prefixes. Rows stay, so
-- that what was taken in once is known again.
CREATE TABLE edge_queue (
    id           TEXT    PRIMARY KEY,
    way          TEXT    NOT NULL CHECK (way IN ('upload', 'watched')),
    name         TEXT    NOT NULL,
    -- null: an operator's, for every workspace
    workspace    TEXT    REFERENCES workspaces (name),
    -- null: found out from the first lines
    format       TEXT,
    id_mode      TEXT    NOT NULL,
    keep_unknown INTEGER NOT NULL CHECK (keep_unknown IN (0, 1)),
    source       TEXT,
    object       TEXT    NOT NULL,
    parts        INTEGER NOT NULL CHECK (parts >= 0),
    size         INTEGER NOT NULL CHECK (size >= 0),
    tag          TEXT    NOT NULL,
    stage        TEXT    NOT NULL CHECK (stage IN ('queued', 'running', 'done', 'failed')),
    tries        INTEGER NOT NULL CHECK (tries >= 0),
    summary      TEXT,
    error        TEXT,
    queued_at    INTEGER NOT NULL,
    ended_at     INTEGER,
    -- of a running log: who takes it in, and until when that is believed without a word; of a queued one: not before
    owner        TEXT,
    until        INTEGER NOT NULL
) STRICT;

CREATE INDEX edge_queue_by_turn ON edge_queue (way, stage, queued_at);
CREATE INDEX edge_queue_by_source ON edge_queue (source) WHERE way = 'watched';

-- Continuous sources of edge logs, and how far each has come; null: nothing has come of it yet. through never goes back.
CREATE TABLE edge_sources (
    name    TEXT    PRIMARY KEY,
    watched INTEGER NOT NULL CHECK (watched IN (0, 1)),
    -- 0: a prefix that is no longer watched
    active  INTEGER NOT NULL CHECK (active IN (0, 1)),
    through INTEGER
) STRICT, WITHOUT ROWID;
