package sqlite

import (
	"fmt"
	"hash/crc32"
	"math"
	"testing"
)

// What marks say is read by kernels of all versions, in this format.
func TestMarkIsOfItsFormat(t *testing.T) {
	for _, p := range []place{{}, founded, unsettled, {1, 10}, {12345, 1 << 40}, {math.MaxInt64, math.MinInt64}} {
		want := fmt.Sprintf(markFormat, p.pid, p.seq)
		want += fmt.Sprintf(" %08x\n", crc32.ChecksumIEEE([]byte(want)))
		if got := string(p.encode(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
