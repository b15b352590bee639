package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"agentkernel/internal/llm/models"
	"agentkernel/internal/setup"
)

// reachTime is how long a server may take that is only to be reached.
const reachTime = 5 * time.Second

// examineModels looks at the models that are declared. No key is sent, and no model is asked: that is `llm test`. A server
// whose key is missing is left alone.
func (a *app) examineModels(ctx context.Context) []setup.Finding {
	all, err := a.models()
	if err != nil { // a table of prices cannot be read
		e := asError(err)
		return []setup.Finding{{Status: setup.Warn, Found: e.Message(), Fix: e.Hint}}
	}
	if len(all) == 0 {
		return []setup.Finding{{Status: setup.OK, Found: "none is declared (models is not set)", Fix: "to have models do tasks, " + a.declareModel()}}
	}
	reached := map[string]func() error{}
	for _, m := range all {
		if at := m.Kind + " " + m.Address; m.Missing == "" && reached[at] == nil {
			done := make(chan error, 1)
			go func() { done <- m.reachModel(ctx) }()
			reached[at] = sync.OnceValue(func() error { return <-done })
		}
	}
	means := unpricedMeans(a.cfg.Allowances)
	var found []setup.Finding
	for _, m := range all {
		var unreached error
		if m.Missing == "" {
			unreached = reached[m.Kind+" "+m.Address]()
		}
		found = append(found, m.finding(unreached, means))
	}
	return found
}

// finding is what is to be said of a model, whose server was reached or not; unpriced is what it means if it has no price.
func (m *listedModel) finding(unreached error, unpriced string) setup.Finding {
	f := setup.Finding{Check: "model " + m.Alias, Status: setup.Warn}
	is := m.Kind + ":" + m.Model
	var wrong *nothingThere
	switch {
	case m.Missing != "":
		f.Found, f.Fix = is+": "+m.Missing, m.Fix
	case errors.As(unreached, &wrong):
		f.Found = fmt.Sprintf("%s: %s answers, and %v", is, m.Address, wrong)
		f.Fix = "declare it with another url=: " + models.AddressOf(m.Kind)
	case unreached != nil:
		f.Found, f.Fix = fmt.Sprintf("%s: %s cannot be reached: %v", is, m.Address, unreached), "look whether it runs and the network is there, or declare the model with another url="
	case m.Input == nil:
		f.Found, f.Fix = is+": nobody says what it costs"+unpriced, "declare the model with price=INPUT/OUTPUT, in dollars for a million tokens, or: agentkernel llm prices update FILE"
	default:
		key := "no key"
		if m.Key != "" {
			key = "key in " + m.Key
			if m.Key == models.KeyGiven {
				key = "key given to the kernel that runs"
			} else if _, inVariable := strings.CutPrefix(m.Key, "env:"); inVariable && m.There {
				key += " of the kernel that runs"
			}
		}
		f.Status, f.Found = setup.OK, fmt.Sprintf("%s at %s, %s, $%s in and $%s out for a million tokens (%s)", is, m.Address, key, m.Input, m.Output, m.Priced)
	}
	return f
}

// reach asks an address for anything at all, without a key. Whatever comes back proves that somebody is there.
func reach(ctx context.Context, address string) error {
	_, err := statusOf(ctx, http.MethodGet, address)
	return err
}

// statusOf is the status with which an address answers, without a key and with nothing said.
func statusOf(ctx context.Context, method, address string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return 0, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the address is said already
		}
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// reachModel reaches the server of a model, and looks whether it has anything where questions are sent. An empty one without a key is refused by all
// and charged by none; that nothing is there is what a wrong url= looks like.
func (m *listedModel) reachModel(ctx context.Context) error {
	path := models.PathOf(m.Kind)
	if path == "" {
		return reach(ctx, m.Address)
	}
	status, err := statusOf(ctx, http.MethodPost, strings.TrimSuffix(m.Address, "/")+path)
	if err == nil && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed) {
		return &nothingThere{path, status}
	}
	return err
}

// nothingThere says that a server has nothing where questions would be sent.
type nothingThere struct {
	path   string
	status int
}

func (e *nothingThere) Error() string {
	return fmt.Sprintf("it has nothing at %s (HTTP %d)", e.path, e.status)
}
