-- When a process last told that it reads a partition, by this database's clock, and whether little was left to read then.
ALTER TABLE topic_reached ADD COLUMN told_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE topic_reached ADD COLUMN near BIGINT NOT NULL DEFAULT 0;
