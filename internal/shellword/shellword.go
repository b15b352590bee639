// Package shellword writes words of commands that are suggested, as they are typed in a shell. Names may come from programs and
// servers, and nobody should run what they would rather have run.
package shellword

import (
	"slices"
	"strings"
)

// Of is a text as a word: quoted, where it is more than plain text.
func Of(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:+@%=,", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return Quoted(s)
}

// Quoted is a word in single quotes, also where it needs none.
func Quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// File is the name of a file as a word. No name is taken for a flag.
func File(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	return Of(name)
}

// Names are names as arguments of a command. None is taken for a flag.
func Names(names ...string) string {
	words := make([]string, 0, len(names)+1)
	for _, name := range names {
		if strings.HasPrefix(name, "-") && !slices.Contains(words, "--") {
			words = append(words, "--")
		}
		words = append(words, Of(name))
	}
	return strings.Join(words, " ")
}

// Join writes the words of a command as they are typed.
func Join(words []string) string {
	typed := make([]string, len(words))
	for i, w := range words {
		typed[i] = Of(w)
	}
	return strings.Join(typed, " ")
}
