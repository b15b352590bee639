package diff

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUnified(t *testing.T) {
	got := Unified("a/f", "b/f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9")
	want := `--- a/f
+++ b/f
@@ -2,8 +2,8 @@
 2
 3
 4
-5
+five
 6
 7
 8
-9
+9
\ No newline at end of file
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Unified("/dev/null", "b/f", "", "x\n"); got != "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n" {
		t.Errorf("a new file:\n%s", got)
	}
	if got := Unified("a", "b", "x", "x"); got != "" {
		t.Errorf("equal texts:\n%s", got)
	}
}

// What patch(1) makes of the one text is the other.
func TestPatchUnderstands(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("there is no patch(1) to ask")
	}
	text := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "\n", "-c\n", "@@\n", "x"}), 0, 40), func(l []string) string { return strings.Join(l, "") })
	rapid.Check(t, func(rt *rapid.T) {
		a, b := text.Draw(rt, "a"), text.Draw(rt, "b")
		if a == b {
			return
		}
		f := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(f, []byte(a), 0o600); err != nil {
			rt.Fatal(err)
		}
		cmd := exec.Command(patch, "--quiet", f)
		cmd.Stdin = strings.NewReader(Unified("a/f", "b/f", a, b))
		if out, err := cmd.CombinedOutput(); err != nil {
			rt.Fatalf("%v %s\n%s", err, out, Unified("a/f", "b/f", a, b))
		}
		got, err := os.ReadFile(f)
		if err != nil && b != "" || string(got) != b { // an empty result may be removed
			rt.Fatalf("patched %q, want %q; %v", got, b, err)
		}
	})
}
