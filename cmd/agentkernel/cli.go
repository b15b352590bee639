package main

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// cli is the command line: the flags of all commands, and the commands themselves.
type cli struct {
	Home     string   `placeholder:"DIR" group:"global" help:"Data directory (default: $$AGENTKERNEL_HOME, else ~/.local/state/agentkernel)."`
	Embedded bool     `group:"global" help:"Run the kernel inside this command instead of attaching to one."`
	JSON     bool     `name:"json" group:"global" help:"Answer in JSON on standard output."`
	NoColor  bool     `group:"global" help:"No colours; the variable NO_COLOR does the same."`
	Help     helpFlag `short:"h" group:"global" help:"Show help for the command."`

	run   *runCmd
	rerun *rerunCmd
	tools *toolsCmd
}

// command is one entry of the help page.
type command struct {
	name, group, help string
	args              any // pointer to a struct with kong's tags and a method Run(*app) error
}

// commands are those of the program, in the order of the help page.
func (c *cli) commands() []command {
	c.run, c.rerun, c.tools = &runCmd{specFlags: newSpecFlags()}, &rerunCmd{specFlags: newSpecFlags()}, &toolsCmd{Call: toolsCallCmd{specFlags: newSpecFlags()}}
	return []command{
		{"run", "programs", "Run a program, show its output, wait for its end.", c.run},
		{"spawn", "programs", "Start a program in the background and print its PID.", &spawnCmd{specFlags: newSpecFlags()}},
		{"init", "programs", "Make a folder ready for programs: settings, tools file, a first program.", &initCmd{}},
		{"do", "programs", "Do a task in plain language: a model writes programs, the kernel runs them.", &doCmd{specFlags: newSpecFlags()}},
		{"chat", "programs", "Talk with a model that writes programs, which the kernel runs.", &chatCmd{specFlags: newSpecFlags()}},
		{"task", "programs", "Do a task in plain language, without a model: a recipe writes the program.", &taskCmd{specFlags: newSpecFlags()}},

		{"ps", "processes", "List processes.", &psCmd{}},
		{"wait", "processes", "Wait until processes have ended or paused.", &waitCmd{}},
		{"logs", "processes", "Show what a process printed.", &logsCmd{}},
		{"inspect", "processes", "Show everything that is known of a process.", &inspectCmd{}},
		{"trace", "processes", "Show what a process did, call by call.", &traceCmd{}},
		{"why", "processes", "Say why a process failed or waits, and what to type next.", &whyCmd{}},
		{"diff", "processes", "Compare two runs call by call, or show what one did to files.", &diffCmd{}},
		{"apply", "processes", "Write what a process changed to the folder that it worked in.", &applyCmd{}},
		{"discard", "processes", "Throw away what a process changed.", &discardCmd{}},
		{"artifacts", "processes", "List the files that a process made or changed.", &artifactsCmd{}},
		{"get", "processes", "Copy a file of a process out.", &getCmd{}},
		{"sql", "processes", "Ask the database: one SELECT, read-only.", &sqlCmd{}},
		{"stop", "processes", "Ask a process to end; kill it if it does not.", &stopCmd{}},
		{"kill", "processes", "End a process at once.", &killCmd{}},
		{"signal", "processes", "Interrupt a process, or hand it a payload.", &signalCmd{}},
		{"pause", "processes", "Stop a process, also where it computes; resume undoes it.", &pauseCmd{}},
		{"resume", "processes", "Let a paused process go on.", &resumeCmd{}},
		{"halt", "processes", "Let everything stand still: no call, no start.", &haltCmd{}},
		{"thaw", "processes", "Let what was halted go on.", &thawCmd{}},
		{"budget", "processes", "Show what a process may spend and has spent, or raise it.", &budgetCmd{}},
		{"resolve", "processes", "Decide about a write whose outcome nobody knows.", &resolveCmd{}},
		{"rerun", "processes", "Run again, taking over what an earlier process did.", c.rerun},
		{"export", "processes", "Write a process into one file.", &exportCmd{}},
		{"import", "processes", "Put an exported process into the store.", &importCmd{}},
		{"replay", "processes", "Run an exported process offline and say whether it did the same.", &replayCmd{}},
		{"recover", "processes", "Continue processes that a stopped kernel left unfinished.", &recoverCmd{}},

		{"tools", "tools", "List, show, call and trust tools.", c.tools},
		{"llm", "tools", "List and test language models; show what they cost, and their limits.", &llmCmd{}},
		{"env", "tools", "List and delete environments of packages.", &envCmd{}},
		{"mcp", "tools", "Serve this kernel to an AI assistant over MCP (stdio).", &mcpCmd{specFlags: newSpecFlags()}},
		{"install", "tools", "Put this server into an assistant's configuration, in place of the others.", &installCmd{}},
		{"uninstall", "tools", "Put an assistant's configuration back to what it was.", &uninstallCmd{}},

		{"serve", "kernel", "Run a kernel in the foreground and continue unfinished processes.", &serveCmd{}},
		{"start", "kernel", "Start a kernel in the background if none runs, and say where it listens.", &startCmd{}},
		{"shutdown", "kernel", "Stop the running kernel.", &shutdownCmd{}},
		{"devllm", "kernel", "Serve a made-up provider of models, for tests and demos.", &devllmCmd{}},
		{"backup", "kernel", "Copy everything into one file, also while processes run.", &backupCmd{}},
		{"restore", "kernel", "Put a backup into an empty data directory.", &restoreCmd{}},
		{"prune", "kernel", "Remove processes that ended long ago, and what only they needed.", &pruneCmd{}},
		{"setup", "kernel", "Install the engine that runs programs.", &setupCmd{}},
		{"doctor", "kernel", "Check what works here, and say what mends the rest.", &doctorCmd{}},
		{"bug-report", "kernel", "Gather what somebody needs to mend a defect, without secrets.", &bugReportCmd{}},
		{"config", "kernel", "Show the settings and where they come from.", &configCmd{}},
		{"completion", "kernel", "Print a script that completes commands in a shell.", &completionCmd{}},
		{"man", "kernel", "Write the manual pages.", &manCmd{}},
		{"version", "kernel", "Print the version.", &versionCmd{}},
	}
}

// quiet says whether the command was asked to keep its notes to itself.
func (c *cli) quiet() bool {
	return c.run != nil && (c.run.Quiet || c.rerun.Quiet || c.tools.Call.Quiet)
}

// newParser builds the parser. Building it for all commands takes longer than a short run, so where the
// first word is a command only that one is built.
func newParser(a *app) (*kong.Kong, error) {
	options := []kong.Option{
		kong.Name("agentkernel"),
		kong.Description("AgentKernel runs AI agent programs the way an operating system runs processes."),
		kong.NoDefaultHelp(),
		kong.Exit(func(int) {}),
		kong.Writers(a.out, a.err),
		kong.Bind(a),
		kong.KindMapper(reflect.String, kong.MapperFunc(utf8Text)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(span)),
		kong.ExplicitGroups([]kong.Group{
			{Key: "programs", Title: "Programs"},
			{Key: "processes", Title: "Processes"},
			{Key: "tools", Title: "Tools"},
			{Key: "kernel", Title: "Kernel"},
			{Key: "access", Title: "What it may use"},
			{Key: "packages", Title: "Packages"},
			{Key: "limits", Title: "Limits"},
			{Key: "durable", Title: "Identity and durability"},
			{Key: "show", Title: "What is shown"},
			{Key: "global", Title: "Everywhere"},
		}),
	}
	all := a.cli.commands()
	if i := slices.IndexFunc(all, func(c command) bool { return c.name == firstWord(a.args) }); i >= 0 {
		all = all[i : i+1]
	}
	for _, c := range all {
		options = append(options, kong.DynamicCommand(c.name, c.help, c.group, c.args))
	}
	return kong.New(&a.cli, options...)
}

// firstWord is the command that the arguments name: flags of all commands may stand before it.
func firstWord(args []string) string {
	if i := firstWordAt(args); i < len(args) {
		return args[i]
	}
	return ""
}

// firstWordAt is where the command stands; len(args) if there is none.
func firstWordAt(args []string) int {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--home":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return i
		}
	}
	return len(args)
}

// splitRest takes what stands behind -- off the arguments of run, spawn and rerun: it is the program's, untouched.
// (The parser would not add it to arguments that stand before it.)
func splitRest(args []string) (own, rest []string) {
	i := slices.Index(args, "--")
	if i < 0 {
		return args, nil
	}
	if w := firstWord(args[:i]); w != "run" && w != "spawn" && w != "rerun" {
		return args, nil
	}
	return args[:i], args[i+1:]
}
