package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

// The folder in which a command is called is shown, unless secrets may lie there.
func TestPrivateFolders(t *testing.T) {
	data := "/srv/state/agentkernel"
	homes := []string{"/home/ann", "/data/ann"}
	for dir, shown := range map[string]bool{
		"/": false, "/home": false, "/home/ann": false, "/home/ben": false, "/data": false, "/data/ann": false, "/root": false, "/usr": false, "/var": false,
		"/home/ann/.ssh": false, "/home/ann/.config/gh": false, "/data/ann/.aws": false,
		"/etc": false, "/etc/ssh": false, "/proc/1": false, "/run/secrets": false, "/var/lib/x": false, "/var/backups": false, "/var/mail/ann": false, "/usr/local/etc": false, "/root/.ssh": false, "/root/project": true,
		"/srv": false, "/srv/state": false, data: false, data + "/workspaces": false,
		"/home/ann/project": true, "/home/ann/project/.git": true, "/home/ben/project": true, "/data/annual": true, "/srv/stateful": true,
		"/home/ben/.ssh": false, "/home/ben/.config/gh": false, "/Users/ben/.aws": false, "/tmp": false, "/var/tmp": false,
		"/etcetera": true, "/app": true, "/tmp/project": true, "/usr/src/app": true, "/var/www": true,
	} {
		if why := private(dir, data, homes); (why == "") != shown {
			t.Errorf("%s is shown: %t, want %t; %q", dir, why == "", shown, why)
		}
	}
	for dir, want := range map[string]string{"/": "your home lies in this folder, and keys in that", "/home": "your home lies in this folder, and keys in that", "/home/ann": "this is your home, where keys lie"} {
		if why := private(dir, data, homes); why != want {
			t.Errorf("%s: %q, want %q", dir, why, want)
		}
	}
}

// A command that is called where nothing can be read runs all the same, and sees nothing: the folder was not asked for.
func TestAFolderThatIsGone(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	a := &app{host: host{workingDir: func() (string, error) { return gone, nil }}}
	var s agentkernel.Spec
	if err := a.showHere(&programArgs{command: true}, &s); err != nil || s.Workspace != nil || a.here != "this folder cannot be read" {
		t.Errorf("%v, %+v, %q", err, s.Workspace, a.here)
	}
}

// A program that is no command sees no folder that was not named, wherever it is called.
func TestOnlyCommandsAreShownThisFolder(t *testing.T) {
	a := &app{host: host{workingDir: func() (string, error) { t.Error("somebody asked where this is"); return "/", nil }}}
	var s agentkernel.Spec
	if err := a.showHere(&programArgs{}, &s); err != nil || s.HasFiles() || a.here != "" {
		t.Errorf("a program: %v, %+v, %q", err, s.Workspace, a.here)
	}
	s.Volumes = []agentkernel.Volume{{Name: "v", Path: "/srv"}}
	if err := a.showHere(&programArgs{command: true}, &s); err != nil || s.Workspace != nil || len(s.Volumes) != 1 || a.here != "" {
		t.Errorf("a command with a folder: %v, %+v, %q", err, s.Workspace, a.here)
	}
}

// Where a folder is not shown because of what it is that is said, whatever the exit code: `ls` prints nothing and succeeds.
func TestWhyNoFolderIsSeen(t *testing.T) {
	w := &watch{a: &app{}, seen: seenNothing}
	ended := agentkernel.Process{State: agentkernel.StateExited}
	if line := w.folderLine(ended); line != "" {
		t.Errorf("no folder was to be shown: %q", line)
	}
	w.a.here = "this is your home, where keys lie"
	for ended.ExitCode = range 2 {
		if line := w.folderLine(ended); !strings.HasPrefix(line, "it saw none of your files: this is your home, where keys lie · ") {
			t.Errorf("exit code %d: %q", ended.ExitCode, line)
		}
	}
}

// What a command could not read of the folder is named, with the reason; nothing is said of what it could read if it never began.
func TestWhatACommandCouldRead(t *testing.T) {
	w := &watch{a: &app{}, seen: seenHere}
	p := agentkernel.Process{State: agentkernel.StateExited, Language: agentkernel.Command}
	for want, c := range map[string]agentkernel.Changes{
		"it could read this folder and change nothing · ":                                                                 {},
		"it could read this folder, but not .env, where keys may lie, and change nothing · ":                              {Hidden: []string{".env"}},
		"it could read this folder, but not a/, b/, which cannot be listed, and change nothing · ":                        {Unlisted: []string{"a/", "b/"}},
		"it could read this folder, but not .env, where keys may lie, nor a/, which cannot be listed, and change nothing": {Hidden: []string{".env"}, Unlisted: []string{"a/"}},
		strings.Repeat("d", longName) + "... (5000 bytes), where keys may lie,":                                           {Hidden: []string{strings.Repeat("d", 5000)}},
	} {
		w.files = &c
		if line := w.folderLine(p); !strings.Contains(line, want) {
			t.Errorf("%q does not say %q", line, want)
		}
	}
	for code, ran := range map[agentkernel.Code]bool{agentkernel.CodeUnavailable: false, agentkernel.CodeInvalid: false, agentkernel.CodeDenied: false, agentkernel.CodeCrashed: true} {
		p.State, p.Error = agentkernel.StateFailed, &agentkernel.Error{Code: code}
		if line := w.folderLine(p); (line != "") != ran {
			t.Errorf("%s: %q", code, line)
		}
	}
}

// Of a folder that was named it is told what the program did not see of it, and why it is not known what it changed.
func TestWhatIsNotKnownOfAFolder(t *testing.T) {
	w := &watch{a: &app{}, files: &agentkernel.Changes{Unlisted: []string{"conf/"}}}
	p := agentkernel.Process{PID: 7, State: agentkernel.StateExited}
	if line := w.unlistedLine(p); line != "it saw nothing of conf/, which cannot be listed" {
		t.Errorf("%q", line)
	}
	w.files, w.unknown = nil, agentkernel.Errorf(agentkernel.CodeDenied, "", "the folder /w/conf cannot be read")
	if line := w.unlistedLine(p); line != "what it changed is not known: the folder /w/conf cannot be read · when that is put right: agentkernel diff 7" {
		t.Errorf("%q", line)
	}
	if c := w.fileCounts(); c == nil || c.Error == nil {
		t.Errorf("JSON says nothing of it: %+v", c)
	}
}

// A data directory that is reached by a link is found behind it.
func TestPrivateFolderBehindALink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "real", "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "real", "data"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if private(filepath.Join(dir, "real"), filepath.Join(dir, "link"), nil) == "" {
		t.Error("the folder with the data directory is shown")
	}
}

// A folder in which something else is mounted is not shown: what that is nobody has looked at.
func TestMountedBelow(t *testing.T) {
	const mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 8:2 / /srv/chroot/home rw shared:1 - ext4 /dev/sda2 rw\n31 22 0:5 / /srv/a\\040b/x rw - proc proc rw\nodd\n"
	for dir, want := range map[string]bool{"/srv": true, "/srv/chroot": true, "/srv/a b": true, "/srv/chroot/home": false, "/srv/chroot/ho": false, "/opt": false} {
		if got := mountedBelow(dir, mounts); got != want {
			t.Errorf("%s: %t", dir, got)
		}
	}
}
