package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/clip"
	"agentkernel/internal/nearest"
	"agentkernel/internal/strictjson"
)

func invalid(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "request", format, args...)
}

// readBody reads and decodes a request's JSON body.
func readBody(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength > wire.MaxBody {
		return errTooLarge()
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return errTooLarge()
		}
		return invalid("the request could not be read: %w", err)
	}
	return decode(b, v)
}

func errTooLarge() error {
	return invalid("the request is larger than %d MiB", wire.MaxBody>>20).
		WithHint("read large data inside the program, from a file or a tool")
}

// decode reads exactly one JSON value, strictly: a field that does not exist is refused with the nearest
// that does, one that is there twice is refused, and text that is not UTF-8 is refused rather than mended.
func decode(b []byte, v any) error {
	switch text := bytes.TrimSpace(b); {
	case len(text) == 0:
		return invalid("the body is empty; it must be a JSON object")
	case string(text) == "null": // encoding/json takes it for an object without fields
		return invalid("the body is null; it must be a JSON object")
	}
	if !utf8.Valid(b) {
		return invalid("the body is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeError(err, b, v)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return invalid("something follows the JSON object, at byte %d", dec.InputOffset())
	}
	return strictly(b, v)
}

// strictly refuses what encoding/json takes: a filter in front of the kernel may not.
func strictly(b []byte, v any) error {
	if at := strictjson.LoneSurrogate(b); at >= 0 {
		return invalid("%s, at byte %d, is half of a character: what is no text cannot be sent", b[at:at+len(`\uXXXX`)], at)
	}
	err := strictjson.Check(b, v)
	if f, ok := errors.AsType[*strictjson.FieldError](err); ok {
		e := invalid("%w", f)
		if f.Hint != "" {
			e = e.WithHint("%s", f.Hint)
		}
		return e
	}
	if err != nil {
		return invalid("%s", strictjson.Explain(err, "the body", b))
	}
	return nil
}

func decodeError(err error, b []byte, v any) error {
	if e, ok := errors.AsType[*agentkernel.Error](err); ok {
		return e
	}
	// encoding/json has no type for this error.
	if strings.HasPrefix(err.Error(), "json: unknown field ") {
		if err := strictly(b, v); err != nil {
			return err
		}
	}
	return invalid("%s", strictjson.Explain(err, "the body", b))
}

// lists are the parameters that may be there several times.
var lists = []string{"by", "files"}

// query is a request's parameters, all of them known to the endpoint.
type query struct{ values url.Values }

func parseQuery(raw string, known []string) (query, error) {
	if raw == "" {
		return query{}, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, invalid("the query cannot be read: %w", err)
	}
	for name := range values {
		if !utf8.ValidString(name + strings.Join(values[name], "")) {
			return query{}, invalid("the parameter %q is not valid UTF-8", clip.Short(name)).WithHint(`the name of a file that is not is written as diff does it: a\xff`)
		}
		if slices.Contains(known, name) {
			if len(values[name]) > 1 && !slices.Contains(lists, name) {
				return query{}, invalid("the parameter %q is there twice", name)
			}
			continue
		}
		e := invalid("there is no parameter %q", clip.Short(name))
		if q := nearest.Question(name, known); q != "" {
			e = e.WithHint("%s", q)
		}
		return query{}, e
	}
	return query{values}, nil
}

func (q query) text(name string) string { return q.values.Get(name) }

func (q query) list(name string) []string { return q.values[name] }

func (q query) flag(name string) (bool, error) {
	v := q.values.Get(name)
	if v == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, invalid("%s=%s must be true or false", name, clip.Short(v))
	}
	return b, nil
}

// number reads a whole number that is not negative; 0 if it is missing.
func (q query) number(name string) (int64, error) {
	v := q.values.Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid("%s=%s must be a whole number, 0 or more", name, clip.Short(v))
	}
	return n, nil
}

func (q query) duration(name string) (time.Duration, error) {
	v := q.values.Get(name)
	if v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, invalid("%s=%s must be a duration such as 500ms, 30s or 5m", name, clip.Short(v))
	}
	return d, nil
}

func pathPID(r *http.Request) (agentkernel.PID, error) {
	pid, err := agentkernel.ParsePID(r.PathValue("pid"))
	if err != nil {
		return 0, invalid("%q is not a pid: pids are whole numbers from 1", clip.Short(r.PathValue("pid")))
	}
	return pid, nil
}
