package sqlite

import (
	"database/sql/driver"
	"encoding/json"

	"agentkernel"
)

// wallsIndex remembers which lists of walls have rows. It need not be taken back after a failed commit, after which nothing
// is written any more.
type wallsIndex struct {
	ids map[string]int64 // by the list's text
	// last is the list that was written last. A worker gives the same one each time, and to encode it takes longer than to
	// write the row that names it; as long as it is kept here, nothing else comes to lie where it lies.
	last   []agentkernel.Wall
	lastID int64
}

// maxWallsIndex bounds the index; what fell out is found in the database again.
const maxWallsIndex = 256

// wallsID names a list of walls, and makes its row if there is none; NULL: there are no walls.
func (w *writer) wallsID(list []agentkernel.Wall) (driver.Value, error) {
	x := &w.walls
	switch {
	case len(list) == 0:
		return nil, nil
	case len(list) == len(x.last) && &list[0] == &x.last[0]:
		return x.lastID, nil
	}
	text, err := plainJSON(list)
	if err != nil {
		return nil, err
	}
	id, ok := x.ids[string(text)]
	if !ok {
		if id, err = w.wallsRow(string(text)); err != nil {
			return nil, err
		}
		if x.ids == nil || len(x.ids) >= maxWallsIndex {
			x.ids = map[string]int64{}
		}
		x.ids[string(text)] = id
	}
	x.last, x.lastID = list, id
	return id, nil
}

// wallsRow finds the row of a list, or makes it. Most often it is there, and to find it writes nothing.
func (w *writer) wallsRow(text string) (int64, error) {
	id, err := w.c.int("SELECT id FROM walls WHERE walls = ?", text)
	if err != nil || id != 0 {
		return id, err
	}
	r, _, err := w.c.one("INSERT INTO walls(walls) VALUES (?) RETURNING id", text)
	if err != nil {
		return 0, err
	}
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
