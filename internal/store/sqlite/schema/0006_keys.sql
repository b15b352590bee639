-- Version 6: keys of the pieces of sessions. docs/schema.md explains every table; change the two together.

-- Idempotency keys that processes have beside that of their Spec: each in one namespace once.
CREATE TABLE keys (
  namespace TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  pid       INTEGER NOT NULL,
  PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX keys_by_pid ON keys(pid);
