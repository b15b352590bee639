package setup

import (
	"context"
	"errors"
	"testing"
)

// TestDoctorTriesTheWalls says what Monty's workers lack; it never fails for it, since they run all the same.
func TestDoctorTriesTheWalls(t *testing.T) {
	path := engine(t)
	for _, tc := range []struct {
		name    string
		lacking []string
		err     error
		status  Status
		found   string
	}{
		{"all stand", nil, nil, OK, "behind all of them"},
		{"some lack", []string{"landlock: this Linux has none"}, nil, Warn, "without: landlock: this Linux has none"},
		{"it does not start", nil, errors.New("no worker"), Warn, "no worker"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := examine(t.Context(), DoctorOptions{Engine: path, TryWalls: func(_ context.Context, engine string) ([]string, error) {
				if engine != path {
					t.Errorf("asked about %s", engine)
				}
				return tc.lacking, tc.err
			}}, []Check{{Name: "walls of Monty", Run: checkWalls}})
			expect(t, r, "walls of Monty", tc.status, tc.found, "")
			if !r.OK {
				t.Error("programs cannot run?")
			}
		})
	}
}
