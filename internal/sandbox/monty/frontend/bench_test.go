package frontend_test

import (
	"fmt"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/frontend"
)

// sixtyLines is a program of 60 lines that uses 20 tools.
func sixtyLines() (agentkernel.Program, []agentkernel.Tool) {
	var b strings.Builder
	var tools []agentkernel.Tool
	for s := range 4 {
		var names []string
		for i := range 5 {
			name := fmt.Sprintf("tool_%d", i)
			names = append(names, fmt.Sprintf("%s as t%d_%d", name, s, i))
			tools = append(tools, tool(fmt.Sprintf("server%d", s), name))
		}
		fmt.Fprintf(&b, "from tools.server%d import %s\n", s, strings.Join(names, ", "))
	}
	b.WriteString("import json\nfrom kernel import state\n\n")
	for i := range 10 {
		fmt.Fprintf(&b, "def step%d(path, limit=10):\n    text = t%d_%d(path)\n    rows = [line.strip() for line in text.splitlines() if line]\n"+
			"    total = sum(len(r) for r in rows[:limit])\n    state.set('step%d', {'rows': len(rows), 'total': total})\n", i, i%4, i%5, i)
	}
	b.WriteString("print(json.dumps({'done': True}))\n")
	return program(b.String()), tools
}

func BenchmarkCheckAndBind(b *testing.B) {
	p, tools := sixtyLines()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := frontend.Check(p); err != nil {
			b.Fatal(err)
		}
		if _, err := frontend.Bind(p, tools); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCSV50000Rows(b *testing.B) {
	box := engine(b)
	src := "import csv, io\ntext = 'date,region,item,qty,price\\n' + '2026-01-17,north,\"bolt, big\",12,3.75\\n' * 50000\n"
	for _, c := range []struct{ name, body string }{
		{"text", ""},
		{"reader", "rows = list(csv.reader(text.splitlines()))\nprint(len(rows))\n"},
		{"readerStringIO", "rows = list(csv.reader(io.StringIO(text)))\nprint(len(rows))\n"},
		{"dict", "n = 0\nfor row in csv.DictReader(io.StringIO(text)):\n    n += 1\nprint(n)\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if o := run(b, box, program(src+c.body), nil, nil); o.err != nil || o.turn.Err != nil {
					b.Fatal(o.text())
				}
			}
		})
	}
}
