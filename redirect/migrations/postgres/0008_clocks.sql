-- What processes whose clock is not the store's say of it, and when that was by the store's clock.
CREATE TABLE wrong_clocks (
    process TEXT   COLLATE "C" PRIMARY KEY,
    says    TEXT   NOT NULL,
    at      BIGINT NOT NULL
);
