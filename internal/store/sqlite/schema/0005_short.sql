-- Version 5: short journals. docs/schema.md explains every table; change the two together.

-- The journal of a process that made no call and ended in the commit that it began in: a JSON array of entries, each an
-- array of kind, at, data, stream, note and error, without what is empty at its end.
-- Its other entries, if something was done about it later, are rows of entries. NULL: all of them are.
ALTER TABLE processes ADD COLUMN journal TEXT;

DROP VIEW IF EXISTS journal;
CREATE VIEW journal AS
SELECT pid, seq, strftime('%Y-%m-%d %H:%M:%f', at / 1e6, 'unixepoch') AS at, kind, call, op, effect,
       CASE typeof(args) WHEN 'blob' THEN 'blob:' || lower(hex(args)) ELSE args END AS args,
       CASE typeof(data) WHEN 'blob' THEN 'blob:' || lower(hex(data)) ELSE data END AS data,
       error ->> 'message' AS error, done, stream, note
FROM entries
UNION ALL
SELECT p.pid, e.key + 1, strftime('%Y-%m-%d %H:%M:%f', (e.value ->> 1) / 1e6, 'unixepoch'), e.value ->> 0, NULL, NULL, NULL,
       NULL, nullif(e.value -> 2, 'null'), e.value ->> '$[5].message', NULL, e.value ->> 3, e.value ->> 4
FROM processes p, json_each(CASE WHEN json_valid(p.journal) THEN p.journal END) e;
