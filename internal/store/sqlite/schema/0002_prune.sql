-- Version 2: processes can be forgotten. docs/schema.md explains every table; change the two together.

-- Who still runs a program decides whether its text may go.
CREATE INDEX processes_by_program ON processes(program);

-- PIDs of forgotten processes, in ranges, and when each range was forgotten.
CREATE TABLE pruned (
  first INTEGER PRIMARY KEY,
  last  INTEGER NOT NULL,
  at    INTEGER NOT NULL
) STRICT;

-- Forgotten processes of which rows in entries or state are left.
CREATE TABLE leftovers (
  pid INTEGER PRIMARY KEY
) STRICT;

-- One row, name 'blobs': the sum over the table blobs, so that a quota can be watched for nothing.
CREATE TABLE totals (
  name  TEXT PRIMARY KEY,
  files INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO totals SELECT 'blobs', count(*), coalesce(sum(size), 0) FROM blobs;

CREATE TRIGGER blobs_added AFTER INSERT ON blobs BEGIN
  UPDATE totals SET files = files + 1, bytes = bytes + new.size WHERE name = 'blobs';
END;
CREATE TRIGGER blobs_removed AFTER DELETE ON blobs BEGIN
  UPDATE totals SET files = files - 1, bytes = bytes - old.size WHERE name = 'blobs';
END;

CREATE TRIGGER entries_args_deleted AFTER DELETE ON entries WHEN typeof(old.args) = 'blob' BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.args;
END;
CREATE TRIGGER entries_data_deleted AFTER DELETE ON entries WHEN typeof(old.data) = 'blob' BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.data;
END;
CREATE TRIGGER processes_result_deleted AFTER DELETE ON processes WHEN typeof(old.result) = 'blob' BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.result;
END;
CREATE TRIGGER programs_source_deleted AFTER DELETE ON programs WHEN typeof(old.source) = 'blob' BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.source;
END;
CREATE TRIGGER programs_modules_deleted AFTER DELETE ON programs WHEN typeof(old.modules) = 'blob' BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.modules;
END;
