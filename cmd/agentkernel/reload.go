package main

import (
	"cmp"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"agentkernel"
	"agentkernel/embedded"
)

// reloader is a kernel in this process.
type reloader interface {
	Reload(cfg embedded.Config) error
}

// reloaded are the settings of a kernel that may change while it runs; the others count for the next one.
var reloaded = []string{"allowances", "log.level", "secrets", "storage.keep", "storage.keep_failed", "storage.quota"}

// inForce are the settings of a kernel that is opened with those of this command.
func (a *app) inForce() map[string]string {
	set := a.kernelSettings()
	set["home"] = a.cfg.Home
	return set
}

// reload reads the settings anew, and says in the log what has changed. If they cannot be used, the old ones stay. has are those in force
// so far; those in force from then on are returned.
func (c *serveCmd) reload(a *app, k agentkernel.Kernel, has map[string]string, log *slog.Logger) map[string]string {
	next := *a
	next.cfg = nil
	is, later, err := c.change(&next, k, has)
	if err != nil {
		log.Error("the settings cannot be used: the old ones stay", "err", asError(err).Message(), "hint", asError(err).Hint)
		return has
	}
	c.level.Set(min(c.level.Level(), next.logLevel())) // the lines that say what has changed are in either case
	defer c.level.Set(next.logLevel())
	for _, key := range slices.Sorted(maps.Keys(later)) {
		log.Warn("a setting was changed, and counts when the kernel is started again", "key", key, "is", loggedSetting(key, has[key]), "then", loggedSetting(key, later[key]))
	}
	changed := 0
	for _, key := range reloaded {
		if was := has[key]; was != is[key] {
			changed++
			log.Info("a setting was changed", "key", key, "was", loggedSetting(key, was), "is", loggedSetting(key, is[key]))
		}
	}
	log.Info("the settings were read again", "changed", changed, "at_the_next_start", len(later))
	return is
}

// change lets the kernel go by the settings of the files as they are now. later are those that it cannot change.
func (c *serveCmd) change(next *app, k agentkernel.Kernel, has map[string]string) (is, later map[string]string, err error) {
	if err := c.readSettings(next); err != nil {
		return nil, nil, err
	}
	set := next.cfg
	if err := embedded.Embeddings(set.Embeddings).Validate(); err != nil { // so that no key gets into the log
		return nil, nil, err
	}
	is, later = map[string]string{}, map[string]string{}
	maps.Copy(is, has)
	wants := next.inForce()
	for _, key := range slices.Concat(slices.Collect(maps.Keys(has)), slices.Collect(maps.Keys(wants))) {
		value, given := wants[key]
		switch {
		case value == has[key]:
		case !slices.Contains(reloaded, key):
			later[key] = value
		case given:
			is[key] = value
		default:
			delete(is, key)
		}
	}
	told := maps.Clone(is)
	delete(told, "home") // which each command names for itself
	return is, later, k.(reloader).Reload(embedded.Config{Secrets: set.Secrets, Allowances: set.Allowances, Quota: set.Quota, Keep: set.Keep, KeepFailed: set.KeepFailed == "yes", Settings: told})
}

// loggedSetting is a value for the log. None holds a secret, unless somebody has written one into an address.
func loggedSetting(key, value string) string {
	if key == "embeddings.url" {
		value, _, _ = strings.Cut(value, "?")
	}
	return cmp.Or(value, "the default")
}

// hangups delivers SIGHUP. gone says whether one means that the terminal of the command was closed; nohup lets none mean that.
func hangups() (hup chan os.Signal, gone func() bool) {
	had := hasTerminal() && !signal.Ignored(syscall.SIGHUP)
	hup = make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup, func() bool { return had && !hasTerminal() }
}

// hasTerminal says whether this process has a terminal that can close. The kernel of the machine takes it away before it sends SIGHUP.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	_ = tty.Close() // it was not written to
	return true
}
