-- Billed clicks that journals have lost, as their nodes tell, and how many of them are in rows of table gaps.
CREATE TABLE losses (
    journal  TEXT   COLLATE "C" PRIMARY KEY,
    lost     BIGINT NOT NULL CHECK (lost >= 0),
    at_least BIGINT NOT NULL CHECK (at_least >= 0),
    first_at BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    why      TEXT   NOT NULL,
    recorded BIGINT NOT NULL CHECK (recorded >= 0)
);
