package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// Backup has the kernel write a backup, and writes it to w as it comes.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	req := request{op: "backup", method: http.MethodGet, path: wire.Prefix + "/backup"}
	resp, err := c.send(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	to := &remembered{w: w}
	_, err = io.Copy(to, resp.Body)
	switch {
	case to.err != nil:
		return to.err
	case err != nil:
		return c.broken(ctx, req.op, err)
	}
	text := resp.Trailer.Get(wire.TrailerError)
	if text == "" {
		return nil
	}
	e := &agentkernel.Error{}
	if err := json.Unmarshal([]byte(text), e); err != nil || e.Code == "" {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, req.op, "the kernel did not complete the backup, and did not say why")
	}
	return e
}

// remembered tells an error of its writer from one of the connection.
type remembered struct {
	w   io.Writer
	err error
}

func (r *remembered) Write(p []byte) (n int, err error) {
	n, r.err = r.w.Write(p)
	return n, r.err
}
