-- The link store as of migration 4 of SQLite's; from here on the two go side by side, under the same numbers.
-- Instants are microseconds since 1970, UTC; ids are UUIDs as text; closed vocabularies are words of crate schemas.
-- Texts are compared by their bytes, whatever the database's locale says, as SQLite does.

CREATE TABLE workspaces (
    name       TEXT   COLLATE "C" PRIMARY KEY,
    created_at BIGINT NOT NULL
);

INSERT INTO workspaces (name, created_at) VALUES ('default', floor(extract(epoch FROM now()))::bigint * 1000000);

-- Only the SHA-256 of a token is kept. An operator's has no workspace.
CREATE TABLE tokens (
    sha256     BYTEA  PRIMARY KEY CHECK (length(sha256) = 32),
    workspace  TEXT   COLLATE "C" REFERENCES workspaces (name),
    scope      TEXT   NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
    created_at BIGINT NOT NULL,
    CHECK (workspace IS NOT NULL OR scope = 'admin')
);

-- A row is never removed: a deleted link stays as the tombstone that keeps its code from being given out again.
CREATE TABLE links (
    id          TEXT    COLLATE "C" PRIMARY KEY,
    workspace   TEXT    COLLATE "C" NOT NULL REFERENCES workspaces (name),
    domain      TEXT    COLLATE "C" NOT NULL,
    code        TEXT    COLLATE "C" NOT NULL,
    destination TEXT    NOT NULL,
    analytics   TEXT    NOT NULL CHECK (analytics IN ('billed', 'internal', 'off')),
    status      TEXT    NOT NULL CHECK (status IN ('active', 'disabled', 'deleted')),
    reason      TEXT,
    checked_at  BIGINT,
    revision    INTEGER NOT NULL CHECK (revision >= 1),
    created_at  BIGINT  NOT NULL,
    title       TEXT,
    tags        TEXT    NOT NULL,
    UNIQUE (domain, code)
);

CREATE INDEX links_by_workspace ON links (workspace, id);
CREATE INDEX links_by_code ON links (code);

-- What was in force from effective_at until the next revision.
CREATE TABLE link_revisions (
    link_id      TEXT    COLLATE "C" NOT NULL REFERENCES links (id),
    revision     INTEGER NOT NULL,
    effective_at BIGINT  NOT NULL,
    destination  TEXT    NOT NULL,
    analytics    TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    PRIMARY KEY (link_id, revision)
);

CREATE TABLE journals (
    id            TEXT   COLLATE "C" PRIMARY KEY,
    node          TEXT   NOT NULL,
    registered_at BIGINT NOT NULL,
    state         TEXT   NOT NULL CHECK (state IN ('open', 'closed', 'retired')),
    through       BIGINT NOT NULL,
    committed     BIGINT NOT NULL CHECK (committed >= 0)
);

-- complete_through and final_through; neither ever goes back.
CREATE TABLE published (
    name TEXT   COLLATE "C" PRIMARY KEY,
    at   BIGINT NOT NULL
);

-- made_on: the UTC day a key was made, later than day for the one new key of a past day.
CREATE TABLE visitor_keys (
    day     INTEGER PRIMARY KEY,
    secret  BYTEA   NOT NULL CHECK (length(secret) = 16),
    made_on INTEGER NOT NULL
);

-- Edge logs that wait to be taken in, and what became of them: uploads, and objects of watched prefixes. Rows stay, so
-- that what was taken in once is known again.
CREATE TABLE edge_queue (
    id           TEXT    COLLATE "C" PRIMARY KEY,
    way          TEXT    NOT NULL CHECK (way IN ('upload', 'watched')),
    name         TEXT    NOT NULL,
    -- null: an operator's, for every workspace
    workspace    TEXT    COLLATE "C" REFERENCES workspaces (name),
    -- null: found out from the first lines
    format       TEXT,
    id_mode      TEXT    NOT NULL,
    keep_unknown BOOLEAN NOT NULL,
    source       TEXT    COLLATE "C",
    object       TEXT    NOT NULL,
    parts        BIGINT  NOT NULL CHECK (parts >= 0),
    size         BIGINT  NOT NULL CHECK (size >= 0),
    tag          TEXT    NOT NULL,
    stage        TEXT    NOT NULL CHECK (stage IN ('queued', 'running', 'done', 'failed')),
    tries        BIGINT  NOT NULL CHECK (tries >= 0),
    summary      TEXT,
    error        TEXT,
    queued_at    BIGINT  NOT NULL,
    ended_at     BIGINT,
    -- of a running log: who takes it in, and until when that is believed without a word; of a queued one: not before
    owner        TEXT,
    until        BIGINT  NOT NULL
);

CREATE INDEX edge_queue_by_turn ON edge_queue (way, stage, queued_at);
CREATE INDEX edge_queue_by_source ON edge_queue (source) WHERE way = 'watched';

-- Continuous sources of edge logs, and how far each has come; null: nothing has come of it yet. through never goes back.
-- tenant: whose it is; none: an operator's. A tenant's says how far its own logs have come, and holds nobody else's
-- numbers back.
CREATE TABLE edge_sources (
    name    TEXT    COLLATE "C" PRIMARY KEY,
    watched BOOLEAN NOT NULL,
    -- false: a prefix that is no longer watched
    active  BOOLEAN NOT NULL,
    through BIGINT,
    tenant  TEXT    COLLATE "C"
);
