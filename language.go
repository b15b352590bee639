package agentkernel

import "strings"

// spoken is what a word for a language means: one of [Languages] and, for text that a shell reads, the first line that says
// which shell.
type spoken struct {
	language Language
	first    string
}

// spokenLanguages are the words that people and models use, in lower case, beside the names of [Languages].
var spokenLanguages = map[string]spoken{
	"py": {Python, ""}, "python3": {Python, ""}, "cpython": {Python, ""}, "ipython": {Python, ""},
	"javascript": {Node, ""}, "js": {Node, ""}, "nodejs": {Node, ""}, "node.js": {Node, ""}, "mjs": {Node, ""}, "cjs": {Node, ""},
	"golang": {Go, ""},
	"bash":   {Script, "#!/usr/bin/env bash\n"}, "sh": {Script, "#!/bin/sh\n"}, "shell": {Script, "#!/bin/sh\n"},
	"executable": {Command, ""},
}

// NormalizeLanguage replaces a word for a language by the language that it means: "javascript" by [Node], "bash" by a
// [Script] for bash, whose first line it writes if the program has none. Other words stay as they are, for Validate to
// refuse.
func (p *Program) NormalizeLanguage() {
	word := strings.ToLower(strings.TrimSpace(string(p.Language)))
	s, ok := spokenLanguages[word]
	if !ok {
		for _, l := range Languages() {
			if word == string(l) {
				p.Language = l
			}
		}
		return
	}
	p.Language = s.language
	if s.first != "" && !strings.HasPrefix(p.Source, "#!") {
		p.Source = s.first + strings.TrimPrefix(p.Source, "\n")
	}
}
