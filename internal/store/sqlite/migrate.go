package sqlite

import (
	"crypto/rand"
	_ "embed" // the schema's text
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"agentkernel"
)

// applicationID marks the file as AgentKernel's in SQLite's header ("AGK1"; see file(1)).
const applicationID = 0x41474b31

//go:embed schema/0001_journal.sql
var schema1 string

//go:embed schema/0002_prune.sql
var schema2 string

//go:embed schema/0003_programs.sql
var schema3 string

//go:embed schema/0004_walls.sql
var schema4 string

//go:embed schema/0005_short.sql
var schema5 string

//go:embed schema/0006_keys.sql
var schema6 string

//go:embed schema/0007_parked.sql
var schema7 string

//go:embed schema/0008_holds.sql
var schema8 string

//go:embed schema/0009_parts.sql
var schema9 string

// step is one numbered change of the schema. Steps are never edited once released; version n is reached
// by the first n steps.
type step struct {
	name string
	sql  string
}

// steps is the whole history of the schema.
func steps() []step {
	return []step{
		{"journal", schema1},
		{"prune", schema2},
		{"programs", schema3},
		{"walls", schema4},
		{"short", schema5},
		{"keys", schema6},
		{"parked", schema7},
		{"holds", schema8},
		{"parts", schema9},
	}
}

// migrate brings the database to the newest version that history knows, one transaction a step. A
// database that is newer is refused with CodeVersion.
func migrate(c *conn, path string, history []step, now func() time.Time) (version int, err error) {
	version, err = inspect(c, path, len(history))
	if err != nil {
		return 0, err
	}
	for version < len(history) {
		if err := applyStep(c, version+1, history[version], now()); err != nil {
			return version, explain(path, fmt.Errorf("schema step %d (%s): %w", version+1, history[version].name, err))
		}
		version++
	}
	return version, nil
}

// inspect gives the schema version of a database and refuses one that is not ours or too new.
func inspect(c *conn, path string, known int) (int, error) {
	app, err := c.int("PRAGMA application_id")
	if err != nil {
		return 0, explain(path, err)
	}
	version, err := c.int("PRAGMA user_version")
	if err != nil {
		return 0, explain(path, err)
	}
	tables, err := c.int("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, explain(path, err)
	}
	if err := checkVersion(c, path, app, version, known); err != nil {
		return 0, err
	}
	switch {
	case app == applicationID && version > int64(known):
		return 0, agentkernel.Errorf(agentkernel.CodeVersion, "store",
			"the database %s has schema version %d; this agentkernel knows versions up to %d", path, version, known).
			WithHint("use the newer agentkernel that wrote it, or another data directory with AGENTKERNEL_HOME")
	case app == applicationID && (version < 0 || version == 0 && tables != 0):
		return 0, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the database %s has tables and no schema version (bytes 60 to 63 of its header): it is damaged, or another program changed it", path).
			WithHint("put a backup in its place: agentkernel restore FILE --force")
	case app != applicationID && (app != 0 || version != 0 || tables != 0):
		return 0, notOurs(path, "another program made it")
	}
	return int(version), nil
}

func applyStep(c *conn, version int, s step, at time.Time) error {
	if err := c.script("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := runStep(c, version, s, at); err != nil {
		_ = c.script("ROLLBACK") // the first error says what happened
		return err
	}
	return c.script("COMMIT")
}

func runStep(c *conn, version int, s step, at time.Time) error {
	first := ""
	if version == 1 {
		first = "CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, at INTEGER NOT NULL) STRICT;\n"
	}
	if err := c.script(first + s.sql); err != nil {
		return err
	}
	err := c.script(fmt.Sprintf("INSERT INTO migrations VALUES (%d, '%s', %d);\nPRAGMA user_version = %d;\nPRAGMA application_id = %d",
		version, s.name, at.UnixMicro(), version, applicationID))
	return err
}

// identify gives the store's UUID and origins, and makes a UUID when the database is new.
func identify(c *conn, path string) (agentkernel.StoreInfo, error) {
	n, err := c.int("SELECT count(*) FROM meta WHERE key = 'store_uuid'")
	if err == nil && n == 0 {
		err = c.exec("INSERT INTO meta(key, value) VALUES ('store_uuid', ?)", newUUID())
	}
	if err != nil {
		return agentkernel.StoreInfo{}, explain(path, err)
	}
	return readIdentity(c, path)
}

func readIdentity(c *conn, path string) (info agentkernel.StoreInfo, err error) {
	r, found, err := c.one("SELECT value, (SELECT value FROM meta WHERE key = 'origins') FROM meta WHERE key = 'store_uuid'")
	switch {
	case err != nil:
		return info, explain(path, err)
	case !found:
		return info, errNotBegun(c, path)
	case r.text(0) == "":
		return info, notOurs(path, "it has no store_uuid")
	}
	info.UUID = r.text(0)
	if r.isNull(1) {
		return info, nil
	}
	if err := json.Unmarshal([]byte(r.text(1)), &info.Earlier); err != nil {
		return info, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "what %s was restored from cannot be read: %w", path, err)
	}
	return info, nil
}

// errNotBegun is of a database with tables and no identity. The identity comes right behind the tables, so of one in which nothing is
// the kernel died between the two.
func errNotBegun(c *conn, path string) error {
	used, err := c.int("SELECT EXISTS (SELECT 1 FROM processes) OR EXISTS (SELECT 1 FROM entries)")
	if err != nil {
		return explain(path, err)
	}
	if used != 0 {
		return notOurs(path, "it has no store_uuid")
	}
	return agentkernel.Errorf(agentkernel.CodeVersion, "store", "the database %s has nothing in it: the kernel that made it died before it had begun", path).
		WithHint("nothing ran, and nothing is lost: any command that starts a kernel goes on with it: agentkernel recover")
}

// Renew gives a database that was restored from a backup, or has lost what was in its log, an identity of its own, in one step; its
// processes, up to last, keep theirs ([agentkernel.StoreInfo.UUIDOf]). The next process has a PID that is greater by gap than
// it would have been. Nobody else may write to it.
func Renew(path string, last, gap agentkernel.PID) (err error) {
	c, err := dial(path, url.Values{"mode": {"rw"}}, writePragmas...)
	if err != nil {
		return explain(path, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	info, err := readIdentity(c, path)
	if err != nil {
		return err
	}
	origins, err := json.Marshal(append(info.Earlier, agentkernel.Origin{UUID: info.UUID, Last: last}))
	if err != nil {
		return explain(path, err)
	}
	return explain(path, c.exec(`INSERT INTO meta(key, value) VALUES ('store_uuid', ?), ('origins', ?), ('last_pid', ?)
ON CONFLICT(key) DO UPDATE SET value = excluded.value`, newUUID(), string(origins), strconv.FormatInt(int64(last+gap), 10)))
}

// newUUID is a random UUID (version 4 of RFC 9562).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
