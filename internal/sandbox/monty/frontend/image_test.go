package frontend_test

import (
	"context"
	"encoding/json"
	"testing"

	"agentkernel"
)

// imageSize parks a program at its first call that is not answered at once.
func imageSize(t testing.TB, p agentkernel.Program, tools []agentkernel.Tool) int {
	t.Helper()
	box, err := engine(t).Start(context.Background(), agentkernel.StartRequest{PID: 1, Namespace: "n", Program: p, Tools: tools,
		Limits: agentkernel.DefaultLimits(), Output: func(string, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = box.Close() }()
	turn, err := box.Next(context.Background(), nil)
	for err == nil && turn.Kind == agentkernel.TurnCall && turn.Call.Op == "rand.bytes" {
		turn, err = box.Next(context.Background(), &agentkernel.Reply{ID: 1, Result: json.RawMessage(`{"$bytes":"AAAA"}`)})
	}
	if err != nil || turn.Kind != agentkernel.TurnCall {
		t.Fatalf("%+v %v", turn, err)
	}
	image, err := box.Image(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return len(image)
}

// TestImagesStaySmall: what the front end adds to a program is a small part of its image.
func TestImagesStaySmall(t *testing.T) {
	p, tools := sixtyLines()
	p.Source += "state.get('x')\n"
	whole := imageSize(t, p, tools)
	bare := imageSize(t, program("from kernel import state\nstate.get('x')\n"), nil)
	t.Logf("60 lines with 20 tools (%d bytes of source): %d bytes; two lines: %d", len(p.Source), whole, bare)
	if most := 5 * len(p.Source); whole > most {
		t.Errorf("the image has %d bytes, more than %d", whole, most)
	}
	for _, c := range []struct {
		src  string
		most int // bytes above the two lines
	}{
		{"import time\nt = time.time\n", 500},
		{"import random\nrandom.seed(1)\n", 12_000},
		{"import csv, io\nlist(csv.reader(['a']))\n", 9_000},
		{"import hashlib\nhashlib.sha256(b'a').hexdigest()\n", 5_000},
		{"import os.path\nos.path.join('a', 'b')\n", 2_500},
		{"import statistics\nstatistics.mean([1])\n", 1_500},
		{"x = sum([1, 2])\n", 1_500},
	} {
		size := imageSize(t, program(c.src+"from kernel import state\nstate.get('x')\n"), nil) - bare
		t.Logf("%q adds %d bytes", c.src, size)
		if size > c.most {
			t.Errorf("%q adds %d bytes to an image, more than %d", c.src, size, c.most)
		}
	}
}
