package mcpserver

import "testing"

func TestCodeBetweenFences(t *testing.T) {
	for code, want := range map[string]string{
		"print(1)\n":                            "print(1)\n",
		"```python\nprint(1)\nprint(2)\n```":    "print(1)\nprint(2)\n",
		"\n ```py\nprint(1)\n```\nThat's it.\n": "print(1)\n",
		"s = '''\n```\nx\n```\n'''\n":           "s = '''\n```\nx\n```\n'''\n",
		"```":                                   "```",
	} {
		if got := unwrapped(code); got != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
	}
}
