package nearest_test

import (
	"slices"
	"strings"
	"testing"

	"agentkernel/internal/nearest"
)

func TestNames(t *testing.T) {
	names := []string{"read_file", "read_text_file", "write_file", "list_directory", "echo", "sleep"}
	for word, want := range map[string][]string{
		"ecko":     {"echo"},
		"slepe":    {"sleep"},
		"readFile": {"read_file", "read_text_file", "write_file"},
		"list-dir": {"list_directory"},
		"file":     {"read_file", "write_file", "read_text_file"},
		"zzz":      nil,
		"":         nil,
	} {
		if got := nearest.Names(word, names); !slices.Equal(got, want) {
			t.Errorf("Names(%q) = %q, want %q", word, got, want)
		}
	}
	if got := nearest.Question("ecko", names); got != "did you mean echo?" {
		t.Errorf("Question: %q", got)
	}
	if got := nearest.One("zzz", names); got != "" {
		t.Errorf("One: %q", got)
	}
	if got := nearest.Names(strings.Repeat("é", 10_000), []string{strings.Repeat("x", 10_000)}); got != nil {
		t.Errorf("long names: %d", len(got))
	}
}

func TestOne(t *testing.T) {
	words := []string{"run", "spawn", "ps", "priority", "limits.memory"}
	for in, want := range map[string]string{"rnu": "run", "spwan": "spawn", "priorty": "priority", "limits.memry": "limits.memory", "zebra": "", "xy": ""} {
		if got := nearest.One(in, words); got != want {
			t.Errorf("One(%q) = %q, want %q", in, got, want)
		}
	}
}
