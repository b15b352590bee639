package console

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Table lays rows out in aligned columns, two spaces apart; the first row is the head. Columns named in
// right are aligned to the right. The last column is not padded.
func Table(rows [][]string, right ...int) string { return NewColumns(right...).Rows(rows) }

// Columns is a table that is printed part by part: each part is as wide as those before it, or wider where it has to be.
type Columns struct {
	widths []int
	right  []int
}

// NewColumns begins a table; columns named in right are aligned to the right.
func NewColumns(right ...int) *Columns { return &Columns{right: right} }

// Rows lays out further rows; of the first part the first row is the head.
func (c *Columns) Rows(rows [][]string) string {
	for _, r := range rows {
		for i := range r {
			r[i] = Line(r[i])
			cell := r[i]
			if i == len(c.widths) {
				c.widths = append(c.widths, 0)
			}
			c.widths[i] = max(c.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", c.widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(c.right, i) {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// Age is a time span as `ps` shows it: 5s, 12m, 3h, 4d.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Span is a duration with the precision that a reader wants: 850 µs, 3.2 ms, 14 ms, 1.2 s, 3m5s.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(max(-d, 0))
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Bytes is a number of bytes for readers: 214 B, 3.4 kB, 12 MB.
func Bytes(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n < 1_000_000_000:
		return fmt.Sprintf("%d MB", n/1_000_000)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
