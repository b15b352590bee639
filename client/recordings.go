package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// Export gives what a process did so far as a recording.
func (c *Client) Export(ctx context.Context, pid agentkernel.PID, o agentkernel.ExportOptions) ([]byte, error) {
	q := url.Values{}
	if o.Unredacted {
		q.Set("unredacted", "true")
	}
	if o.Files {
		q.Set("files", "true")
	}
	req := request{op: "export", method: http.MethodGet, path: wire.ProcessPath(pid, "export"), query: q}
	resp, err := c.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	file, err := io.ReadAll(io.LimitReader(resp.Body, agentkernel.MaxRecording+1))
	if err != nil {
		return nil, c.broken(ctx, req.op, err)
	}
	return file, nil
}

// Import puts a recording into the store.
func (c *Client) Import(ctx context.Context, file []byte, o agentkernel.ImportOptions) (p agentkernel.Process, err error) {
	q := url.Values{}
	if o.Namespace != "" {
		q.Set("namespace", o.Namespace)
	}
	err = c.postFile(ctx, "import", "/import", q, file, &p)
	return p, err
}

// Replay runs the program of a recording on nothing but the recording.
func (c *Client) Replay(ctx context.Context, file []byte, o agentkernel.ReplayOptions) (v agentkernel.Verdict, err error) {
	q := url.Values{}
	if o.Time != 0 {
		q.Set("time", o.Time.String())
	}
	setNumber(q, "memory", o.Memory)
	if o.Environment != "" {
		q.Set("environment", o.Environment)
	}
	err = c.postFile(ctx, "replay", "/replay", q, file, &v)
	return v, err
}

// upload is a request's body that is a file and not JSON.
type upload []byte

func (c *Client) postFile(ctx context.Context, op, path string, q url.Values, file []byte, into any) error {
	if len(file) > agentkernel.MaxRecording {
		return agentkernel.Errorf(agentkernel.CodeLimit, "recording", "the recording is larger than %d MiB", agentkernel.MaxRecording>>20)
	}
	req := request{op: op, method: http.MethodPost, path: wire.Prefix + path, query: q, body: upload(file)}
	resp, err := c.send(ctx, req)
	if err != nil {
		return err
	}
	return c.read(ctx, req, resp, into)
}

// attach makes the file the body of an HTTP request.
func (u upload) attach(hr *http.Request) {
	hr.Header.Set("Content-Type", "application/octet-stream")
	hr.ContentLength = int64(len(u))
	hr.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(u)), nil }
	hr.Body, _ = hr.GetBody() // it never fails
}
