package client

import (
	"context"
	"net/url"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// SaveSkill keeps a skill as a new version.
func (c *Client) SaveSkill(ctx context.Context, s agentkernel.Skill) (saved agentkernel.Skill, err error) {
	if err := (&agentkernel.Program{Name: s.Name, Source: s.Code}).Validate(); err != nil {
		return s, err
	}
	if err := c.post(ctx, "skill", wire.Prefix+"/skills", s, &saved); err != nil {
		return s, err
	}
	return saved, nil
}

// Skill is one skill with its code; version 0 is the newest.
func (c *Client) Skill(ctx context.Context, namespace, name string, version int) (s agentkernel.Skill, err error) {
	q := url.Values{}
	setText(q, "namespace", namespace)
	setText(q, "name", name)
	setNumber(q, "version", int64(version))
	err = c.get(ctx, "skill", wire.Prefix+"/skill", q, &s)
	return s, err
}

// Skills lists skills without code.
func (c *Client) Skills(ctx context.Context, query agentkernel.SkillQuery) ([]agentkernel.Skill, error) {
	q := url.Values{}
	setText(q, "namespace", query.Namespace)
	setText(q, "text", query.Text)
	setNumber(q, "limit", int64(query.Limit))
	var list wire.SkillList
	err := c.get(ctx, "skill", wire.Prefix+"/skills", q, &list)
	return list.Skills, err
}

// DeleteSkill deletes all versions of a skill.
func (c *Client) DeleteSkill(ctx context.Context, namespace, name string) error {
	return c.post(ctx, "skill", wire.Prefix+"/skills/delete", wire.DeleteSkillRequest{Namespace: namespace, Name: name}, nil)
}

// Document is one document.
func (c *Client) Document(ctx context.Context, namespace, owner, name string) (d agentkernel.Document, err error) {
	q := url.Values{}
	setText(q, "namespace", namespace)
	setText(q, "owner", owner)
	setText(q, "name", name)
	err = c.get(ctx, "state", wire.Prefix+"/state", q, &d)
	return d, err
}

// PutDocument replaces a document in one step.
func (c *Client) PutDocument(ctx context.Context, d agentkernel.Document) (stored agentkernel.Document, err error) {
	if err := c.post(ctx, "state", wire.Prefix+"/states", d, &stored); err != nil {
		return d, err
	}
	return stored, nil
}

func setText(q url.Values, name, text string) {
	if text != "" {
		q.Set(name, text)
	}
}
