package fastpath_test

import (
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
