package examples

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of a page that has commands, or a file for them, with the marks before it.
type block struct {
	at       string // page:line
	commands []typed
	files    map[string]string // to be written before
	before   []string          // hidden commands
	notHere  string            // why its commands are not run
	fails    bool              // its commands, of which no output is shown, do not end with 0
	sleep    string            // a condition for which `sleep` waits instead of a time
	varies   []*regexp.Regexp  // what of its output differs from run to run
}

// typed is a command with the lines that it prints.
type typed struct {
	at, text string
	shows    []string
}

// commandWords begin the lines of a block without a language that are commands although they have no "$ " in front.
var commandWords = []string{"./agentkernel", "agentkernel", "make", "npm", "pip", "python3", "rm", "tar", "cat", "npx", "claude"}

// readPage finds the blocks of a page, in order. Marks are HTML comments on lines of their own, before the block that they are about:
//
//	<!-- run: not here: REASON -->        its commands are not run
//	<!-- run: save as NAME -->            the block itself is a file
//	<!-- run: varies REGEXP -->           such text is no difference; may be repeated
//	<!-- run: fails -->                   its commands show nothing and do not end with 0
//	<!-- run: sleep until CONDITION -->   what its `sleep` waits for, so that no machine is too slow; $OUT is the file of the output
//	<!-- run: file NAME                   a file that the reader is supposed to have
//	...
//	-->
//	<!-- run: do                          commands that the reader does not see, one a line
//	...
//	-->
func readPage(path, name string) ([]block, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := pageReader{name: name, lines: strings.Split(string(raw), "\n")}
	for p.n < len(p.lines) {
		line := p.lines[p.n]
		switch {
		case strings.HasPrefix(line, "<!-- run: "):
			err = p.mark()
		case strings.HasPrefix(line, "```"):
			err = p.fence(strings.TrimPrefix(line, "```"))
		default:
			p.n++
		}
		if err != nil {
			return nil, err
		}
	}
	if p.marked {
		return nil, fmt.Errorf("%s: marks without a block", name)
	}
	return p.blocks, nil
}

type pageReader struct {
	name   string
	lines  []string
	n      int
	next   block // what the marks said so far
	save   string
	marked bool
	blocks []block
}

func (p *pageReader) at() string { return fmt.Sprintf("%s:%d", p.name, p.n+1) }

func (p *pageReader) mark() error {
	at := p.at()
	what, one := strings.CutSuffix(strings.TrimPrefix(p.lines[p.n], "<!-- run: "), " -->")
	var body []string
	for p.n++; !one; p.n++ {
		if p.n == len(p.lines) {
			return fmt.Errorf("%s: the comment does not end", at)
		}
		if one = p.lines[p.n] == "-->"; !one {
			body = append(body, p.lines[p.n])
		}
	}
	p.marked = true
	word := func(prefix string) (string, bool) {
		rest, ok := strings.CutPrefix(what, prefix)
		return strings.TrimSpace(rest), ok
	}
	if v, ok := word("not here: "); ok {
		p.next.notHere = v
	} else if v, ok := word("save as "); ok {
		p.save = v
	} else if v, ok := word("sleep until "); ok {
		p.next.sleep = v
	} else if v, ok := word("varies "); ok {
		re, err := regexp.Compile("(?m)" + v)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		p.next.varies = append(p.next.varies, re)
	} else if v, ok := word("file "); ok {
		p.file(v, body)
	} else if what == "do" {
		p.next.before = append(p.next.before, strings.Join(body, "\n"))
	} else if what == "fails" {
		p.next.fails = true
	} else {
		return fmt.Errorf("%s: what is %q?", at, what)
	}
	return nil
}

func (p *pageReader) file(name string, lines []string) {
	if p.next.files == nil {
		p.next.files = map[string]string{}
	}
	p.next.files[name] = strings.Join(lines, "\n") + "\n"
}

func (p *pageReader) fence(language string) error {
	b := p.next
	b.at = p.at()
	var lines []string
	first := p.n + 2 // the number of the first line within
	for p.n++; p.n < len(p.lines) && p.lines[p.n] != "```"; p.n++ {
		lines = append(lines, p.lines[p.n])
	}
	p.n++
	if p.save != "" {
		p.file(p.save, lines)
		p.next.at, p.save = b.at, ""
		p.blocks = append(p.blocks, p.next)
		p.next, p.marked = block{}, false
		return nil
	}
	if language == "" || language == "sh" || language == "console" {
		b.commands = commandsOf(p.name, first, lines)
	}
	if len(b.commands) == 0 && p.marked {
		return fmt.Errorf("%s: the block has marks and no command", b.at)
	}
	if len(b.commands) > 0 {
		p.blocks = append(p.blocks, b)
	}
	p.next, p.marked = block{}, false
	return nil
}

func commandsOf(page string, first int, lines []string) []typed {
	prompted := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	var all []typed
	for i, line := range lines {
		at := fmt.Sprintf("%s:%d", page, first+i)
		text, isCommand := strings.CutPrefix(line, "$ ")
		if !prompted {
			word, _, _ := strings.Cut(line, " ")
			isCommand = slices.Contains(commandWords, word)
		}
		switch {
		case isCommand:
			all = append(all, typed{at: at, text: text})
		case len(all) > 0 && (prompted || strings.TrimSpace(line) == ""):
			all[len(all)-1].shows = append(all[len(all)-1].shows, line)
		case strings.TrimSpace(line) != "":
			return nil // no list of commands
		}
	}
	for i := range all {
		if strings.TrimSpace(strings.Join(all[i].shows, "")) == "" {
			all[i].shows = nil
		}
	}
	return all
}

func TestReadPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# A page\n\n<!-- run: save as a.py -->\n```python\nprint(1)\n```\n\nText.\n\n" +
		"<!-- run: varies \\d+ calls -->\n<!-- run: file b.txt\none\ntwo\n-->\n<!-- run: do\nmkdir x\n-->\n" +
		"```\n$ agentkernel run a.py   # now\n1\nexited\n$ agentkernel ps\n```\n\n```\nmake build   # it\nagentkernel ps\n```\n\n```\nno command\n```\n" +
		"<!-- run: not here: it takes hours -->\n```sh\nmake soak\n```\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	blocks, err := readPage(page, "page.md")
	if err != nil || len(blocks) != 4 {
		t.Fatalf("%v %+v", err, blocks)
	}
	if got := blocks[0].files["a.py"]; got != "print(1)\n" {
		t.Errorf("saved %q", got)
	}
	b := blocks[1]
	if b.at != "page.md:18" || b.files["b.txt"] != "one\ntwo\n" || !slices.Equal(b.before, []string{"mkdir x"}) || len(b.varies) != 1 || len(b.commands) != 2 ||
		b.commands[0].text != "agentkernel run a.py   # now" || !slices.Equal(b.commands[0].shows, []string{"1", "exited"}) || b.commands[1].shows != nil {
		t.Errorf("%+v", b)
	}
	if b := blocks[2]; len(b.commands) != 2 || b.commands[1].text != "agentkernel ps" || b.commands[1].at != "page.md:27" {
		t.Errorf("%+v", b)
	}
	if b := blocks[3]; b.notHere != "it takes hours" || len(b.commands) != 1 {
		t.Errorf("%+v", b)
	}
	for _, wrong := range []string{"<!-- run: nonsense -->\n```\nagentkernel ps\n```\n", "<!-- run: fails -->\n", "<!-- run: fails -->\n```python\n1\n```\n", "<!-- run: do\nx\n"} {
		if err := os.WriteFile(page, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readPage(page, "page.md"); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

func TestSameLines(t *testing.T) {
	for _, c := range []struct {
		page, printed string
		same          bool
	}{
		{"a\nb", "a\nb", true},
		{"a\nb", "a", false},
		{"a\n...\nd", "a\nb\nc\nd", true},
		{"a\n...", "a", true},
		{"a\n...\nd", "a\nb", false},
		{"exited · 1.2 s · 1 tool call", "exited · 981 ms · 1 tool call", true},
		{"exited · 1.2 s · 1 tool call", "exited · 981 ms · 2 tool calls", false},
		{"pid 1    x", "pid 1 x", true},
		{"it says ...", "it says more", true},
	} {
		if got := sameLines(rewritten(c.page, nil), rewritten(c.printed, nil)); got != c.same {
			t.Errorf("%q and %q: %v", c.page, c.printed, got)
		}
	}
}
