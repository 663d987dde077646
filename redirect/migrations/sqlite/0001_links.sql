-- Instants are microseconds since 1970, UTC; ids are UUIDs as text; closed vocabularies are words of crate schemas.

CREATE TABLE workspaces (
    name       TEXT    PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT;

INSERT INTO workspaces (name, created_at)
VALUES ('default', CAST(strftime('%s', 'now') AS INTEGER) * 1000000);

-- Only the SHA-256 of a token is kept. An operator's has no workspace.
CREATE TABLE tokens (
    sha256     BLOB    PRIMARY KEY CHECK (length(sha256) = 32),
    workspace  TEXT    REFERENCES workspaces (name),
    scope      TEXT    NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
    created_at INTEGER NOT NULL,
    CHECK (workspace IS NOT NULL OR scope = 'admin')
) STRICT, WITHOUT ROWID;

-- A row is never removed: a deleted link stays as the tombstone that keeps its code from being given out again.
CREATE TABLE links (
    id          TEXT    PRIMARY KEY,
    workspace   TEXT    NOT NULL REFERENCES workspaces (name),
    domain      TEXT    NOT NULL,
    code        TEXT    NOT NULL,
    destination TEXT    NOT NULL,
    analytics   TEXT    NOT NULL CHECK (analytics IN ('billed', 'internal', 'off')),
    status      TEXT    NOT NULL CHECK (status IN ('active', 'disabled', 'deleted')),
    reason      TEXT,
    checked_at  INTEGER,
    revision    INTEGER NOT NULL CHECK (revision >= 1),
    created_at  INTEGER NOT NULL,
    title       TEXT,
    tags        TEXT    NOT NULL,
    UNIQUE (domain, code)
) STRICT;

CREATE INDEX links_by_workspace ON links (workspace, id);
CREATE INDEX links_by_code ON links (code);

-- What was in force from effective_at until the next revision.
CREATE TABLE link_revisions (
    link_id      TEXT    NOT NULL REFERENCES links (id),
    revision     INTEGER NOT NULL,
    effective_at INTEGER NOT NULL,
    destination  TEXT    NOT NULL,
    analytics    TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    PRIMARY KEY (link_id, revision)
) STRICT, WITHOUT ROWID;
