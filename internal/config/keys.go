package config

import (
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/fetch"
)

// A key is one setting: its name in the files, what it means, and how its text becomes a value.
type key struct {
	name    string
	doc     string
	list    bool
	project InProject
	least   string   // Lower: what a project file may not go below, since hardly a program would run
	only    []string // the values that a project file may choose; none: any
	value   value
}

// variable is the key as an environment variable: limits.memory is AGENTKERNEL_LIMITS_MEMORY.
func (k key) variable() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// Key describes a setting to documentation and `doctor`.
type Key struct {
	Name, Variable, Doc string
	List                bool // several values; commas separate them in a variable
	Project             InProject
	Form                Form
}

// UserOnly says that a project file cannot set the key.
func (k *Key) UserOnly() bool { return k.Project == Never }

// Keys lists all settings in the order of docs/config.md.
func Keys() []Key {
	var out []Key
	for _, k := range keyTable() {
		out = append(out, k.public())
	}
	return out
}

func (k key) public() Key {
	return Key{Name: k.name, Variable: k.variable(), Doc: k.doc, List: k.list, Project: k.project, Form: k.value.form}
}

func keyTable() []key {
	return slices.Concat(kernelKeys(), logKeys(), programKeys(), limitKeys())
}

func kernelKeys() []key {
	return []key{
		{name: "home", project: Never, doc: "data directory",
			value: pathInto(func(c *Config) *string { return &c.Home })},
		{name: "engine", project: Never, doc: "the Monty executable: a path, or a name that is in PATH",
			value: engineInto(func(c *Config) *string { return &c.Engine })},
		{name: "python", project: Never, doc: "the Python of the process backend: a path, or a name that is in PATH; by default python3",
			value: engineInto(func(c *Config) *string { return &c.Python })},
		{name: "workers", project: Never, doc: "Monty workers at most; by default chosen from the number of CPUs",
			value: intInto(func(c *Config) *int { return &c.Workers }, 1, 4096)},
		{name: "shares", list: true, project: Never, doc: "weights by which namespaces get slots while they wait for some at the same time: \"team 3\"; others have 1",
			value: checked(listInto(func(c *Config) *[]string { return &c.Shares }), checkShare)},
		{name: "allowances", list: true, project: Never, doc: "what the processes of a namespace may spend together in each day or month, by UTC, of usd, tokens or calls: \"team day usd 5\", \"* month tokens 2M\"; * is each namespace that has none of its own for this",
			value: together(listInto(func(c *Config) *[]string { return &c.Allowances }), checkAllowances)},
		{name: "secrets", list: true, project: Never, doc: "what http.fetch may fill into headers: \"github env:GITHUB_TOKEN api.github.com\"",
			value: checked(listInto(func(c *Config) *[]string { return &c.Secrets }), fetch.CheckSecret)},
		{name: "embeddings.url", project: Never, doc: "where tool search finds vectors: an address of the form of OpenAI's, http://127.0.0.1:11434/v1; by default nowhere",
			value: textInto(func(c *Config) *string { return &c.Embeddings.URL })},
		{name: "embeddings.model", project: Never, doc: "the model that makes the vectors: text-embedding-3-small",
			value: textInto(func(c *Config) *string { return &c.Embeddings.Model })},
		{name: "embeddings.key", project: Never, doc: "where the key of that address is: env:VARIABLE or file:/PATH; by default none is sent",
			value: textInto(func(c *Config) *string { return &c.Embeddings.Key })},
		{name: "models", list: true, project: Never, doc: "language models by the names that programs have for them: \"fast openai:gpt-5-mini\"; the first one is asked where none is named",
			value: checked(listInto(func(c *Config) *[]string { return &c.Models }), checkModel)},
		{name: "prices", list: true, project: Never, doc: "files with what models cost, before the table that is installed in the data directory and that which comes with this version",
			value: pathsInto(func(c *Config) *[]string { return &c.Prices })},
		{name: "model_shares", list: true, project: Never, doc: "parts of each limit of models that namespaces have as long as they ask for them: \"team 70%\"; others have what is left, by the weights of shares",
			value: together(checked(listInto(func(c *Config) *[]string { return &c.ModelShares }), checkReserved), checkReservedShares)},
		{name: "idle_after", project: Never, doc: "a background kernel without work ends after this time",
			value: durationInto(func(c *Config) *time.Duration { return &c.IdleAfter })},
		{name: "isolation_none", project: Never, doc: "whether this kernel runs a program without a boundary where none can stand: asked (default: if it is asked for) or never",
			value: choiceInto(func(c *Config) *string { return &c.IsolationNone }, "asked", "never")},
		{name: "storage.quota", project: Never, doc: "what journals and blobs may take before new processes are refused; by default anything",
			value: sizeInto(func(c *Config) *int64 { return &c.Quota })},
		{name: "storage.keep", project: Never, doc: "processes are pruned so long after their end: 30d; by default never",
			value: durationInto(func(c *Config) *time.Duration { return &c.Keep })},
		{name: "storage.keep_failed", project: Never, doc: "storage.keep spares what did not end with exit code 0: yes or no",
			value: choiceInto(func(c *Config) *string { return &c.KeepFailed }, "yes", "no")},
	}
}

func logKeys() []key {
	return []key{
		{name: "log.path", project: Never, doc: "the kernel's log; by default kernel.log in the data directory, and for serve standard error",
			value: pathInto(func(c *Config) *string { return &c.Log.Path })},
		{name: "log.level", project: Never, doc: "what is less than this is left out of the log: debug, info, warn or error",
			value: choiceInto(func(c *Config) *string { return &c.Log.Level }, "debug", "info", "warn", "error")},
		{name: "log.format", project: Never, doc: "lines of the log: text (key=value) or json",
			value: choiceInto(func(c *Config) *string { return &c.Log.Format }, "text", "json")},
		{name: "log.size", project: Never, doc: "a log that has this size becomes kernel.log.1 (default 10m)",
			value: sizeInto(func(c *Config) *int64 { return &c.Log.Size })},
		{name: "log.keep", project: Never, doc: "how many older logs are kept (default 3)",
			value: intInto(func(c *Config) *int { return &c.Log.Keep }, 1, 1000)},
	}
}

func programKeys() []key {
	return []key{
		{name: "tools", list: true, project: Accepted, doc: "MCP configuration files whose servers programs may import",
			value: pathsInto(func(c *Config) *[]string { return &c.Tools })},
		{name: "allow", list: true, project: Never, doc: "patterns of calls that may change things: filesystem.write_*",
			value: checked(listInto(func(c *Config) *[]string { return &c.Allow }), agentkernel.CheckAllow)},
		{name: "allow_hosts", list: true, project: Never, doc: "hosts that http.fetch reaches: api.github.com, *.example.com, 127.0.0.1:8080",
			value: checked(listInto(func(c *Config) *[]string { return &c.AllowHosts }), fetch.CheckHost)},
		{name: "deny", list: true, project: Lower, doc: "capabilities taken from programs: proc.spawn, state",
			value: checked(listInto(func(c *Config) *[]string { return &c.Deny }), deniable)},
		{name: "namespace", project: Never, doc: "tenant that processes belong to",
			value: checked(textInto(func(c *Config) *string { return &c.Namespace }), agentkernel.ValidateNamespace)},
		{name: "backend", project: Harmless, only: []string{"auto", "monty", "process"}, doc: "where programs run: auto, monty, process",
			value: checked(textInto(func(c *Config) *string { return &c.Backend }), knownBackend)},
		{name: "isolation", project: Never, doc: "the weakest boundary that programs run behind; by default that of their backend",
			value: floorInto(func(c *Config) *agentkernel.Isolation { return &c.Isolation })},
		{name: "priority", project: Lower, doc: "1 (urgent) to 1000, 10 is the default",
			value: intInto(func(c *Config) *int { return &c.Priority }, 1, 1000)},
		{name: "on_unknown", project: Lower, only: []string{string(agentkernel.UnknownPause)}, doc: "a write whose outcome a crash left unknown: raise or pause",
			value: choiceInto(func(c *Config) *agentkernel.OnUnknown { return &c.OnUnknown },
				agentkernel.UnknownRaise, agentkernel.UnknownPause)},
		{name: "durability", project: Lower, only: []string{string(agentkernel.DurabilityFull)}, doc: "full: what leaves the kernel is on the disk first; relaxed: within milliseconds",
			value: choiceInto(func(c *Config) *agentkernel.Durability { return &c.Durability },
				agentkernel.DurabilityFull, agentkernel.DurabilityRelaxed)},
		{name: "restart", project: Lower, only: []string{string(agentkernel.RestartNever)}, doc: "a program that cannot be replayed (any but Python), after the death of its kernel: never begins anew, or on-crash",
			value: choiceInto(func(c *Config) *agentkernel.Restart { return &c.Restart }, agentkernel.RestartNever, agentkernel.RestartOnCrash)},
	}
}

func limitKeys() []key {
	var keys []key
	for _, l := range agentkernel.AllLimits() {
		keys = append(keys, key{name: "limits." + l.Name, project: Lower, least: l.Least, doc: l.Doc, value: limitInto(l)})
	}
	return keys
}

func findKey(name string) (key, bool) {
	for _, k := range keyTable() {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

func keyNames() []string {
	var names []string
	for _, k := range keyTable() {
		names = append(names, k.name)
	}
	return names
}
