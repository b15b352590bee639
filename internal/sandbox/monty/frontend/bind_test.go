package frontend_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/frontend"
)

// show writes a bundle as text: functions, then feeds.
func show(b *frontend.Bundle) string {
	var out strings.Builder
	for _, f := range b.Functions {
		out.WriteString(f.Input + " = " + f.Name + "\n")
	}
	for _, f := range b.Feeds {
		out.WriteString("--- " + f.File + "\n" + strings.TrimSuffix(f.Code, "\n") + "\n")
	}
	return out.String()
}

func TestBind(t *testing.T) {
	tools := []agentkernel.Tool{tool("fs", "read"), tool("fs", "write"), tool("gh", "search")}
	for _, c := range []struct{ src, want string }{
		{"print(1)", "--- main.py\nprint(1)\n"},
		{"from tools.fs import read, write as w; x = 1", "_k_0 = tools.fs.read\n_k_1 = tools.fs.write\n--- main.py\nread=_k_0;w=_k_1; x = 1\n"},
		{"from tools.fs import (\n  read,\n  read as again)\nread()", "_k_0 = tools.fs.read\n--- main.py\n(\n\n);read=_k_0;again=_k_0\nread()\n"},
		{"import tools.fs\ntools.fs.read('x')", "_k_0 = tools.fs.read\n--- <agentkernel>\nclass _k_ns:pass\n_k_m0=_k_ns()\n_k_m1=_k_ns()\n" +
			"_k_m1.read=_k_0\n_k_m0.fs=_k_m1\n--- main.py\ntools=_k_m0\ntools.fs.read('x')\n"},
		{"def f():\n    from tools import gh\n    return gh", "--- <agentkernel>\nclass _k_ns:pass\n_k_m0=_k_ns()\n--- main.py\ndef f():\n    gh=_k_m0\n    return gh\n"},
		{"from kernel import ToolError as E, state, sleep\nstate.set('a', 1)", "_k_0 = kernel.state.set\n_k_1 = kernel.sleep\n--- <agentkernel>\n" +
			"class _k_ns:pass\n_k_m0=_k_ns()\n_k_m0.set=_k_0\n--- main.py\nE=RuntimeError;state=_k_m0;sleep=_k_1\nstate.set('a', 1)\n"},
		{"import json, time as t\nt.sleep(1)", "_k_0 = kernel.sleep\n--- <agentkernel>\nclass _k_ns:pass\n_k_m0=_k_ns()\n_k_m0.sleep=_k_0\n" +
			"--- main.py\nimport json;t=_k_m0\nt.sleep(1)\n"},
		{"from math import pi, prod", "--- <agentkernel>\ndef _k_math_prod(iterable,start=1):\n out=start\n for x in iterable:\n  out=out*x\n return out\n" +
			"--- main.py\nprod=_k_math_prod;from math import pi\n"},
		{"raise SystemExit(2)", "_k_0 = kernel.exit\n--- main.py\n_k_0(2)\n"},
		{"a[0], b.c = b.c, a[0]", "--- main.py\n_k_ta,_k_tb = b.c, a[0];a[0]=_k_ta;b.c=_k_tb\n"},
		{"del d['a'], x\nd[1] = 2", "--- main.py\nd.pop('a'); x=None\nd[1] = 2\n"},
		{"max(d, key=d.get)\nmap(str.upper, x)", "--- main.py\nmax(d, key=(lambda *_a,_o=d:_o.get(*_a)))\nmap((lambda _o,*_a:_o.upper(*_a)), x)\n"},
		{"n += a == b", "--- main.py\nn += +(a == b)\n"},
		{"g = (x for x in y)\nf(x for x in y)", "--- main.py\ng = iter(x for x in y)\nf(x for x in y)\n"},
		{"try: pass\nexcept (ConnectionError, OSError): pass", "--- main.py\ntry: pass\nexcept ( OSError): pass\n"},
		{"Rows = list[dict]\nx: list[int] = y[0]", "--- main.py\nRows = list\nx: list = y[0]\n"},
	} {
		b, err := frontend.Bind(program(c.src), tools)
		if err != nil {
			t.Errorf("%q: %v", c.src, err)
			continue
		}
		if d := cmp.Diff(c.want, show(b)); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.src, d)
		}
	}
}

func TestBindModules(t *testing.T) {
	p := program("from tools.report import monthly")
	p.Modules = map[string]string{"tools.report.monthly": "total = 0\ndef monthly(n):\n\tglobal total\n\ttotal += n\n\treturn '''a\nb'''\nif __name__ == '__main__': monthly(1)"}
	b, err := frontend.Bind(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "--- <agentkernel>\nclass _k_ns:pass\n_k_m0=_k_ns()\n--- tools/report/monthly.py\ndef _ak_module(total=None):\n total = 0\n def monthly(n):\n" +
		" \tnonlocal total\n \ttotal += n\n \treturn '''a\nb'''\n if 'tools.report.monthly' == '__main__': monthly(1)\n _k_m0.monthly=monthly\n_ak_module()\n" +
		"--- main.py\nmonthly=_k_m0.monthly\n"
	if d := cmp.Diff(want, show(b)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if f := b.Feeds[1]; f.LineOffset != 1 || f.Hidden || !b.Feeds[0].Hidden {
		t.Errorf("%+v", b.Feeds)
	}
}

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"_k_random_randint() missing 1 argument", "randint() missing 1 argument"},
		{"a _k2_urllibparse_quote and _k_json__plain", "a quote and _plain"},
		{"_k_mine_x my_k_random_y _k_random _k", "_k_mine_x my_k_random_y _k_random _k"},
		{"", ""},
	} {
		if got := frontend.Clean(c.in); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestVersion(t *testing.T) {
	if v := frontend.Version(); len(v) != 16 || v != frontend.Version() {
		t.Errorf("version %q", v)
	}
}
