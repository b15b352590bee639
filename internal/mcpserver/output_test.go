package mcpserver

import "testing"

// TestTheTextSaysHowAProgramEnded: clients of old protocol versions have only the text.
func TestTheTextSaysHowAProgramEnded(t *testing.T) {
	for _, c := range []struct {
		out  executeOutput
		want string
	}{
		{executeOutput{Stdout: "partial\n", ExitCode: 3, Note: "the session ended with this"}, "partial\nexit code 3\nnote: the session ended with this"},
		{executeOutput{ExitCode: 1}, "exit code 1"},
		{executeOutput{Stdout: "42"}, "42"},
		{executeOutput{ExitCode: 1, Error: &programError{Code: "program_error", Message: "no"}}, "program_error: no"},
		{executeOutput{}, "(no output; print what you need)"},
	} {
		if got := c.out.text(); got != c.want {
			t.Errorf("%+v: %q, not %q", c.out, got, c.want)
		}
	}
}
