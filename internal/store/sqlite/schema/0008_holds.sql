-- Version 8: what stands still. docs/schema.md explains every table; change the two together.

-- A hold is over a namespace, over a process with all below it (tree), or, where both are empty, over the whole kernel.
CREATE TABLE holds (
  namespace TEXT    NOT NULL,
  tree      INTEGER NOT NULL,
  since     INTEGER NOT NULL,
  why       TEXT    NOT NULL,
  PRIMARY KEY (namespace, tree)
) STRICT, WITHOUT ROWID;
