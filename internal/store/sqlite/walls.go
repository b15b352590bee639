package sqlite

import (
	"database/sql/driver"
	"encoding/json"

	"agentkernel"
)

// wallsIndex remembers which lists of walls have rows, by where their first wall lies in memory: a sandbox gives the
// same list each time, and to compare or encode one takes longer than to write the row that names it. The index keeps
// the lists, so nothing else comes to lie there. It need not be taken back after a failed commit, after which nothing
// is written any more.
type wallsIndex map[*agentkernel.Wall]knownWalls

type knownWalls struct {
	list []agentkernel.Wall // as long as it was then
	id   int64
}

// maxWallsIndex bounds the index; what fell out is found in the database again.
const maxWallsIndex = 1024

// wallsID names a list of walls, and makes its row if there is none; NULL: there are no walls.
func (w *writer) wallsID(list []agentkernel.Wall) (driver.Value, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if known, ok := w.walls[&list[0]]; ok && len(known.list) == len(list) {
		return known.id, nil
	}
	text, err := plainJSON(list)
	if err != nil {
		return nil, err
	}
	r, _, err := w.c.one("INSERT INTO walls(walls) VALUES (?) ON CONFLICT(walls) DO UPDATE SET walls = walls RETURNING id", string(text))
	if err != nil {
		return nil, err
	}
	if w.walls == nil || len(w.walls) >= maxWallsIndex {
		w.walls = wallsIndex{}
	}
	w.walls[&list[0]] = knownWalls{list, r.int(0)}
	return r.int(0), nil
}

// readWalls reads a list of walls; nil: there is none.
func readWalls(text string) (list []agentkernel.Wall, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "what stood around a process cannot be read: %w", err)
	}
	return list, nil
}
