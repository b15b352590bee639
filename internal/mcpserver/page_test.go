package mcpserver

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The bounds and times that docs/mcp.md names are those of the server.
func TestBoundsAreThoseOfThePage(t *testing.T) {
	raw, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(raw)), " ")
	words := map[int]string{1: "an", 2: "two", 3: "three", 6: "six", 8: "eight"}
	for _, say := range []string{
		fmt.Sprintf("The best of %s answers comes with its documentation, the next %s with their signatures, the last %s by name",
			words[defaultResults], words[withSignature-bestInFull], words[defaultResults-withSignature]),
		fmt.Sprintf("longer than `timeout` seconds (%.0f unless said, at most %d,%03d) is stopped", defaultTimeout.Seconds(), maxTimeout/time.Second/1000, maxTimeout/time.Second%1000),
		fmt.Sprintf("at most %s, %d MiB together", words[maxImages], maxImageBytes>>20),
		fmt.Sprintf("of output beyond %d KiB the beginning and the end are shown, of a result beyond %d KiB its beginning", maxOutput>>10, maxResult>>10),
		fmt.Sprintf("One reading gives %d KiB", maxPage>>10),
		fmt.Sprintf("of one beyond %d KiB its address", maxPage>>10),
		fmt.Sprintf("as long as %d MiB of answers hold what it missed", mcp.NewMemoryEventStore(nil).MaxBytes()>>20),
		fmt.Sprintf("longer than %s minutes to come is given up", words[int(bodyPatience/time.Minute)]),
		fmt.Sprintf("A body has up to %d MiB; those that come or are served at once up to %d MiB of one user, beyond which HTTP 429 is the answer, and %d MiB of all (503)",
			maxRequest>>20, maxOwnBodies>>20, maxBodies>>20),
		fmt.Sprintf("A client that says nothing for %s hour is gone", words[int(sessionPause/time.Hour)]),
		fmt.Sprintf("Up to %d,%03d sessions are open at once, %d of them of one user", maxSessions/1000, maxSessions%1000, maxOwnSessions),
		fmt.Sprintf("One user has up to %d clients; with the next one", maxOwnClients),
		map[time.Duration]string{time.Second: "hears once a second"}[heartbeat],
	} {
		if !strings.Contains(page, say) {
			t.Errorf("docs/mcp.md does not say %q", say)
		}
	}
}
