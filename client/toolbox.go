package client

import (
	"context"
	"net/url"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// longQuery is up to how many bytes the words of a search stand in its address.
const longQuery = 4 << 10

// SearchTools finds tools by what somebody wants to do, best first.
func (c *Client) SearchTools(ctx context.Context, files []string, q agentkernel.ToolQuery) (m agentkernel.ToolMatches, err error) {
	if err := q.Validate(); err != nil {
		return m, err
	}
	if len(q.Modules) > 0 || len(q.Text) > longQuery {
		err = c.post(ctx, "tools", wire.Prefix+"/tools/search", wire.SearchRequest{Files: files, ToolQuery: q}, &m)
		return m, err
	}
	query := url.Values{"files": files, "text": {q.Text}}
	if q.Server != "" {
		query.Set("server", q.Server)
	}
	setNumber(query, "limit", int64(q.Limit))
	err = c.get(ctx, "tools", wire.Prefix+"/tools/search", query, &m)
	return m, err
}

// AcceptTools accepts a server's tools as they are now.
func (c *Client) AcceptTools(ctx context.Context, files []string, server string, names []string) (int, error) {
	var done wire.Accepted
	err := c.post(ctx, "tools", wire.Prefix+"/tools/accept", wire.AcceptRequest{Files: files, Server: server, Names: names}, &done)
	return done.Changed, err
}
