package shellword_test

import (
	"os/exec"
	"strings"
	"testing"

	"agentkernel/internal/shellword"
)

// Whatever a program calls its files, a shell reads the word of a command as that name, and no command as a flag.
func TestWordsOfSuggestedCommands(t *testing.T) {
	for _, name := range []string{"a.txt", "--isolation=none", "-c", "a b", "it's", "$(id)", "`id`", "a;id", "x\ny", "*", "~", "#", "!", "", "ä", "a\\", "\"", "<x>", "&", "{a,b}", "-", "--"} {
		file := name
		if strings.HasPrefix(name, "-") {
			file = "./" + name
		}
		out, err := exec.Command("sh", "-c", "printf '%s|' "+strings.Join([]string{shellword.Of(name), shellword.File(name), shellword.Quoted(name)}, " ")).Output()
		if want := name + "|" + file + "|" + name + "|"; err != nil || string(out) != want {
			t.Errorf("a shell reads %q, want %q: %v", out, want, err)
		}
	}
}

func TestNamesAreNoFlags(t *testing.T) {
	for want, names := range map[string][]string{"a b": {"a", "b"}, "a -- --yes": {"a", "--yes"}, "-- -a -b": {"-a", "-b"}, "a 'b; rm -rf ~'": {"a", "b; rm -rf ~"}} {
		if got := shellword.Names(names...); got != want {
			t.Errorf("%q: %s, want %s", names, got, want)
		}
	}
}
