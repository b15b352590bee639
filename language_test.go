package agentkernel_test

import (
	"testing"

	"agentkernel"
)

func TestWordsForLanguages(t *testing.T) {
	for _, c := range []struct {
		word, source string
		want         agentkernel.Language
		becomes      string
	}{
		{"python3", "1", agentkernel.Python, "1"},
		{"Py", "1", agentkernel.Python, "1"},
		{"JavaScript", "1", agentkernel.Node, "1"},
		{"js", "1", agentkernel.Node, "1"},
		{"golang", "package main", agentkernel.Go, "package main"},
		{" bash ", "\necho 1\n", agentkernel.Script, "#!/usr/bin/env bash\necho 1\n"},
		{"shell", "#!/bin/zsh\necho 1\n", agentkernel.Script, "#!/bin/zsh\necho 1\n"},
		{"Python", "1", agentkernel.Python, "1"},
		{"script", "echo 1", agentkernel.Script, "echo 1"}, // it does not say which
		{"", "1", "", "1"},
		{"cobol", "1", "cobol", "1"},
	} {
		p := agentkernel.Program{Language: agentkernel.Language(c.word), Source: c.source}
		p.NormalizeLanguage()
		if p.Language != c.want || p.Source != c.becomes {
			t.Errorf("%q: %q %q, want %q %q", c.word, p.Language, p.Source, c.want, c.becomes)
		}
		again := p
		if again.NormalizeLanguage(); again.Language != p.Language || again.Source != p.Source {
			t.Errorf("%q: the second time %q %q", c.word, again.Language, again.Source)
		}
	}
	s := agentkernel.Spec{Program: agentkernel.Program{Language: "cobol", Source: "1"}}
	if err := s.Validate(); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("cobol: %v", err)
	}
}
