package sqlite

import (
	"context"
	"strings"
)

// A view is made for people who ask: times and payloads are written out, a call and its result are one row.
type view struct {
	name, doc, sql string
}

// payloadText writes a payload column: one of 32 KiB or more is a file, named blob:<hex of its SHA-256>.
func payloadText(column string) string {
	return "CASE typeof(" + column + ") WHEN 'blob' THEN 'blob:' || lower(hex(" + column + ")) ELSE " + column + " END"
}

// argsText writes the column args of a table. The arguments of a paid call are put together from the text of its process (see
// text.go); a part of it that is a file is named.
func argsText(table string) string {
	args := table + ".args"
	return "CASE WHEN typeof(" + args + ") <> 'blob' THEN " + args + " WHEN length(" + args + ") = 32 THEN " + payloadText(args) + ` ELSE
    (SELECT group_concat(piece, '') FROM
      (SELECT CASE typeof(p.text) WHEN 'blob' THEN ` + payloadText("p.text") + ` ELSE
        CAST(substr(CAST(p.text AS BLOB), max(s.value ->> 0, p.start) - p.start + 1,
          min((s.value ->> 0) + (s.value ->> 1), p.start + p.size) - max(s.value ->> 0, p.start)) AS TEXT) END AS piece
      FROM json_each(CAST(` + args + ` AS TEXT)) s JOIN parts p ON p.pid = ` + table + `.pid AND p.start < (s.value ->> 0) + (s.value ->> 1)
        AND p.start >= (SELECT max(start) FROM parts WHERE pid = ` + table + `.pid AND start <= s.value ->> 0)
      WHERE s.key > 0 ORDER BY s.key, p.start)) END`
}

func timeText(column string) string {
	return "strftime('%Y-%m-%d %H:%M:%f', " + column + " / 1e6, 'unixepoch')"
}

// The result of a call is mostly the next entry of its process. Looking for it from the call on, in the order of the
// primary key, costs a few steps; looking it up by the number of the call would read the whole journal each time.
const resultSeq = `CASE WHEN c.done IS NULL THEN (SELECT n.seq FROM main.entries n
    WHERE n.pid = c.pid AND n.seq > c.seq AND n.kind = 'result' AND n.call = c.call ORDER BY n.seq LIMIT 1) END`

var views = []view{
	{"processes", "one row a process", `
SELECT pid, parent, namespace, name, backend, state, paused, pause_note, priority, exit_code,
  ` + payloadText("result") + ` AS result, error ->> 'code' AS error_code, error ->> 'message' AS error,
  ` + timeText("created") + ` AS created, ` + timeText("ended") + ` AS ended, (ended - created) / 1e3 AS ms, running_ns / 1e6 AS running_ms,
  syscalls AS calls, tool_calls, waits, output AS output_bytes, bytes_in, recoveries, idempotency_key, fingerprint
FROM main.processes`},
	{"calls", "one row a call, with its result", `
SELECT c.pid, c.call, c.seq, ` + timeText("c.at") + ` AS at, c.op,
  CASE WHEN c.op = 'tool.call' AND typeof(c.args) = 'text' THEN (c.args ->> '$.server') || '.' || (c.args ->> '$.tool') ELSE c.op END AS name,
  CASE WHEN c.op = 'tool.call' AND typeof(c.args) = 'text' THEN c.args ->> '$.server' END AS server,
  CASE WHEN c.op = 'tool.call' AND typeof(c.args) = 'text' THEN c.args ->> '$.tool' END AS tool,
  c.effect, coalesce(c.async, 0) AS async,
  CASE WHEN c.done THEN 0.0 ELSE (r.at - c.at) / 1e3 END AS ms,
  CASE WHEN coalesce(c.error, r.error) IS NOT NULL THEN 'error' WHEN c.done OR r.seq IS NOT NULL THEN 'ok' ELSE 'open' END AS outcome,
  ` + argsText("c") + ` AS args,
  CASE WHEN c.done THEN ` + payloadText("c.data") + ` ELSE ` + payloadText("r.data") + ` END AS result,
  coalesce(c.error, r.error) ->> 'code' AS error_code, coalesce(c.error, r.error) ->> 'message' AS error,
  coalesce(c.note, r.note) AS note
FROM main.entries c LEFT JOIN main.entries r ON r.pid = c.pid AND r.seq = ` + resultSeq + `
WHERE c.kind = 'call'`},
	{"output", "what was printed, in pieces", `
SELECT pid, seq, ` + timeText("at") + ` AS at, stream, CASE typeof(data) WHEN 'text' THEN data ->> '$' ELSE ` + payloadText("data") + ` END AS text
FROM main.entries WHERE kind = 'output'
UNION ALL
SELECT p.pid, e.key + 1, ` + timeText("(e.value ->> 1)") + `, e.value ->> 3, e.value ->> 2
FROM main.processes p, json_each(CASE WHEN json_valid(p.journal) THEN p.journal END) e WHERE e.value ->> 0 = 'output'`},
}

// View describes a view to those who ask.
type View struct {
	Name    string   `json:"name"`
	Doc     string   `json:"doc"`
	Columns []string `json:"columns"`
}

// Views lists the views with their columns, in the order of the documentation.
func (q *Query) Views(ctx context.Context) ([]View, error) {
	var out []View
	err := q.reads.do(ctx, func(c *conn) (err error) {
		out, err = c.views()
		return err
	})
	return out, err
}

func (c *conn) views() ([]View, error) {
	var out []View
	for _, v := range views {
		view := View{Name: v.name, Doc: v.doc}
		err := c.query(func(r row) error {
			view.Columns = append(view.Columns, r.text(0))
			return nil
		}, "SELECT name FROM pragma_table_info(?)", v.name)
		if err != nil {
			return nil, err
		}
		out = append(out, view)
	}
	return out, nil
}

// viewsText is the list of views as a hint.
func viewsText(list []View) string {
	var parts []string
	for _, v := range list {
		parts = append(parts, v.Name+"("+strings.Join(v.Columns, ", ")+")")
	}
	return "there are the views\n  " + strings.Join(parts, "\n  ") + "\nand the tables of docs/schema.md"
}
