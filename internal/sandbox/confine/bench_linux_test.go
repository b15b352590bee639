package confine

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// tinyProgram writes a static executable that does nothing but exit(0), the least that can be started.
func tinyProgram(tb testing.TB, dir string) string {
	tb.Helper()
	machine, code := uint16(62), []byte{0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05} // xor edi,edi; mov eax,60; syscall
	if runtime.GOARCH == "arm64" {
		machine, code = 183, []byte{0x00, 0x00, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4} // mov x0,0; mov x8,93; svc 0
	}
	const base, headers = 0x400000, 64 + 56
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	b.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	put([]uint16{2, machine})
	put(uint32(1))
	put([]uint64{base + headers, 64, 0})
	put(uint32(0))
	put([]uint16{64, 56, 1, 0, 0, 0})
	put([]uint32{1, 5}) // PT_LOAD, read and execute
	size := uint64(headers + len(code))
	put([]uint64{0, base, base, size, size, 0x1000})
	b.Write(code)
	path := filepath.Join(dir, "tiny")
	if err := os.WriteFile(path, b.Bytes(), 0o755); err != nil {
		tb.Fatal(err)
	}
	return path
}

// BenchmarkSpawn alternates a plain fork+exec and a sandbox with every wall, so that both see the same
// machine, and reports the medians.
func BenchmarkSpawn(b *testing.B) {
	dir, err := os.MkdirTemp("/tmp", "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	_ = os.Chmod(dir, 0o755)
	tiny := tinyProgram(b, dir)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	for _, bc := range []struct {
		name      string
		noCgroups bool
		cfg       Config
	}{
		{"bare", true, Config{}},
		{"system", true, Config{Runtime: SystemRuntime()}},
		{"system+cgroups", false, Config{Runtime: SystemRuntime()}},
		{"system+cgroups+fullproc", false, Config{Runtime: SystemRuntime(), FullProc: true}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			s, err := NewSpawner(SpawnerConfig{Launcher: plain{}, Name: "bench", NoCgroups: bc.noCgroups})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			cfg := bc.cfg
			cfg.Runtime = append(slices.Clone(cfg.Runtime), Mount{Source: tiny, Target: "/tiny"})
			cfg.Program = Program{Path: "/tiny", Args: []string{"tiny"}, Env: []string{}}
			var bare, walls []time.Duration
			for b.Loop() {
				begin := time.Now()
				if err := (&exec.Cmd{Path: tiny, Args: []string{"tiny"}, Env: []string{}}).Run(); err != nil {
					b.Fatal(err)
				}
				middle := time.Now()
				c, err := s.Prepare(cfg)
				if err != nil {
					b.Fatal(err)
				}
				p, err := s.Start(context.Background(), c, []*os.File{null, null, null})
				if err != nil {
					b.Fatal(err)
				}
				if e, _ := p.Wait(context.Background()); !e.Known || e.Status.ExitStatus() != 0 {
					b.Fatal(e)
				}
				bare, walls = append(bare, middle.Sub(begin)), append(walls, time.Since(middle))
			}
			slices.Sort(bare)
			slices.Sort(walls)
			at := func(d []time.Duration, q float64) float64 { return float64(d[int(q*float64(len(d)-1))].Microseconds()) }
			b.ReportMetric(at(bare, .5), "plain-p50-µs")
			b.ReportMetric(at(walls, .5), "walls-p50-µs")
			b.ReportMetric(at(walls, .05), "walls-p5-µs")
			b.ReportMetric(at(bare, .99), "plain-p99-µs")
			b.ReportMetric(at(walls, .99), "walls-p99-µs")
		})
	}
}
