package transport

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"agentkernel/internal/llm"
)

// roundTrip is a client's transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestBody: a body in pieces is sent whole, each time that it is asked for, and its length is said.
func TestBody(t *testing.T) {
	text := func(n int) []byte { return bytes.Repeat([]byte("0123456789"), n/10) }
	for _, pieces := range [][][]byte{
		{nil}, {text(10)}, {text(50_000)}, {text(100), text(1000), text(20)}, {text(100), text(40_000), nil, text(10), text(33_000)},
	} {
		want := bytes.Join(pieces, nil)
		said := 0
		s, err := New(llm.Options{BaseURL: "http://localhost/v1", Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			again, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			for _, body := range []io.ReadCloser{r.Body, again} {
				got, err := io.ReadAll(iotest.OneByteReader(body))
				if err != nil || !bytes.Equal(got, want) || r.ContentLength != int64(len(want)) {
					t.Errorf("%d bytes came, and %d were said, of %d: %v", len(got), r.ContentLength, len(want), err)
				}
				said++
				if err := body.Close(); err != nil {
					t.Error(err)
				}
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
		})}}, Dialect{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := s.Send(t.Context(), Call{Path: "/chat", Body: pieces})
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
		if said != 2 {
			t.Errorf("the body was read %d times", said)
		}
		if err := iotest.TestReader(&body{pieces: pieces}, want); err != nil {
			t.Error(err)
		}
	}
}
