package monty

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"agentkernel"
)

var (
	frameLine  = regexp.MustCompile(`File "[^"]*", lines? (\d+)(?:-(\d+))?`)
	cpythonRan = regexp.MustCompile(`File "<string>", line (\d+)`)
)

// placed are programs that end by an exception, and where the innermost frame of the traceback is to be: the line that CPython says, or lines
// among which it is, where the engine does not know it.
var placed = map[string]struct{ source, want string }{
	"expression":         {"x = 1\ny = (x +\n     2 +\n     x / 0)\n", "4"},
	"arguments":          {"def f(a, b):\n    return a\n\nf(1,\n  1 / 0)\n", "5"},
	"raise":              {"x = 1\nraise ValueError(\n    'a'\n    'b'\n)\n", "2"},
	"backslashes":        {"x = 1 + \\\n    2 + \\\n    1/0\n", "3"},
	"f-string":           {"x = 1\ny = f'''a\n{x}\n{1/0}\n'''\n", "4"},
	"comparison":         {"x = (1\n     < 'a')\n", "1"},
	"called":             {"def g(x):\n    return h(\n        x)\n\ndef h(x):\n    return x.zip\n\ng(1)\n", "6"},
	"method of a chain":  {"s = 'abc'\nr = (s\n     .strip()\n     .upper()\n     .index('q'))\n", "5"},
	"chain's arguments":  {"s = 'abc'\nr = (s\n     .index(\n    'q',\n    0,\n))\n", "3"},
	"function":           {"s = 'abc'\nr = s.index(\n    'q',\n    0,\n)\n", "2"},
	"umlauts in a chain": {"s = 'äöü'; r = (s\n     .upper()\n     .index('ß'))\n", "3"},
	"attribute":          {"x = 1\nv = (x\n     .foo)\n", "3"},
	"augmented":          {"x = 1\nx += (\n    'a')\n", "2"},
	"augmented item":     {"l = [1]\nl[0] += [\n    1,\n    2]\n", "2"},

	"not taken":            {"x = 1\ntry:\n    x = 2\n    1/0\nexcept KeyError:\n    pass\n", "3-4"},
	"one line not taken":   {"x = 1\ntry:\n    1/0\nexcept KeyError:\n    pass\n", "3"},
	"not taken, with code": {"try:\n    1/0\nexcept KeyError:\n    y = 1\n", "1-4"},
	"none of three":        {"try:\n    x = 1\n    1/0\nexcept KeyError:\n    y = 1\nexcept (ValueError,\n        TypeError):\n    pass\n", "2-3"},
	"finally":              {"try:\n    x = int('x')\nfinally:\n    y = 2\n    z = 3\n", "1-5"},
	"finally with a block": {"def g():\n    return 1\ntry:\n    int('x')\nfinally:\n    y = g()\n    if y:\n        z = [1, 2][0]\n", "3-8"},
	"bare raise":           {"try:\n    [].pop()\nexcept IndexError as e:\n    raise\n", "2"},
	"raise after a call":   {"try:\n    x = 1\n    [].pop()\nexcept IndexError as e:\n    str(e)\n    raise\n", "1-5"},
	"raise under a test":   {"try:\n    int('q')\nexcept ValueError as e:\n    if 'x' not in str(e):\n        raise\n", "1-4"},
	"raise behind a try": {"def f():\n    try:\n        x = 1\n        int('q')\n    except ValueError:\n        try:\n            z = 2\n        except KeyError:\n" +
		"            pass\n        raise\nf()\n", "2-8"},
	"in a loop": {"for i in range(3):\n    try:\n        if i == 2:\n            int('q')\n    except KeyError:\n        continue\n", "3-4"},

	"raised in except":          {"try:\n    1/0\nexcept ZeroDivisionError:\n    x = 1\n    raise KeyError('a')\n", "5"},
	"raised in an else":         {"try:\n    x = 1\nexcept KeyError:\n    pass\nelse:\n    int('q')\n", "6"},
	"attribute in except":       {"try:\n    1/0\nexcept ZeroDivisionError:\n    y = None\n    y.foo\n", "5"},
	"error in except":           {"try:\n    1/0\nexcept Exception:\n    y = None\n    str(y + 1)\n", "4-5"},
	"error before the end":      {"try:\n    1/0\nexcept ZeroDivisionError:\n    int('q')\n    y = 1\n", "1-5"},
	"error in the first of two": {"try:\n    [].pop()\nexcept IndexError:\n    int('q')\n    y = 1\nexcept KeyError:\n    pass\n", "4-5"},
	"error in finally":          {"try:\n    x = 1\nfinally:\n    y = int('q')\n", "4"},
	"unknown name in except":    {"try:\n    1/0\nexcept Nope:\n    pass\n", "3"},
}

func TestLinesAreThoseOfCPython(t *testing.T) {
	b := newBackend(t)
	for name, c := range placed {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, b, c.source)
			turn, err := r.finish()
			if err != nil || turn.Kind != agentkernel.TurnFail {
				t.Fatalf("%+v %v", turn, err)
			}
			frames := frameLine.FindAllStringSubmatch(turn.Err.Traceback, -1)
			if len(frames) == 0 {
				t.Fatalf("no frame in %s", turn.Err.Traceback)
			}
			last := frames[len(frames)-1]
			got := strings.TrimSuffix(last[1]+"-"+last[2], "-")
			if got != c.want {
				t.Errorf("line %s, want %s\n%s", got, c.want, turn.Err.Traceback)
			}
			first, _ := strconv.Atoi(last[1])
			end := first
			if last[2] != "" {
				end, _ = strconv.Atoi(last[2])
			}
			for _, truth := range cpythonLines(t, c.source) {
				if first <= truth && truth <= end {
					return
				}
			}
			t.Errorf("CPython says another line than %s:\n%s", got, turn.Err.Traceback)
		})
	}
}

// A cell of a session is placed as a program is, also behind others whose functions it calls.
func TestLinesOfCells(t *testing.T) {
	for name, c := range placed {
		t.Run(name, func(t *testing.T) {
			r := newSession(t, "")
			r.ended()
			if got := r.feed("before = 1\n\ndef outer(n):\n    x = n\n    return 1 / x\n"); got != "null" {
				t.Fatal(got)
			}
			for range 2 {
				got := r.feed(c.source)
				frames := frameLine.FindAllStringSubmatch(got, -1)
				if len(frames) == 0 {
					t.Fatalf("no frame in %s", got)
				}
				last := frames[len(frames)-1]
				if line := strings.TrimSuffix(last[1]+"-"+last[2], "-"); line != c.want {
					t.Errorf("line %s, want %s\n%s", line, c.want, got)
				}
				if got := r.feed("y = 2\nouter(\n    0)"); !strings.Contains(got, "line 2, in <module>") || !strings.Contains(got, "line 5, in outer") {
					t.Errorf("in a function of an earlier cell: %s", got)
				}
			}
		})
	}
}

// cpythonLines are the lines of all frames that CPython prints; nil without an interpreter would prove nothing, so that skips.
func cpythonLines(t *testing.T, source string) (lines []int) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED, HALF PROVED: there is no python3 to compare with")
	}
	out, err := exec.CommandContext(t.Context(), python, "-I", "-c", source).CombinedOutput()
	if err == nil {
		t.Fatalf("CPython ends well: %s", out)
	}
	text := string(out)
	if i := strings.LastIndex(text, "During handling"); i >= 0 { // of the last exception
		text = text[i:]
	}
	all := cpythonRan.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		t.Fatalf("no line in %s", text)
	}
	n, _ := strconv.Atoi(all[len(all)-1][1])
	return []int{n}
}
