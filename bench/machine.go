package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"agentkernel/internal/sandbox/monty"
)

// machine is where the figures come from. It names no host and no path.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory,omitempty"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Engine string `json:"engine"`
	Disk   string `json:"disk"` // file system and device of the data directories
	Date   string `json:"date"`
	Load   string `json:"load,omitempty"` // load average of the minute before
}

func thisMachine(ctx context.Context, dir string, now time.Time) machine {
	m := machine{
		CPU: procValue("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Go: runtime.Version(),
		Engine: "Monty " + monty.EngineVersion, Disk: disk(dir), Date: now.UTC().Format(time.DateOnly),
	}
	if m.CPU == "" {
		m.CPU = runtime.GOARCH
	}
	if kb, err := strconv.Atoi(strings.TrimSuffix(procValue("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		m.Memory = fmt.Sprintf("%.0f GB", float64(kb)/(1<<20))
	}
	if out, err := exec.CommandContext(ctx, "uname", "-sr").Output(); err == nil {
		m.Kernel = strings.TrimSpace(string(out))
	} else {
		m.Kernel = runtime.GOOS
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(b), " ")
	}
	return m
}

// String is the machine line.
func (m machine) String() string {
	parts := []string{m.CPU, fmt.Sprintf("%d cores", m.Cores)}
	if m.Memory != "" {
		parts = append(parts, m.Memory+" of memory")
	}
	parts = append(parts, m.Kernel, m.Go, m.Engine, "disk: "+m.Disk, m.Date)
	if m.Load != "" {
		parts = append(parts, "load "+m.Load+" at the start")
	}
	return "Machine: " + strings.Join(parts, " · ") + "."
}

// procValue reads the first "key : value" of a file of /proc; "" if there is none.
func procValue(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// disk says on which kind of file system a directory lies: "ext4 on vda".
func disk(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "unknown"
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "unknown"
	}
	best, found := "", "unknown"
	for line := range strings.Lines(string(b)) {
		before, after, ok := strings.Cut(line, " - ")
		mount, fs := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(fs) < 2 || len(mount[4]) < len(best) || !within(abs, mount[4]) {
			continue
		}
		best, found = mount[4], fs[0]
		if device, ok := strings.CutPrefix(fs[1], "/dev/"); ok {
			found += " on " + device
		}
	}
	if found == "tmpfs" {
		found += " (memory: a durable commit costs nothing here; name a disk with -dir)"
	}
	return found
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
