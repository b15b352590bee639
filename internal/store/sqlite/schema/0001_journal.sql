-- Version 1. docs/schema.md explains every table; change the two together. A released step is never edited.

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Program texts, each once. A value of type blob in source or modules names a file below blobs/.
CREATE TABLE programs (
  id       INTEGER PRIMARY KEY,
  sha256   BLOB NOT NULL UNIQUE,
  language TEXT NOT NULL,
  source   ANY  NOT NULL,
  modules  ANY
) STRICT;

CREATE TABLE processes (
  pid             INTEGER PRIMARY KEY,
  parent          INTEGER,
  namespace       TEXT    NOT NULL,
  name            TEXT    NOT NULL,
  backend         TEXT,
  program         INTEGER NOT NULL REFERENCES programs(id),
  spec            TEXT    NOT NULL,
  idempotency_key TEXT,
  priority        INTEGER NOT NULL,
  state           TEXT    NOT NULL,
  paused          INTEGER NOT NULL DEFAULT 0,
  pause_note      TEXT,
  exit_code       INTEGER NOT NULL DEFAULT 0,
  result          ANY,
  error           TEXT,
  created         INTEGER NOT NULL,
  ended           INTEGER,
  calls           INTEGER NOT NULL DEFAULT 0,
  syscalls        INTEGER NOT NULL DEFAULT 0,
  tool_calls      INTEGER NOT NULL DEFAULT 0,
  waits           INTEGER NOT NULL DEFAULT 0,
  running_ns      INTEGER NOT NULL DEFAULT 0,
  output          INTEGER NOT NULL DEFAULT 0,
  bytes_in        INTEGER NOT NULL DEFAULT 0,
  fingerprint     TEXT,
  recoveries      INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX processes_by_key        ON processes(namespace, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE        INDEX processes_by_parent     ON processes(parent)                     WHERE parent IS NOT NULL;
CREATE        INDEX processes_unfinished    ON processes(pid)                        WHERE state = 'unfinished';

CREATE TABLE entries (
  pid    INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  kind   TEXT    NOT NULL,
  at     INTEGER NOT NULL,
  call   INTEGER,
  op     TEXT,
  effect TEXT,
  async  INTEGER,
  args   ANY,
  done   INTEGER,
  data   ANY,
  error  TEXT,
  stream TEXT,
  note   TEXT,
  PRIMARY KEY (pid, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE state (
  pid   INTEGER NOT NULL,
  key   TEXT    NOT NULL,
  value TEXT    NOT NULL,
  PRIMARY KEY (pid, key)
) STRICT, WITHOUT ROWID;

-- The first image of a program under one engine; its later images are stored as differences from it.
CREATE TABLE image_bases (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: readers cache by it
  program     INTEGER NOT NULL REFERENCES programs(id),
  fingerprint TEXT    NOT NULL,
  size        INTEGER NOT NULL,
  zstd        BLOB    NOT NULL,
  UNIQUE (program, fingerprint)
) STRICT;

-- One image a process. zstd or blob holds the bytes; with a base they need it as raw dictionary.
CREATE TABLE images (
  pid         INTEGER PRIMARY KEY,
  seq         INTEGER NOT NULL,
  fingerprint TEXT,
  kernel      TEXT,
  base        INTEGER REFERENCES image_bases(id),
  size        INTEGER NOT NULL,
  zstd        BLOB,
  blob        BLOB,
  mac         BLOB NOT NULL
) STRICT;

CREATE INDEX images_by_base ON images(base) WHERE base IS NOT NULL;

-- Files below blobs/ and how many columns name each. At 0 the file goes, then the row.
CREATE TABLE blobs (
  sha256 BLOB PRIMARY KEY,
  size   INTEGER NOT NULL,
  refs   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX blobs_unused ON blobs(sha256) WHERE refs = 0;

CREATE TRIGGER images_blob_replaced AFTER UPDATE OF blob ON images WHEN old.blob IS NOT NULL BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.blob;
END;
CREATE TRIGGER images_blob_deleted AFTER DELETE ON images WHEN old.blob IS NOT NULL BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.blob;
END;
CREATE TRIGGER processes_result_replaced AFTER UPDATE OF result ON processes WHEN typeof(old.result) = 'blob' BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.result;
END;

-- For people: the same rows with times and blob names written out.
CREATE VIEW process_list AS
SELECT pid, parent, namespace, name, backend, state, paused, priority, exit_code,
       CASE typeof(result) WHEN 'blob' THEN 'blob:' || lower(hex(result)) ELSE result END AS result,
       error ->> 'message' AS error,
       strftime('%Y-%m-%d %H:%M:%f', created / 1e6, 'unixepoch') AS created,
       strftime('%Y-%m-%d %H:%M:%f', ended   / 1e6, 'unixepoch') AS ended,
       syscalls, tool_calls, waits, running_ns / 1e6 AS running_ms, output, bytes_in, recoveries
FROM processes;

CREATE VIEW journal AS
SELECT pid, seq, strftime('%Y-%m-%d %H:%M:%f', at / 1e6, 'unixepoch') AS at, kind, call, op, effect,
       CASE typeof(args) WHEN 'blob' THEN 'blob:' || lower(hex(args)) ELSE args END AS args,
       CASE typeof(data) WHEN 'blob' THEN 'blob:' || lower(hex(data)) ELSE data END AS data,
       error ->> 'message' AS error, done, stream, note
FROM entries;
