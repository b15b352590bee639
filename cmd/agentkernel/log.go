package main

import (
	"io"
	"log/slog"

	"agentkernel"
	"agentkernel/internal/datadir"
)

// logConfig says where the log of a kernel on this directory is, unless it runs in the foreground.
func (a *app) logConfig(dir *datadir.Dir) datadir.LogConfig {
	c := datadir.LogConfig{Path: dir.Log()}
	if a.cfg != nil {
		c.Size, c.Keep = a.cfg.Log.Size, a.cfg.Log.Keep
		if a.cfg.Log.Path != "" {
			c.Path = a.cfg.Log.Path
		}
	}
	return c
}

// logLevel is the one that the settings say.
func (a *app) logLevel() (level slog.Level) {
	if a.cfg != nil && level.UnmarshalText([]byte(a.cfg.Log.Level)) != nil { // the settings know only levels that exist; "" is none
		return slog.LevelInfo
	}
	return level
}

// logger writes lines of the form that the settings say.
func (a *app) logger(to io.Writer, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if a.cfg != nil && a.cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// fileLog is the log of a kernel that runs inside a command. The file is made by the first line, so that a quiet run
// makes none.
func (a *app) fileLog(dir *datadir.Dir) (*slog.Logger, func() error) {
	lines := datadir.NewLog(a.logConfig(dir))
	return a.logger(lines, a.logLevel()), lines.Close
}

// readSettings reads the settings and lays the flags of this command over them.
func (c *serveCmd) readSettings(a *app) error {
	if _, err := a.settings(); err != nil {
		return err
	}
	for _, f := range []struct{ key, flag, value string }{
		{"log.path", "--log", c.Log}, {"log.level", "--log-level", c.LogLevel}, {"log.format", "--log-format", c.LogFormat},
		{"embeddings.url", "--embeddings", c.Embeddings}, {"embeddings.model", "--embeddings-model", c.EmbeddingsModel},
		{"embeddings.key", "--embeddings-key", c.EmbeddingsKey},
	} {
		if f.value == "" {
			continue
		}
		if err := a.cfg.SetFlag(f.key, f.flag, f.value); err != nil {
			return err
		}
	}
	return nil
}

// logger is the log of this kernel: in the background a file, which takes standard error along; in the foreground
// standard error, unless a file is named.
func (c *serveCmd) logger(a *app, dir *datadir.Dir) (*slog.Logger, func(), error) {
	if err := c.readSettings(a); err != nil {
		return nil, nil, err
	}
	c.level = &slog.LevelVar{}
	c.level.Set(a.logLevel())
	to := a.logConfig(dir)
	if !c.Background && a.cfg.Log.Path == "" {
		return a.logger(a.err, c.level), func() {}, nil
	}
	if err := to.Check(); err != nil {
		return nil, nil, err
	}
	to.Standard = c.Background
	lines := datadir.NewLog(to)
	if _, err := lines.Open(); err != nil {
		e := agentkernel.AsError(err, agentkernel.CodeStorage, "serve")
		if a.cfg.Log.Path != "" { // named by the user
			e.Code = writeCode(err)
		}
		return nil, nil, e
	}
	return a.logger(lines, c.level), func() { _ = lines.Close() }, nil // nothing of it is buffered
}
