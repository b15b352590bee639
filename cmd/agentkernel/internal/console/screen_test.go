package console

import (
	"strings"
	"testing"
)

// attacks are what a terminal would obey.
var attacks = []string{
	"\x1b[2J", "\x1b[1A\x1b[2K", "\x1b]0;title\x07", "\x1b]52;c;ZXZpbA==\x07", "\x1b]8;;http://x\x1b\\link", "\x1bP+q\x1b\\", "\x1bc", "\x1b[6n",
	"\x1b[?1049h", "\x1b[5i", "\x1b(0", "\x9b2J", "\u009b2J", "\u009d0;x\u009c", "\r", "\b\b\b", "\x0e", "\x7f", "\v", "\f", "\x00", "\a",
	"\x1b[31", "\x1b[;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;m", "\x1b[31;H", "\x1b[38:2:1:2:3J", "\x1b", "\u202e", "\u2066", "\u2028",
}

// harmless says that nothing in text does anything but colours.
func harmless(text string) bool {
	for text != "" {
		if n, whole := sgr(text); text[0] == 0x1b && whole {
			text = text[n:]
			continue
		}
		if strings.IndexFunc(text[:1], hidden) == 0 || text[0] == 0x1b {
			return false
		}
		text = text[1:]
	}
	return true
}

func TestTerminalsObeyNobody(t *testing.T) {
	var screen strings.Builder
	c := terminal(&screen)
	for _, a := range attacks {
		c.Out("out " + a + "x\n")
		c.Err("err " + a + "x\n")
		c.Note("note %s", a)
		c.Say("say %s", a)
		c.Error("error "+a, a)
		c.Prompt("sure "+a+"? ", nil)()
		c.Out("\n")
	}
	// A sequence in pieces, as a program prints it.
	for _, a := range attacks {
		for i := range len(a) {
			c.Out(a[i : i+1])
		}
		c.Out("x\n")
	}
	text := strings.ReplaceAll(screen.String(), "\r\x1b[K", "") // what takes the progress line away is ours
	for _, line := range strings.Split(text, "\n") {
		if !harmless(line) || strings.ContainsAny(line, "\u202e\u2066\u2028\u009b\u009d") {
			t.Errorf("%q", line)
		}
	}
	screen.Reset()
	c = terminal(&screen)
	c.Progress("waiting for a\nb\x1b[2Jc")
	if got := screen.String(); strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("the progress line: %q", got)
	}
}

func TestFilesGetWhatWasWritten(t *testing.T) {
	var out, err strings.Builder
	c := New(Config{Out: &out, Err: &err})
	text := strings.Join(attacks, "|")
	c.Out(text)
	c.Err(text)
	c.Close()
	if out.String() != text || err.String() != text {
		t.Errorf("%q %q", out.String(), err.String())
	}
}

func TestColoursOfProgramsEndWithThem(t *testing.T) {
	var screen strings.Builder
	c := terminal(&screen)
	c.Out("\x1b[31mred\x1b[0m\n")
	c.Note("a")
	c.Out("\x1b[8;41mhidden\n")
	c.Note("b")
	c.Out("\x1b[3")
	c.Out("1mred\n")
	c.Close()
	want := "\x1b[31mred\x1b[0m\na\n\x1b[8;41mhidden\n\x1b[0mb\n\x1b[31mred\n\x1b[0m"
	if screen.String() != want {
		t.Errorf("%q, want %q", screen.String(), want)
	}
}

// TestNothingIsShownBehindAQuestion: a program that goes on while it is asked about could write the question
// again, about something else.
func TestNothingIsShownBehindAQuestion(t *testing.T) {
	var screen strings.Builder
	c := terminal(&screen)
	c.Out("before\n")
	done := c.Prompt("fs.delete(path=\"/\") changes things. Allow? ", nil)
	asked := screen.String()
	c.Out("\rfs.read(path=\"x\") changes things. Allow? ")
	c.Err("\nfs.read(path=\"x\") changes things. Allow? ")
	c.Progress("x")
	if screen.String() != asked {
		t.Errorf("written behind the question: %q", strings.TrimPrefix(screen.String(), asked))
	}
	done()
	if got := strings.TrimPrefix(screen.String(), asked); strings.Count(got, "fs.read") != 2 {
		t.Errorf("what came meanwhile was lost: %q", got)
	}
}

// TestAQuestionThatNobodyAnswers: when its process has ended, or its kernel, nothing is kept back any more.
func TestAQuestionThatNobodyAnswers(t *testing.T) {
	var screen strings.Builder
	c := terminal(&screen)
	c.Unasked() // there is none
	done := c.Prompt("Allow? ", nil)
	c.Err("Traceback\n")
	c.Unasked()
	c.Out("after\n")
	done() // its reader is still there
	c.Out("that\n")
	if got, want := screen.String(), "Allow? \nTraceback\nafter\nthat\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Ctrl-C at a question: what is said of it ends the line of the question, and no empty one follows.
func TestInterruptAtAQuestion(t *testing.T) {
	var screen strings.Builder
	c := terminal(&screen)
	c.Prompt("Allow? ", nil)
	screen.WriteString("^C") // by the terminal
	c.Echoed()
	c.Say("interrupting")
	c.Unasked()
	c.Say("paused")
	if got, want := screen.String(), "Allow? ^C\ninterrupting\npaused\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
