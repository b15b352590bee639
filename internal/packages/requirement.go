package packages

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/lazy"
)

const op = "packages"

func invalid(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, op, format, args...)
}

// requirement is a name with extras, versions and a marker, as PEP 508 writes them. Links, paths and options of pip are
// none: what a program asks for comes from where the user's pip looks.
var requirement = lazy.Regexp(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(\[[A-Za-z0-9._,\s-]*\])?\s*(\(?[<>=!~][<>=!~A-Za-z0-9.*+,\s_-]*\)?)?\s*(;[^@/\\]*)?$`)

// withoutCredentials finds user and password in the address of an index.
var withoutCredentials = lazy.Regexp(`://[^/@\s]*@`)

// Requirements checks what was asked for, and gives it in one order and spelling.
func Requirements(texts []string) ([]string, error) {
	var out []string
	for _, text := range texts {
		text = strings.Join(strings.Fields(text), " ")
		m := requirement().FindStringSubmatch(text)
		if m == nil || len(text) > 500 {
			return nil, invalid("%q is not a package with its versions", clip.Short(text)).
				WithHint("write a name, such as polars, 'polars>=1' or 'httpx[http2]==0.27.0'; links and paths are not installed")
		}
		name := strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(m[1]), "_", "-"), ".", "-")
		out = append(out, name+text[len(m[1]):])
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Script is what a program says of itself in its first comments (PEP 723).
type Script struct {
	Python string   `toml:"requires-python"`
	With   []string `toml:"dependencies"`
}

// ReadScript reads the block "# /// script" of a program. The zero Script: there is none.
func ReadScript(source string) (Script, error) {
	var s Script
	var text strings.Builder
	inside, found, number := false, false, 0
	for line := range strings.Lines(source) {
		number++
		line = strings.TrimRight(line, "\r\n")
		switch {
		case !inside && line == "# /// script":
			if found {
				return s, invalid("the program has two blocks \"# /// script\"")
			}
			inside, found = true, true
		case inside && line == "# ///":
			inside = false
		case inside && line == "#":
			text.WriteByte('\n')
		case inside && strings.HasPrefix(line, "# "):
			text.WriteString(line[2:] + "\n")
		case inside && strings.HasPrefix(line, "#"):
			return s, invalid("line %d: %q is in the block \"# /// script\", and there a space stands behind #", number, clip.Short(line))
		case inside:
			return s, notEnded()
		}
	}
	if inside {
		return s, notEnded()
	}
	if err := toml.Unmarshal([]byte(text.String()), &s); err != nil {
		return s, notToml(err)
	}
	return s, nil
}

func notEnded() error {
	return invalid("the block \"# /// script\" of the program does not end with \"# ///\"").
		WithHint("each line of it is a comment, the last one is: # ///")
}

// notToml says what of a block is wrong, in words of TOML and not of this program.
func notToml(err error) error {
	const hint = `it holds lines such as: # dependencies = ["polars>=1"]`
	if d, ok := errors.AsType[*toml.DecodeError](err); ok {
		if key := d.Key(); len(key) == 1 && key[0] == "dependencies" {
			return invalid("dependencies in the block \"# /// script\" of the program is no list of texts").WithHint(hint)
		} else if len(key) == 1 && key[0] == "requires-python" {
			return invalid("requires-python in the block \"# /// script\" of the program is no text").WithHint(`such as: # requires-python = ">=3.10"`)
		}
	}
	return invalid("the block \"# /// script\" of the program is not TOML: %s", strings.TrimPrefix(err.Error(), "toml: ")).WithHint(hint)
}

// Accepts says whether a version, "3.11.7", is one that requires-python means (PEP 440, without the parts that no
// version of Python has).
func (s Script) Accepts(version string) (bool, error) {
	have := parts(version)
	for clause := range strings.SplitSeq(s.Python, ",") {
		if clause = strings.TrimSpace(clause); clause == "" {
			continue
		}
		operator := clause[:len(clause)-len(strings.TrimLeft(clause, "<>=!~"))]
		text := strings.TrimSpace(clause[len(operator):])
		prefix := strings.HasSuffix(text, ".*")
		want := parts(strings.TrimSuffix(text, ".*"))
		if len(want) == 0 {
			return false, invalid("requires-python = %q of the program is not understood", clip.Short(s.Python))
		}
		within := slices.Equal(have[:min(len(have), len(want))], want)
		order := slices.Compare(have, append(slices.Clone(want), make([]int, max(0, len(have)-len(want)))...))
		var ok bool
		switch operator {
		case ">=":
			ok = order >= 0
		case "<=":
			ok = order <= 0
		case ">":
			ok = order > 0
		case "<":
			ok = order < 0
		case "==", "===":
			ok = order == 0 || prefix && within
		case "!=":
			ok = order != 0 && !(prefix && within)
		case "~=":
			ok = order >= 0 && len(want) > 1 && slices.Equal(have[:len(want)-1], want[:len(want)-1])
		default:
			return false, invalid("requires-python = %q of the program is not understood", clip.Short(s.Python))
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// parts are the numbers of a version; nil if it has others.
func parts(version string) []int {
	var out []int
	for p := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(p)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}
