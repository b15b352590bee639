package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/api"
)

// Of a process named "wide.bin 4" the double has a file of four mebibytes; "short.bin" breaks off in the middle.
func (k *double) Changes(_ context.Context, pid agentkernel.PID) (agentkernel.Changes, error) {
	if _, err := k.find(pid); err != nil {
		return agentkernel.Changes{}, err
	}
	return agentkernel.Changes{PID: pid, Folder: "/f", State: agentkernel.LayerKept, Bytes: 7,
		Changes: []agentkernel.Change{{Path: "a <b>", Kind: agentkernel.FileAdded, Type: agentkernel.TypeFile, Size: 3, Media: "text/plain"}}}, nil
}

func (k *double) Apply(_ context.Context, pid agentkernel.PID, o agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	if _, err := k.find(pid); err != nil {
		return agentkernel.Applied{}, err
	}
	if !o.Force {
		return agentkernel.Applied{}, agentkernel.Errorf(agentkernel.CodeConflict, "apply", "a was changed meanwhile").WithPID(pid).WithHint("--force")
	}
	return agentkernel.Applied{PID: pid, Folder: "/f", Added: 1, Bytes: 3}, nil
}

func (k *double) Discard(_ context.Context, pid agentkernel.PID) error {
	_, err := k.find(pid)
	return err
}

func (k *double) OpenFile(_ context.Context, pid agentkernel.PID, name agentkernel.FileName) (agentkernel.File, error) {
	if _, err := k.find(pid); err != nil {
		return agentkernel.File{}, err
	}
	const size = 4 << 20
	content := io.LimitReader(zeros{}, size)
	switch {
	case name.Path == "short.bin":
		content = io.LimitReader(content, size/2)
	case name.Path != "wide.bin":
		text := fmt.Sprintf("%s %t", name, name.Before)
		return agentkernel.File{Size: int64(len(text)), Media: "text/plain", Content: io.NopCloser(strings.NewReader(text))}, nil
	}
	return agentkernel.File{Size: size, Media: "application/zip", Content: io.NopCloser(content)}, nil
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestFiles(t *testing.T) {
	s := serve(t, api.Config{})
	for name, k := range map[string]agentkernel.Kernel{"kernel": s.kernel, "client": s.dial(t)} {
		t.Run(name, func(t *testing.T) { testFiles(t, k) })
	}
}

func testFiles(t *testing.T, k agentkernel.Kernel) {
	p, err := k.Spawn(t.Context(), spec("block"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.Changes(t.Context(), p.PID)
	if err != nil || len(c.Changes) != 1 || c.Changes[0].Path != "a <b>" || c.Folder != "/f" || c.Bytes != 7 {
		t.Errorf("changes %+v %v", c, err)
	}
	if _, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{}); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("apply without force: %v", err)
	}
	if a, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{Force: true}); err != nil || a.Added != 1 || a.Bytes != 3 {
		t.Errorf("apply: %+v %v", a, err)
	}
	if err := k.Discard(t.Context(), p.PID); err != nil {
		t.Errorf("discard: %v", err)
	}
	if err := k.Discard(t.Context(), 99); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("discard of nothing: %v", err)
	}
	for _, c := range []struct {
		name  agentkernel.FileName
		size  int64
		media string
		fails bool
	}{
		{agentkernel.FileName{Path: "wide.bin"}, 4 << 20, "application/zip", false},
		{agentkernel.FileName{Volume: "v", Path: "a b", Before: true}, 19, "text/plain", false},
	} {
		f, err := k.OpenFile(t.Context(), p.PID, c.name)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, f.Content)
		if err := errors.Join(err, f.Content.Close()); err != nil || n != c.size || f.Size != c.size || f.Media != c.media {
			t.Errorf("%+v: %d bytes, size %d, %s, %v", c.name, n, f.Size, f.Media, err)
		}
	}
	if _, err := k.OpenFile(t.Context(), 99, agentkernel.FileName{Path: "a"}); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("a file of nobody: %v", err)
	}
}

func TestAFileThatBreaksOffIsNoShortFile(t *testing.T) {
	c := serve(t, api.Config{}).dial(t)
	p, err := c.Spawn(t.Context(), spec("block"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.OpenFile(t.Context(), p.PID, agentkernel.FileName{Path: "short.bin"})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Content.Close()
	if n, err := io.Copy(io.Discard, f.Content); err == nil {
		t.Errorf("%d bytes of %d, and no error", n, f.Size)
	}
}

func TestFileNamesThatLeave(t *testing.T) {
	c := serve(t, api.Config{}).dial(t)
	p, err := c.Spawn(t.Context(), spec("block"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "../a", "/etc/passwd", "a/../../b", ".", "/workspace/.."} {
		if _, err := c.OpenFile(t.Context(), p.PID, agentkernel.FileName{Path: name}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}
