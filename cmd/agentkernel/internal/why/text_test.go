package why

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// The shares that are shown are those of the whole: they add up to 100%, however many there are.
func TestSharesAddUp(t *testing.T) {
	percent := regexp.MustCompile(`(\d+)%`)
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		part := func() time.Duration {
			if r.IntN(3) == 0 {
				return 0
			}
			return time.Duration(r.Int64N(1 << (10 + r.IntN(25))))
		}
		s := Split{Running: part(), Queued: part(), Asleep: part(), Paused: part(), Stopped: part(), Exact: true}
		s.Total = s.Running + s.Queued + s.Asleep + s.Paused + s.Stopped
		for i := range r.IntN(6) {
			w := Wait{For: "tool" + strconv.Itoa(i), Time: part()}
			s.Waiting, s.Total = append(s.Waiting, w), s.Total+w.Time
		}
		if s.Total == 0 {
			continue
		}
		sum := 0
		for _, m := range percent.FindAllStringSubmatch(s.Text(), -1) {
			n, _ := strconv.Atoi(m[1])
			sum += n
		}
		if sum != 100 {
			t.Fatalf("%q adds up to %d%%", s.Text(), sum)
		}
	}
	half := Split{Total: 4100, Running: 40, Asleep: 2030, Paused: 2030, Exact: true}
	if got := half.Text(); got != "4 µs: 50% asleep, 49% paused, 1% running" {
		t.Errorf("%q", got)
	}
}
