-- Version 7: processes that wait and are in no kernel's memory. docs/schema.md explains every table; change the two together.

-- The kernel that parked the process (when it started, microseconds since 1970); NULL: it is not parked.
ALTER TABLE processes ADD COLUMN parked INTEGER;
-- When a parked process has to be woken; NULL: something from outside wakes it.
ALTER TABLE processes ADD COLUMN wake_at INTEGER;
-- Since when a parked process waits.
ALTER TABLE processes ADD COLUMN waits_since INTEGER;
-- What a parked process waits for: a JSON array of texts.
ALTER TABLE processes ADD COLUMN waits_for TEXT;

CREATE INDEX processes_active ON processes(pid)     WHERE state = 'unfinished' AND parked IS NULL;
CREATE INDEX processes_due    ON processes(wake_at) WHERE wake_at IS NOT NULL;
