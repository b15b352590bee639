-- Version 9: conversations. docs/schema.md explains every table; change the two together.

-- The texts of processes that pay for calls, in parts. entries.args of such a call, if it is of type blob and not 32 bytes long, says where in
-- the text of its process the arguments stand: a JSON array of their CRC-32C and of pairs, begin and length in bytes.
CREATE TABLE parts (
  id    INTEGER PRIMARY KEY,
  pid   INTEGER NOT NULL,
  start INTEGER NOT NULL,
  size  INTEGER NOT NULL,
  text  ANY     NOT NULL
) STRICT;

CREATE UNIQUE INDEX parts_by_pid ON parts(pid, start);

CREATE TRIGGER parts_text_deleted AFTER DELETE ON parts WHEN typeof(old.text) = 'blob' BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE sha256 = old.text;
END;

DROP VIEW IF EXISTS journal;
CREATE VIEW journal AS
SELECT pid, seq, strftime('%Y-%m-%d %H:%M:%f', at / 1e6, 'unixepoch') AS at, kind, call, op, effect,
       CASE WHEN typeof(args) <> 'blob' THEN args WHEN length(args) = 32 THEN 'blob:' || lower(hex(args)) ELSE
         (SELECT group_concat(piece, '') FROM
           (SELECT CASE typeof(p.text) WHEN 'blob' THEN 'blob:' || lower(hex(p.text)) ELSE
                     CAST(substr(CAST(p.text AS BLOB), max(s.value ->> 0, p.start) - p.start + 1,
                       min((s.value ->> 0) + (s.value ->> 1), p.start + p.size) - max(s.value ->> 0, p.start)) AS TEXT) END AS piece
            FROM json_each(CAST(e.args AS TEXT)) s JOIN parts p ON p.pid = e.pid AND p.start < (s.value ->> 0) + (s.value ->> 1)
              AND p.start >= (SELECT max(start) FROM parts WHERE pid = e.pid AND start <= s.value ->> 0)
            WHERE s.key > 0 ORDER BY s.key, p.start)) END AS args,
       CASE typeof(data) WHEN 'blob' THEN 'blob:' || lower(hex(data)) ELSE data END AS data,
       error ->> 'message' AS error, done, stream, note
FROM entries e
UNION ALL
SELECT p.pid, e.key + 1, strftime('%Y-%m-%d %H:%M:%f', (e.value ->> 1) / 1e6, 'unixepoch'), e.value ->> 0, NULL, NULL, NULL,
       NULL, nullif(e.value -> 2, 'null'), e.value ->> '$[5].message', NULL, e.value ->> 3, e.value ->> 4
FROM processes p, json_each(CASE WHEN json_valid(p.journal) THEN p.journal END) e;
