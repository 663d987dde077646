-- For how many days a workspace's rows are kept: none: as the configuration says; 0: for ever.
ALTER TABLE workspaces ADD COLUMN keep_days BIGINT CHECK (keep_days >= 0);
