package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// report is the whole document.
type report struct {
	Machine  machine   `json:"machine"`
	Mode     string    `json:"mode"` // "full", "quick" or "tiny"
	Sections []outcome `json:"sections"`
}

// outcome is one section's part of the document.
type outcome struct {
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	About  string  `json:"about"`
	Tables []table `json:"tables,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// table has the columns that its rows use.
type table struct {
	Title string   `json:"title,omitempty"`
	Rows  []row    `json:"rows"`
	Notes []string `json:"notes,omitempty"`
}

// row is one measured thing. What it does not have it leaves zero.
type row struct {
	What    string  `json:"what"`
	Role    role    `json:"role,omitempty"`
	P50     float64 `json:"p50_us,omitempty"`
	P99     float64 `json:"p99_us,omitempty"`
	Samples int     `json:"samples,omitempty"`
	Value   string  `json:"value,omitempty"` // a figure that is no latency, with its unit
	Ratio   float64 `json:"ratio,omitempty"`
	Goal    string  `json:"goal,omitempty"`
	Met     *bool   `json:"met,omitempty"`
	Skipped string  `json:"skipped,omitempty"`
}

// latency makes the row of a series.
func latency(c contender, s series) row {
	if c.skip != "" {
		return row{What: c.name, Role: c.role, Skipped: c.skip}
	}
	return row{What: c.name, Role: c.role, P50: micros(s.p50()), P99: micros(s.p99()), Samples: len(s.all())}
}

// latencies makes the rows of a contest.
func latencies(contenders []contender, results []series) []row {
	rows := make([]row, len(contenders))
	for i, c := range contenders {
		rows[i] = latency(c, results[i])
	}
	return rows
}

// figure makes a row of something that is no latency.
func figure(what string, r role, format string, args ...any) row {
	return row{What: what, Role: r, Value: fmt.Sprintf(format, args...)}
}

// judge says what the row's goal is and whether it was met.
func (r *row) judge(goal string, met bool) {
	r.Goal, r.Met = goal, &met
}

// judgeRatio sets the row's ratio and judges it.
func (r *row) judgeRatio(ratio, goal float64, of string) {
	r.Ratio = ratio
	r.judge(fmt.Sprintf("at most %.4g x %s", goal, of), ratio > 0 && ratio <= goal)
}

// judgeP50 judges the row's p50.
func (r *row) judgeP50(goal time.Duration) {
	r.judge("p50 at most "+span(goal), r.P50 > 0 && r.P50 <= micros(goal))
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// span writes a duration with three significant digits.
func span(d time.Duration) string {
	switch us := micros(d); {
	case us == 0:
		return "0"
	case us < 1000:
		return significant(us) + " µs"
	case us < 1e6:
		return significant(us/1000) + " ms"
	default:
		return significant(us/1e6) + " s"
	}
}

func significant(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// verdict is the last column.
func (r row) verdict() string {
	switch {
	case r.Met == nil:
		return ""
	case *r.Met:
		return "met"
	}
	return "**missed**"
}

// column is one possible column of a table.
type column struct {
	head  string
	align string
	cell  func(row) string
}

var columns = []column{
	{"what", "---", func(r row) string { return r.What }},
	{"", "---", func(r row) string { return string(r.Role) }},
	{"measured", "--:", func(r row) string { return r.Value }},
	{"p50", "--:", func(r row) string { return duration(r.P50) }},
	{"p99", "--:", func(r row) string { return duration(r.P99) }},
	{"ratio", "--:", func(r row) string { return times(r.Ratio) }},
	{"goal", "---", func(r row) string { return r.Goal }},
	{"result", "---", func(r row) string { return r.verdict() }},
}

func duration(us float64) string {
	if us == 0 {
		return ""
	}
	return span(time.Duration(us * float64(time.Microsecond)))
}

func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f x", ratio)
}

// markdown writes the table with the columns that are used.
func (t table) markdown(w io.Writer) {
	if t.Title != "" {
		fmt.Fprintf(w, "**%s**\n\n", t.Title)
	}
	rows := make([][]string, len(t.Rows))
	var head, align []string
	for _, c := range columns {
		used := c.head == "what"
		for _, r := range t.Rows {
			used = used || c.cell(r) != "" || c.head == "p50" && r.Skipped != "" && t.timed()
		}
		if !used {
			continue
		}
		head, align = append(head, c.head), append(align, c.align)
		for i, r := range t.Rows {
			cell := c.cell(r)
			if r.Skipped != "" && (c.head == "p50" || c.head == "measured" && !t.timed()) {
				cell = r.Skipped
			}
			rows[i] = append(rows[i], strings.ReplaceAll(cell, "|", "\\|"))
		}
	}
	fmt.Fprintf(w, "| %s |\n|%s|\n", strings.Join(head, " | "), strings.Join(align, "|"))
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
	fmt.Fprintln(w)
	for _, n := range t.Notes {
		fmt.Fprintf(w, "- %s\n", n)
	}
	if len(t.Notes) > 0 {
		fmt.Fprintln(w)
	}
}

func (t table) timed() bool {
	for _, r := range t.Rows {
		if r.P50 > 0 {
			return true
		}
	}
	return false
}

// markdown writes the document.
func (r report) markdown(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n", r.Machine)
	if r.Mode != "full" {
		fmt.Fprintf(w, "This is a %s run: fewer samples and smaller numbers than `make bench` takes.\n\n", r.Mode)
	}
	met, goals := r.score()
	fmt.Fprintf(w, "%d of %d goals met.\n\n", met, goals)
	for _, s := range r.Sections {
		fmt.Fprintf(w, "## %s\n\n%s\n\n", s.Title, s.About)
		if s.Error != "" {
			fmt.Fprintf(w, "**not measured**: %s\n\n", s.Error)
		}
		for _, t := range s.Tables {
			t.markdown(w)
		}
	}
}

// score counts the goals.
func (r report) score() (met, goals int) {
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			for _, row := range t.Rows {
				if row.Met == nil {
					continue
				}
				goals++
				if *row.Met {
					met++
				}
			}
		}
	}
	return met, goals
}
