package config

import (
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/nearest"
)

const envPrefix = "AGENTKERNEL_"

func environment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, e := range env {
		if k, v, ok := strings.Cut(e, "="); ok {
			m[k] = v
		}
	}
	return m
}

// loadEnv takes AGENTKERNEL_<KEY>. An empty variable counts as not set. A variable that is no key is an
// error only if it looks like a misspelt one: others have their own uses for the prefix.
func (c *Config) loadEnv(env map[string]string) error {
	known := make(map[string]bool)
	var names []string
	for _, k := range keyTable() {
		name := k.variable()
		known[name], names = true, append(names, strings.TrimPrefix(name, envPrefix))
		v := env[name]
		if v == "" {
			continue
		}
		values := []string{v}
		if k.list {
			values = splitList(v)
		}
		if err := c.set(k.name, Origin{Kind: Env, Name: name, base: c.dir}, values); err != nil {
			return err
		}
	}
	var strange []string
	for name := range env {
		if strings.HasPrefix(name, envPrefix) && !known[name] {
			strange = append(strange, name)
		}
	}
	slices.Sort(strange)
	for _, name := range strange {
		if near := nearest.One(strings.TrimPrefix(name, envPrefix), names); near != "" {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "config", "unknown environment variable %s", name).
				WithHint("did you mean %s%s?", envPrefix, near)
		}
	}
	return nil
}

func splitList(v string) []string {
	parts := strings.Split(v, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
