-- Whose a continuous source is; none: an operator's. A tenant's says how far its own logs have come, and holds nobody
-- else's numbers back.
ALTER TABLE edge_sources ADD COLUMN tenant TEXT;
