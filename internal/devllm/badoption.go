package devllm

import "fmt"

// BadOption is an option, a script or a recording that cannot be used: what is wrong, and what to do.
type BadOption struct {
	Message string
	Hint    string
}

// Error implements error.
func (b *BadOption) Error() string { return b.Message }

type hint string

// bad begins a BadOption with its hint; of ends it with what is wrong.
func bad(format string, args ...any) hint { return hint(fmt.Sprintf(format, args...)) }

func (h hint) of(format string, args ...any) *BadOption {
	return &BadOption{Message: fmt.Sprintf(format, args...), Hint: string(h)}
}
