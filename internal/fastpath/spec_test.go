package fastpath_test

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/fastpath"
	"agentkernel/internal/store/storetest"
)

// Each field of a Spec is either in its Key, or makes it one that asks for something special.
func TestEveryFieldCounts(t *testing.T) {
	was := fastpath.Key{}
	var s agentkernel.Spec
	if k, ok := fastpath.Of(&s); !ok || k != was {
		t.Fatal("an empty Spec asks for something")
	}
	fields := 0
	storetest.EachField(&s, func(name string) {
		fields++
		k, ok := fastpath.Of(&s)
		if text := name == "Program.Source" || name == "Program.Modules"; ok && k == was && !text {
			t.Errorf("%s: nothing is seen of it", name)
		}
	})
	if fields < 40 {
		t.Errorf("%d fields", fields)
	}
}

// TestTools: no two Specs with different tools have one Key, and none has a long one.
func TestTools(t *testing.T) {
	keys := map[fastpath.Key]agentkernel.Spec{}
	lists := [][]string{nil, {}, {""}, {"a"}, {"a", "b"}, {"ab"}, {"a", "", "b"}, {"\x01a"}, {"\x02", "a"}}
	for _, tools := range lists {
		for _, allow := range lists {
			for _, digests := range []map[string]string{nil, {}, {"a": ""}, {"": "a"}, {"a": "b"}, {"a": "", "b": ""}} {
				s := agentkernel.Spec{Tools: tools, Allow: allow, ToolDigests: digests}
				k, ok := fastpath.Of(&s)
				if other, twice := keys[k]; twice || !ok {
					t.Fatalf("%+v and %+v have one key", s, other)
				}
				keys[k] = s
			}
		}
	}
	if _, ok := fastpath.Of(&agentkernel.Spec{Allow: []string{strings.Repeat("x", 1<<20)}}); ok {
		t.Error("a long list is remembered")
	}
}

func TestTexts(t *testing.T) {
	var texts fastpath.Texts[int, string]
	made := 0
	get := func(key int) string {
		text, err := texts.Get(key, func() (string, error) { made++; return string(rune('a' + key%20)), nil })
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for i := range 3 {
		if get(1) != "b" || get(2) != "c" || get(2) != "c" {
			t.Fatal("another's text")
		}
		if made != 2 {
			t.Errorf("round %d: made %d times", i, made)
		}
	}
	for i := range 1000 {
		if get(i) != string(rune('a'+i%20)) {
			t.Fatal("another's text")
		}
	}
}
