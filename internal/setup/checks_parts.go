package setup

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"agentkernel"
)

// checkEngine finds the engine as a kernel does, and starts it.
func checkEngine(ctx context.Context, o DoctorOptions) []Finding {
	path, origin, err := Find(FindOptions{Explicit: o.Engine, Home: o.Home, Shared: o.Shared, LookPath: o.LookPath})
	if err != nil {
		return failed(Fail, err)
	}
	says, err := Start(ctx, path)
	if err != nil {
		return failed(Fail, err)
	}
	where := map[string]string{OriginSetting: "from the setting `engine`", OriginPath: "on PATH", OriginHome: "in the data directory",
		OriginShared: "for all data directories"}[origin]
	if p, err := here(); err == nil && !p.Tested {
		return warn("", "%s, %s: %s (this platform is untested)", says, where, path)
	}
	return ok("%s, %s: %s", says, where, path)
}

// checkWalls starts a worker of Monty, and says what does not stand between it and the machine.
func checkWalls(ctx context.Context, o DoctorOptions) []Finding {
	path, _, err := Find(FindOptions{Explicit: o.Engine, Home: o.Home, Shared: o.Shared, LookPath: o.LookPath})
	if err != nil || o.TryWalls == nil {
		return nil // the check of the engine has said it
	}
	lacking, err := o.TryWalls(ctx, path)
	if err != nil {
		return failed(Warn, err)
	}
	if len(lacking) > 0 {
		return warn("docs/security.md says what that means", "Monty's workers run without: %s", strings.Join(lacking, "; "))
	}
	return ok("Monty's workers run behind all of them")
}

// checkNode looks for what MCP servers from npm, and `agentkernel setup`, need. Programs run without it.
func checkNode(ctx context.Context, o DoctorOptions) []Finding {
	var versions, missing []string
	for _, name := range []string{"node", "npm"} {
		path, err := o.LookPath(name)
		if err != nil {
			missing = append(missing, name)
			continue
		}
		cmd := exec.CommandContext(ctx, path, "--version")
		if filepath.IsAbs(path) {
			cmd.Dir = "/" // npm, and version managers, read files of the folder that they are called in
		}
		out, err := cmd.Output()
		if err != nil {
			return warn("install Node again", "%s does not run: %v", path, err)
		}
		versions = append(versions, name+" "+strings.TrimPrefix(strings.TrimSpace(string(out)), "v"))
	}
	if len(missing) > 0 {
		return warn("apt install nodejs npm, if you want `agentkernel setup` or MCP servers that come by npm; programs run without",
			"not installed: %s", strings.Join(missing, ", "))
	}
	return ok("%s", strings.Join(versions, ", "))
}

// checkTools reads the MCP configuration files and starts each server once.
func checkTools(ctx context.Context, o DoctorOptions) []Finding {
	if len(o.Tools) == 0 {
		return ok("no MCP configuration file is set (--tools, or `tools` in the configuration)")
	}
	if o.ToolSource == nil {
		return ok("%s", strings.Join(o.Tools, ", "))
	}
	source, closeSource, err := o.ToolSource(o.Tools)
	if err != nil {
		return failed(Fail, err)
	}
	defer func() { _ = closeSource() }() // what the servers said is known by then
	servers, err := source.Servers(ctx)
	if err != nil {
		return failed(Fail, err)
	}
	var all []Finding
	for _, s := range servers {
		all = append(all, checkServer(ctx, source, s))
	}
	return all
}

// A server that does not start is a warning: programs that do not use it run.
func checkServer(ctx context.Context, source agentkernel.ToolSource, s agentkernel.ToolServer) Finding {
	name := "tool server " + s.Name
	tools, err := source.Tools(ctx, s.Name)
	if err != nil {
		f := failed(Warn, err)[0]
		f.Check = name
		return f
	}
	return Finding{Check: name, Status: OK, Found: fmt.Sprintf("%s, %s, tools.%s", s.Transport, count(len(tools), "tool", "tools"), s.PythonName)}
}

// checkSearch asks the embedder for a vector. Without one, or with one that fails, tools are searched by words.
func checkSearch(ctx context.Context, o DoctorOptions) []Finding {
	if o.TryEmbeddings == nil || o.Embeddings == "" {
		return ok("by words (embeddings.url is not set)")
	}
	n, err := o.TryEmbeddings(ctx)
	if err != nil {
		return failed(Warn, err)
	}
	return ok("by words and by vectors of %d numbers from %s", n, o.Embeddings)
}

// checkModels looks at the language models that are declared. Programs that ask none run without.
func checkModels(ctx context.Context, o DoctorOptions) []Finding {
	if o.Models == nil {
		return nil
	}
	if found := o.Models(ctx); len(found) > 0 {
		return found
	}
	return ok("none is declared (models is not set)")
}
