package router

import (
	"errors"
	"fmt"
	"strings"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/portowner"
)

// keptEnvironment says why a key in a variable that was put right is not seen yet, and what is to be done about it.
const keptEnvironment = "and then `agentkernel shutdown`: a kernel keeps the environment in which it was started, and the next command starts one with yours"

// asked is the deployment that was asked last.
func (p *plan) asked() *deployment {
	if p.by != nil {
		return p.by
	}
	return p.r.of[p.alias][0]
}

// nameHint says what is to be done where a server does not know a model by its name.
func (p *plan) nameHint() string {
	m := p.asked().model
	return fmt.Sprintf("correct %s:%s in the setting models, which `agentkernel llm list` shows, and then `agentkernel shutdown`: a kernel keeps the settings with which it was started", m.Kind, m.Name)
}

// keyHint says what is to be done about a key that a server refuses or that cannot be read: where it is put right, and how the kernel comes
// to have it. Variables are those of the kernel; all other places are asked for each request.
func (p *plan) keyHint(e *llm.Error) string {
	if _, ok := errors.AsType[*portowner.Other](e.Err); ok {
		return portowner.Hint
	}
	d := p.asked()
	if d.model.Key.Given() {
		return fmt.Sprintf("the provider refuses the key that was given: `%s` gives it another", d.giving)
	}
	kind, where, _ := strings.Cut(d.model.Key.Source, ":")
	refused := e.Status != 0
	switch kind {
	case "":
		return fmt.Sprintf("the server wants a key, and the model is declared without one: key=env:VARIABLE in the setting models; %s", models.Form)
	case "env":
		if refused {
			return fmt.Sprintf("put the right key into the variable: `export %s=...` %s", where, keptEnvironment)
		}
		return fmt.Sprintf("`export %s=...` %s", where, keptEnvironment)
	case "file":
		if refused {
			return fmt.Sprintf("put the right key into the file %s: it is read for each request, so `agentkernel llm test %s` then tries it", where, p.alias)
		}
	case "command":
		if refused {
			return fmt.Sprintf("the key is what %s prints, which is run for each request: once it prints the right one, `agentkernel llm test %s` tries it", where, p.alias)
		}
	case "keyring":
		if refused {
			return fmt.Sprintf("put the right key into the keyring, as service and account %s: it is asked for each request, so `agentkernel llm test %s` then tries it", where, p.alias)
		}
	}
	return fmt.Sprintf("mend what key=%s names, or declare the model with another key= in the setting models", d.model.Key.Source)
}
