package examples

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/tool/tooltest"
)

// pagePatience only guards against a command that hangs.
const pagePatience = 3 * time.Minute

// varies is what differs from one run to the next on every page. Both what a page shows and what was printed are
// rewritten so before they are compared; a page's own `<!-- run: varies REGEXP -->` comes on top.
var varies = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)? ?(µs|ms|s)\b|\b(\d+h)?\d+m\d+s\b`), "SPAN"},
	{regexp.MustCompile(`\b0\.\d+\.\d+(-[\w.+-]+)?\b`), "VERSION"},
	{regexp.MustCompile(`(?m)^bash: line \d+: +\d+ Killed .*$`), ""}, // bash tells of a job that was killed when it comes to it
	{regexp.MustCompile(`[ \t]+`), " "},                              // columns are as wide as what stands in them
}

func rewritten(text string, own []*regexp.Regexp) []string {
	for _, re := range own {
		text = re.ReplaceAllString(text, "")
	}
	for _, v := range varies {
		text = v.re.ReplaceAllString(text, v.with)
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
}

// sameLines compares line by line. A line of the page that is "..." is any number of lines, and one that ends with " ..." any end.
func sameLines(page, printed []string) bool {
	if len(page) == 0 {
		return len(printed) == 0
	}
	if strings.TrimSpace(page[0]) == "..." {
		for i := range len(printed) + 1 {
			if sameLines(page[1:], printed[i:]) {
				return true
			}
		}
		return false
	}
	if len(printed) == 0 {
		return false
	}
	start, open := strings.CutSuffix(page[0], " ...")
	return (page[0] == printed[0] || open && strings.HasPrefix(printed[0], start)) && sameLines(page[1:], printed[1:])
}

// clone is what somebody has who has just cloned the repository and run `make build mcp data`; nothing else is shared with this one.
func clone(t *testing.T, exe string) string {
	t.Helper()
	root, err := tooltest.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := exec.Command("git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z").Output()
	if err != nil { // no git, or none of its directories: an archive of the source
		t.Skipf("NO PAGE WAS RUN: %v", err)
	}
	to := filepath.Join(shortDir(t), "agentkernel")
	// Nothing is compiled in it, so nobody misses the rest.
	for name := range strings.SplitSeq(strings.Trim(string(files), "\x00"), "\x00") {
		top, _, deep := strings.Cut(name, "/")
		if deep && !slices.Contains([]string{"docs", "examples", "scripts", "sdk"}, top) {
			continue
		}
		copyFile(t, filepath.Join(root, name), filepath.Join(to, name))
	}
	for _, made := range []string{"examples/data/sales.csv", "examples/data/stocks/history.csv"} {
		copyFile(t, filepath.Join(root, made), filepath.Join(to, made))
	}
	copyFile(t, exe, filepath.Join(to, "agentkernel"))
	if err := os.Symlink(filepath.Join(root, ".cache"), filepath.Join(to, ".cache")); err != nil {
		t.Fatal(err)
	}
	return to
}

// shortDir is a temporary directory in which the name of a socket has room.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "akp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	st, err := os.Stat(from)
	if os.IsNotExist(err) { // deleted and not yet committed
		return
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(from)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, b, st.Mode().Perm())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reader is somebody who types what a page says.
type reader struct {
	t         *testing.T
	dir, home string
	env       []string
	out       string // what the last command printed, as a file
}

func newReader(t *testing.T, exe string) *reader {
	dir, home := clone(t, exe), shortDir(t)
	r := &reader{t: t, dir: dir, home: home, out: filepath.Join(home, "..", filepath.Base(home)+".out")}
	keep := []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS", "GOPROXY", "LANG", "TMPDIR", "PYENV_ROOT", "PYENV_VERSION", "AGENTKERNEL_PYTHON"}
	for _, name := range keep {
		if v, ok := os.LookupEnv(name); ok {
			r.env = append(r.env, name+"="+v)
		}
	}
	r.env = append(r.env, "HOME="+home, "PATH="+dir+":"+os.Getenv("PATH"), "OUT="+r.out, "PYTHONDONTWRITEBYTECODE=1",
		"DEMO_SERVER="+tooltest.Build(t), "OPENAI_API_KEY=made-up", // docs/llm.md says so; what it is for takes any
		// What `agentkernel setup` would have downloaded.
		"AGENTKERNEL_ENGINE="+engine(t))
	if err := os.WriteFile(r.cwd(), []byte(dir), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.sh("agentkernel shutdown")
		_ = os.Remove(r.out)
		_ = os.Remove(r.cwd())
	})
	return r
}

// cwd keeps the directory in which the reader is, from one command to the next.
func (r *reader) cwd() string { return r.out + ".cwd" }

// sh types a line, and returns what the terminal shows and how it ended.
func (r *reader) sh(line string) (printed string, exit int) {
	r.t.Helper()
	out, err := os.Create(r.out)
	if err != nil {
		r.t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(context.Background(), pagePatience)
	defer cancel()
	// A file and not a pipe: a command in the background does not hold it up.
	cmd := exec.CommandContext(ctx, "bash", "-c", "cd \"$(cat '"+r.cwd()+"')\" || exit 99\n"+line+"\nstatus=$?; pwd >'"+r.cwd()+"'; exit $status")
	cmd.Env, cmd.Stdout, cmd.Stderr = r.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	if ctx.Err() != nil {
		r.t.Errorf("did not end within %s: %s", pagePatience, line)
	} else if err != nil && cmd.ProcessState == nil {
		r.t.Fatal(err)
	}
	text, err := os.ReadFile(r.out)
	if err != nil {
		r.t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte(r.dir), []byte("/home/me/agentkernel"))
	text = bytes.ReplaceAll(text, []byte(r.home), []byte("/home/me"))
	return string(text), cmd.ProcessState.ExitCode()
}

// do does what one block of a page says, and compares.
func (r *reader) do(b block) {
	r.t.Helper()
	for name, content := range b.files {
		path := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, line := range b.before {
		if printed, exit := r.sh(line); exit != 0 {
			r.t.Fatalf("%s: exit code %d of the hidden command: %s\n%s", b.at, exit, line, printed)
		}
	}
	if b.notHere != "" {
		return
	}
	for _, c := range b.commands {
		line := c.text
		if b.sleep != "" {
			line = "sleep() { until " + b.sleep + "; do command sleep 0.02; done 2>/dev/null; }\n" + line
		}
		printed, exit := r.sh(line)
		switch {
		case len(c.shows) == 0:
			if (exit != 0) != b.fails {
				r.t.Errorf("%s: exit code %d\n$ %s\n%s", c.at, exit, c.text, printed)
			}
		case !sameLines(rewritten(strings.Join(c.shows, "\n"), b.varies), rewritten(printed, b.varies)):
			r.t.Errorf("%s: exit code %d\n$ %s\n%s--- the page shows\n%s", c.at, exit, c.text, printed, strings.Join(c.shows, "\n"))
		}
	}
}

// Every command on every page runs as it is written, in the order of the page, in a fresh clone and an empty home, and prints what
// the page shows. CONTRIBUTING.md has the marks by which a page says what cannot be run, and what varies.
func TestPages(t *testing.T) {
	if p := confine.Look().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here, and the pages have programs with folders: %v", p)
	}
	python(t)
	exe, err := command()
	if err != nil {
		t.Fatal(err)
	}
	tooltest.NPM(t, "@modelcontextprotocol/server-filesystem")
	root, err := tooltest.Root()
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md", "sdk/python/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	run, left := 0, []string{}
	for _, path := range pages {
		name, _ := filepath.Rel(root, path)
		blocks, err := readPage(path, name)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(blocks) == 0 {
			continue
		}
		for _, b := range blocks {
			if b.notHere == "" {
				run += len(b.commands)
			} else if len(b.commands) > 0 {
				left = append(left, fmt.Sprintf("%s: %d: %s", b.at, len(b.commands), b.notHere))
			}
		}
		t.Run(name, func(t *testing.T) {
			r := newReader(t, exe)
			for _, b := range blocks {
				r.do(b)
			}
		})
	}
	t.Logf("%d commands of the pages are run; not run here:\n%s", run, strings.Join(left, "\n"))
}
