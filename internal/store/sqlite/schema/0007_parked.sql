-- Version 7: processes that wait and are in no kernel's memory, and what wakes them. docs/schema.md explains every table; change the two together.

-- The kernel that parked the process (when it started, nanoseconds since 1970); NULL: it is not parked.
ALTER TABLE processes ADD COLUMN parked INTEGER;
-- When a parked process has to be woken; NULL: something from outside wakes it.
ALTER TABLE processes ADD COLUMN wake_at INTEGER;
-- Since when a parked process waits.
ALTER TABLE processes ADD COLUMN waits_since INTEGER;
-- What a parked process waits for: a JSON array of texts.
ALTER TABLE processes ADD COLUMN waits_for TEXT;

CREATE INDEX processes_active ON processes(pid)     WHERE state = 'unfinished' AND parked IS NULL;
CREATE INDEX processes_due    ON processes(wake_at) WHERE wake_at IS NOT NULL;

-- What processes have been sent and have not taken. sender, seq and n name the entry that sent it.
CREATE TABLE inbox (
  pid      INTEGER NOT NULL,
  sender   INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  n        INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  priority INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  data     ANY,
  PRIMARY KEY (pid, sender, seq, n)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER inbox_data_deleted AFTER DELETE ON inbox WHEN typeof(old.data) = 'blob' BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.data;
END;
