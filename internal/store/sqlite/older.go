package sqlite

// A reader changes nothing, so it cannot bring a database of an older schema up to date. Instead, its connections get what
// later steps of the schema have added, empty, in their own temporary schema: names are looked for there first, so that every query
// is the same for all versions. A step that only adds tables or columns needs a line here; one that changes the meaning of
// others needs more thought.

// addedTables is what a step of the schema has added, for databases of an older version than before.
var addedTables = []struct {
	before int
	sql    string
}{
	{2, `CREATE TEMP TABLE pruned (first INTEGER, last INTEGER, at INTEGER);
CREATE TEMP TABLE leftovers (pid INTEGER);
CREATE TEMP VIEW totals AS SELECT 'blobs' AS name, count(*) AS files, coalesce(sum(size), 0) AS bytes FROM main.blobs;
`},
	{4, "CREATE TEMP TABLE walls (id INTEGER, walls TEXT);\n"},
	{6, "CREATE TEMP TABLE keys (namespace TEXT, key TEXT, pid INTEGER);\n"},
	{8, "CREATE TEMP TABLE holds (namespace TEXT, tree INTEGER, since INTEGER, why TEXT);\n"},
	{9, "CREATE TEMP TABLE parts (pid INTEGER, start INTEGER, size INTEGER, text ANY);\n"},
}

// addedColumns are those of the table processes.
var addedColumns = []struct {
	before int
	name   string
}{{4, "walls"}, {5, "journal"}, {7, "parked"}, {7, "wake_at"}, {7, "waits_since"}, {7, "waits_for"}}

// asNewest makes a connection that reads a database of an older schema answer as one of the newest does. It gives the version.
func asNewest(c *conn) (version int64, err error) {
	version, err = c.int("PRAGMA user_version")
	if err != nil || version == 0 || int(version) >= len(steps()) {
		return version, err // what is no database of ours, or is newer, is refused by whoever reads it
	}
	script := ""
	for _, a := range addedTables {
		if int(version) < a.before {
			script += a.sql
		}
	}
	columns := ""
	for _, a := range addedColumns {
		if int(version) < a.before {
			columns += ", NULL AS " + a.name
		}
	}
	if columns != "" {
		script += "CREATE TEMP VIEW processes AS SELECT *" + columns + " FROM main.processes;\n"
	}
	return version, c.script("PRAGMA temp_store = MEMORY; PRAGMA query_only = 0;\n" + script + "PRAGMA query_only = 1")
}
