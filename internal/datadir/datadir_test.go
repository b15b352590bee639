package datadir

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentkernel"
)

func TestResolve(t *testing.T) {
	home := t.TempDir()
	for _, tc := range []struct {
		name, explicit, env, xdg, want string
	}{
		{"explicit wins", "/data/x", "/data/env", "/data/xdg", "/data/x"},
		{"then the environment", "", "/data/env", "/data/xdg", "/data/env"},
		{"then the state directory", "", "", "/data/xdg", "/data/xdg/agentkernel"},
		{"a relative state directory is ignored", "", "", "xdg", home + "/.local/state/agentkernel"},
		{"then the home directory", "", "", "", home + "/.local/state/agentkernel"},
		{"a tilde is a home", "~/k", "", "", home + "/k"},
		{"a tilde in the environment too", "", "~/k", "", home + "/k"},
		{"a tilde alone", "~", "", "", home},
		{"cleaned", "/data/../k/", "", "", "/k"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("HOME", home)
			t.Setenv(EnvHome, tc.env)
			t.Setenv("XDG_STATE_HOME", tc.xdg)
			if got, err := Resolve(tc.explicit); err != nil || got != tc.want {
				t.Errorf("Resolve(%q) = %q, %v; want %q", tc.explicit, got, err, tc.want)
			}
		})
	}
}

func TestResolveRelativeAndHomeless(t *testing.T) {
	t.Setenv(EnvHome, "")
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Resolve("k"); err != nil || got != filepath.Join(wd, "k") {
		t.Errorf("Resolve(k) = %q, %v", got, err)
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	if _, err := Resolve(""); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("without a home: %v", err)
	}
}

func TestOpenMakesAPrivateDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", info.Mode(), err)
	}
	for _, got := range []string{d.Database(), d.Blobs(), d.Socket(), d.Log(), d.Engines(), d.Run()} {
		if filepath.Dir(got) != path {
			t.Errorf("%s is not in %s", got, path)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	write(t, file, "x")
	foreign := filepath.Join(base, "foreign") // open to others, and not a kernel's
	mkdir(t, foreign, 0o755)
	write(t, filepath.Join(foreign, "letter.txt"), "x")
	sticky := filepath.Join(base, "sticky")
	mkdir(t, sticky, 0o777|os.ModeSticky)

	for _, tc := range []struct {
		path string
		code agentkernel.Code
		says string
		hint string
	}{
		{file, agentkernel.CodeInvalid, "", "another path"},
		{filepath.Join(file, "below"), agentkernel.CodeInvalid, "", "a file"},
		{foreign, agentkernel.CodeDenied, "holds files that are not the kernel's", foreign + "/agentkernel"},
		{sticky, agentkernel.CodeDenied, "(mode 0777) is shared with other users (sticky)", "directory of its own"},
		{"/proc/agentkernel", agentkernel.CodeStorage, "", "to a directory that can be written"},
	} {
		_, err := Open(tc.path)
		e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
		if e == nil || e.Code != tc.code || !strings.Contains(e.Error(), tc.says) || !strings.Contains(e.Hint, tc.hint) {
			t.Errorf("Open(%s) = %#v; want %s with %q and %q", tc.path, e, tc.code, tc.says, tc.hint)
		}
	}
	if info, _ := os.Stat(foreign); info.Mode().Perm() != 0o755 {
		t.Errorf("a foreign directory was changed to %v", info.Mode())
	}
}

func TestOpenTightensOurOwn(t *testing.T) {
	for name, file := range map[string]string{"empty": "", "used": databaseFile, "an engine by hand": enginesDir} {
		path := filepath.Join(t.TempDir(), name)
		mkdir(t, path, 0o755)
		if file != "" {
			write(t, filepath.Join(path, file), "x")
		}
		d, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, _ := os.Stat(path); info.Mode().Perm() != 0o700 || len(d.Warnings()) != 1 {
			t.Errorf("%s: mode %v, warnings %q", name, info.Mode(), d.Warnings())
		}
	}
}

func TestOpenSomeoneElses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	path := filepath.Join(t.TempDir(), "theirs")
	mkdir(t, path, 0o700)
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
		t.Errorf("Open: %v", err)
	}
}

func TestLongPathsHaveAShortSocket(t *testing.T) {
	base := t.TempDir()
	long := filepath.Join(base, strings.Repeat("d", 120))
	a, err := Open(long)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, strings.Repeat("l", 120))
	if err := os.Symlink(long, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir()) // must not matter
	b, err := Open(link)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(long + "2")
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Socket()) > maxSocketPath || a.Socket() != b.Socket() || a.Socket() == other.Socket() {
		t.Errorf("sockets %q, %q (same directory), %q (another)", a.Socket(), b.Socket(), other.Socket())
	}
}

func TestPrivateDirIsNotTrustedBlindly(t *testing.T) {
	base := t.TempDir()
	open, link := filepath.Join(base, "open"), filepath.Join(base, "link")
	mkdir(t, open, 0o755)
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{open, link} {
		if err := privateDir(path); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
			t.Errorf("privateDir(%s) = %v", path, err)
		}
	}
}

func TestKeyIsMadeOnceByManyAtOnce(t *testing.T) {
	path := t.TempDir()
	keys := make([][]byte, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			d, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			if keys[i], err = d.Key(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if len(k) != KeySize || !bytes.Equal(k, keys[0]) || bytes.Equal(k, make([]byte, KeySize)) {
			t.Fatalf("keys differ or are empty: %x and %x", k, keys[0])
		}
	}
	names, err := os.ReadDir(path)
	if err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	if info, _ := names[0].Info(); info.Mode().Perm() != 0o600 {
		t.Errorf("key mode %v", info.Mode())
	}
}

func TestKeyDamaged(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, d.file(keyFile), "short")
	if _, err := d.Key(); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
		t.Errorf("Key: %v", err)
	}
	if b, _ := os.ReadFile(d.file(keyFile)); string(b) != "short" {
		t.Error("a damaged key was replaced")
	}
}

func TestKeyOpenToOthersIsClosed(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, d.file(keyFile), strings.Repeat("k", KeySize))
	if err := os.Chmod(d.file(keyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Key(); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(d.file(keyFile)); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func mkdir(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // past the umask
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := b.TempDir()
	for b.Loop() {
		if _, err := Open(path); err != nil {
			b.Fatal(err)
		}
	}
}

// Below a home that may only be read the directory that refuses is above one that is not there.
func TestHintOfADirectoryThatCannotBeMade(t *testing.T) {
	above := t.TempDir()
	e := agentkernel.AsError(openError(filepath.Join(above, "not", "there"), "cannot be created", fs.ErrPermission), "", "")
	if e.Code != agentkernel.CodeDenied || !strings.HasPrefix(e.Hint, "set AGENTKERNEL_HOME, or --home, to a directory that can be written") || !strings.HasSuffix(e.Hint, "run as the user that owns "+above) {
		t.Errorf("%v; hint: %s", e, e.Hint)
	}
}
