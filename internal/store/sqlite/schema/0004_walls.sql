-- Version 4: what stood around a process. docs/schema.md explains every table; change the two together.

-- Lists of walls, each once: most processes have the same.
CREATE TABLE walls (
  id    INTEGER PRIMARY KEY,
  walls TEXT NOT NULL UNIQUE
) STRICT;

ALTER TABLE processes ADD COLUMN walls INTEGER REFERENCES walls(id);
