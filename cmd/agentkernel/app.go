package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/cmd/agentkernel/internal/why"
	"agentkernel/internal/config"
	"agentkernel/internal/datadir"
	"agentkernel/internal/lazy"
	"agentkernel/internal/nearest"
	"agentkernel/internal/shellword"
)

// app is one invocation: the parsed command line, the streams, and the settings once they were needed.
type app struct {
	host
	parts
	ctx context.Context
	cli cli
	// rest is what stood behind -- : arguments of the program.
	rest []string
	con  *console.Console
	cfg  *config.Config // use settings()
	// bears says what this command may do without a file of settings that cannot be used, and broken why there is one.
	bears  tolerance
	broken error
	// gathered is what came through a pipe for the program; it is there as long as this command.
	gathered *os.File
	// here says why the folder that this command was called in is not shown to a program to which it would be.
	here string
	// named are the tools files of a command line that is being completed.
	named []string
	held  *session // see hold; nil: none is
	// background: this is a kernel in the background, whose words are for whoever needed it.
	background bool
	// beside are the folders in which files beside the program were looked for.
	beside []string
}

// exitCode is an outcome that was reported already: only the number is left.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// errHelp says that help was printed instead of running anything.
var errHelp = errors.New("help was printed")

// run parses the arguments, runs the command and gives the exit code.
func run(ctx context.Context, h host, p parts) int {
	// A closed pipe is an error of the write, not a sudden death: the process goes on and its end is told.
	// (Not signal.Ignore: that would be inherited by every program that is started.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	h.args = asCommand(h.args)
	a := &app{host: h, parts: p, ctx: ctx}
	a.con = a.console()
	parser, err := newParser(a)
	if err != nil {
		return a.fail(err)
	}
	if len(h.args) == 0 {
		a.con.Out(helpText(parser.Model.Node, a.con.OutColor()))
		return a.fail(a.outputError())
	}
	own, rest := splitRest(h.args)
	a.rest = rest
	kctx, err := parser.Parse(own)
	a.con = a.console()
	defer a.con.Close()
	switch {
	case errors.Is(err, errHelp):
		if e, ok := errors.AsType[*agentkernel.Error](err); ok {
			return a.fail(e)
		}
		return agentkernel.ExitOK
	case err != nil:
		a.cli.JSON = a.cli.JSON || wantsJSON(h.args)
		return a.fail(usageError(err, own))
	}
	if err := wrongFlag(kctx); err != nil {
		return a.fail(err)
	}
	a.bears = tolerances[strings.Fields(kctx.Command())[0]]
	defer a.letGo()
	return a.fail(kctx.Run(a))
}

// tolerance is what a command may do where a file of settings cannot be used. All that starts a program must not go on: the
// file may hold its limits.
type tolerance int

const (
	bearsNothing tolerance = iota
	bearsReading           // it shows what is there
	bearsEnding            // it stops something, and must know whose
)

var tolerances = map[string]tolerance{"ps": bearsReading, "logs": bearsReading, "inspect": bearsReading, "trace": bearsReading, "why": bearsReading,
	"wait": bearsReading, "sql": bearsReading, "diff": bearsReading, "artifacts": bearsReading, "get": bearsReading,
	"kill": bearsEnding, "stop": bearsEnding, "halt": bearsEnding, "pause": bearsEnding, "shutdown": bearsEnding}

// asCommand turns what people try first into what it is here: "help run" into "run --help", "--version" into "version". Flags of
// all commands may stand before it.
func asCommand(args []string) []string {
	word := firstWordAt(args)
	if word < len(args) && args[word] == "help" {
		return append(slices.Concat(args[:word], args[word+1:]), "--help")
	}
	for i, arg := range args[:word] {
		if arg == "--version" || arg == "-V" || arg == "-v" {
			return slices.Concat(args[:i], []string{"version"}, args[i+1:])
		}
	}
	return args
}

// wrongFlag refuses a flag that was given without anything in it, as by --workspace "$UNSET": to leave it out in silence would be to do
// something else than was asked for. And it refuses a number or a time below zero, or of zero, where the tag "zero" does not say what
// that means. Flags that are text (limits) are read by internal/config, by the same rules.
func wrongFlag(k *kong.Context) error {
	for _, p := range k.Path {
		f := p.Flag
		if f == nil {
			continue
		}
		switch kind := f.Target.Kind(); {
		case kind == reflect.String && f.Target.String() == "" && f.Name == "code":
			return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--%s is empty", f.Name).WithHint("name a program: agentkernel %s FILE, - for standard input, or -c 'CODE'", k.Selected().Name)
		case kind == reflect.String && f.Target.String() == "":
			return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--%s is empty", f.Name).WithHint("leave it out for the default")
		case kind != reflect.Int && kind != reflect.Int64:
		case f.Target.Int() < 0:
			return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--%s: \"%v\" is below zero", f.Name, f.Target).WithHint("leave it out for the default")
		case f.Target.Int() == 0 && !f.Tag.Has("zero"):
			return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--%s: 0 is too little; it must be above zero", f.Name).WithHint("leave it out for the default")
		}
	}
	return nil
}

// wantsJSON finds --json on a command line that could not be parsed.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		if arg == "--" {
			return false
		}
		if arg == "--json" {
			return true
		}
	}
	return false
}

func (a *app) console() *console.Console {
	return console.New(console.Config{
		Out: a.out, Err: a.err, OutTTY: a.outTTY, ErrTTY: a.errTTY, Width: a.width,
		Color: !a.cli.NoColor && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb",
		Dumb:  a.getenv("TERM") == "dumb",
		Quiet: a.cli.quiet(), Commands: a.withHome,
	})
}

// usageError turns what the parser says of the arguments into an error that says how to go on.
func usageError(err error, args []string) error {
	if e, ok := errors.AsType[*agentkernel.Error](err); ok { // what reads a value has said it all; the parser puts the name of its place before it
		return e
	}
	e := agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "%s", readable(flagAsTyped(err, args)))
	pe, ok := errors.AsType[*kong.ParseError](err)
	if !ok || pe.Context == nil {
		return e.WithHint("agentkernel --help")
	}
	node := pe.Context.Selected()
	if node == nil {
		node = pe.Context.Model.Node
	}
	if strings.HasPrefix(err.Error(), `expected one of "`) && len(node.Children) > 0 { // the parser names five at most
		e = agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "missing: a command, one of %s", strings.Join(commandNames(node), ", "))
	}
	if word, ok := strings.CutPrefix(err.Error(), "unexpected argument "); ok && len(node.Children) > 0 {
		return unknownCommand(node, word)
	}
	if word, ok := strings.CutPrefix(err.Error(), "unexpected argument "); ok {
		if hint := argumentElsewhere(node.FullPath(), word); hint != "" {
			return e.WithHint("%s", hint)
		}
	}
	if word, ok := strings.CutPrefix(err.Error(), "unexpected argument "); ok && node.FullPath() == "agentkernel budget add" {
		return e.WithHint("say of what: --usd %s, --tokens %s, --calls %s, --turns %s or --time %s", word, word, word, word, word)
	}
	if flag, ok := strings.CutPrefix(err.Error(), "unknown flag -"); ok {
		flag, guess, _ := strings.Cut(flag, ",")
		name, long := strings.CutPrefix(flag, "-")
		if ours := flagElsewhere[name]; ours != "" && hasFlag(node, ours) {
			return e.WithHint("it is --%s here: %s --help", ours, node.FullPath())
		}
		if of := flagsOfOther[node.Name][name]; of != "" {
			return e.WithHint("it is a flag of `agentkernel %s`; arguments of the program stand behind --", of)
		}
		if !long { // any letter is as near as any other
			e = agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "unknown flag -%s", flag)
			if hint := signalFlag(node, flag, args); hint != "" {
				return e.WithHint("%s", hint)
			}
		}
		if meant := programsFlag(node, args, "-"+flag); meant != "" && (guess == "" || !long) {
			return e.WithHint("arguments of the program stand behind --: %s", meant)
		}
		if near := nearest.One(name, flagNames(node)); near != "" && guess == "" && long {
			return e.WithHint("did you mean --%s?", near)
		}
	}
	return e.WithHint("%s --help", node.FullPath())
}

// flagAsTyped is a message of the parser that names a flag as it was typed: a flag that ends the line, and has no value, is named in full by the parser.
func flagAsTyped(err error, args []string) string {
	pe, ok := errors.AsType[*kong.ParseError](err)
	name, rest, found := strings.Cut(err.Error(), ": ")
	if !ok || !found || pe.Context == nil || len(args) == 0 {
		return err.Error()
	}
	for _, f := range pe.Context.Flags() {
		if short := "-" + string(f.Short); f.Short != 0 && "--"+f.Name == name && args[len(args)-1] == short {
			return short + ": " + rest
		}
	}
	return err.Error()
}

// programsFlag is the command line as it is meant if a flag that is not ours is the program's; "": no program stands before it.
func programsFlag(node *kong.Node, args []string, flag string) string {
	at := slices.IndexFunc(args, func(arg string) bool {
		return arg == flag || strings.HasPrefix(arg, flag+"=") || flag[1] != '-' && strings.HasPrefix(arg, flag) // -l of -la
	})
	takesProgram := node.Name == "run" || node.Name == "spawn"
	if at < 1 || !takesProgram {
		return ""
	}
	if !slices.ContainsFunc(args[:at], func(arg string) bool { return isFile(arg) || arg == "-" || arg == "-c" }) {
		if _, err := exec.LookPath(args[at-1]); err != nil || at != 2 || strings.HasPrefix(args[1], "-") {
			return ""
		}
		at-- // a command of the system
	}
	return "agentkernel " + shellword.Join(args[:at]) + " -- " + shellword.Join(args[at:])
}

// signalFlag says how a signal is named that was given as people give it to the kill of a shell, as -9; "": it was not.
func signalFlag(node *kong.Node, flag string, args []string) string {
	at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-"+flag) })
	if at < 0 || node.Name != "kill" && node.Name != "signal" && node.Name != "stop" {
		return ""
	}
	s, known := unixSignal(args[at][1:])
	if !known {
		return ""
	}
	pid := "PID"
	if at+1 < len(args) {
		pid = args[at+1]
	}
	if s == agentkernel.SignalInterrupt || s == agentkernel.SignalUser { // these have no command of their own
		return "agentkernel signal " + shellword.Join([]string{pid, string(s)})
	}
	return "agentkernel " + shellword.Join([]string{string(s), pid})
}

// flagElsewhere has flags of the tools that people come from (Claude Code, Docker), and what does the same here.
var flagElsewhere = map[string]string{
	"mcp-config": "tools", "mcp": "tools", "allowedTools": "allow", "allowed-tools": "allow",
	"add-dir": "workspace", "cwd": "workspace", "workdir": "workspace", "network": "allow-host", "mem": "memory", "pids-limit": "pids",
}

// flagsOfOther are flags that one of two commands that start programs has, and the other has not.
var flagsOfOther = map[string]map[string]string{"run": {"each": "spawn", "key": "spawn"}, "spawn": {"no-workspace": "run", "quiet": "run", "q": "run"}}

// commandElsewhere has commands of the tools that people come from (Docker, systemd), and what does the same here.
var commandElsewhere = map[string]string{
	"cancel":     "agentkernel kill PID",
	"suspend":    "agentkernel pause PID",
	"continue":   "agentkernel resume PID, or, if its kernel has stopped, agentkernel recover PID",
	"restart":    "agentkernel rerun PID runs a program again; agentkernel shutdown stops the kernel, and the next command starts one",
	"status":     "agentkernel ps lists what runs, agentkernel inspect PID shows a process, agentkernel doctor what works here",
	"top":        "agentkernel ps lists what runs, agentkernel inspect PID shows what a process uses",
	"ls":         "agentkernel ps -a lists processes, agentkernel artifacts PID the files that one made",
	"list":       "agentkernel ps -a lists processes, agentkernel tools list the tools",
	"history":    "agentkernel ps -a",
	"allowance":  "agentkernel budget show says what the allowances of namespaces are, and what is spent of them; the setting allowances gives them",
	"allowances": "agentkernel budget show says what the allowances of namespaces are, and what is spent of them; the setting allowances gives them",
	"attach":     "agentkernel logs -f PID shows what a process prints, to its end",
	"exec":       "agentkernel run -- COMMAND runs a command; none runs inside of a process that is there",
	"rm":         "agentkernel prune removes processes that have ended, agentkernel kill PID ends one",
	"search":     "agentkernel tools search WORDS",
	"skills":     "agentkernel do --save-skill NAME keeps a program as one, the folder skills of the data directory has them, and programs import them: docs/programs.md",
	"skill":      "agentkernel do --save-skill NAME keeps a program as one, the folder skills of the data directory has them, and programs import them: docs/programs.md",
	"models":     "agentkernel llm list",
	"model":      "agentkernel llm list",
	"usage":      "agentkernel llm usage says what models cost, agentkernel inspect PID what a process used",
	"cost":       "agentkernel llm usage",
	"costs":      "agentkernel llm usage",
	"approve":    "a call is allowed when a program starts: agentkernel run --allow SERVER.TOOL; agentkernel resolve PID CALL --done JSON decides about a write whose outcome is not known, agentkernel resume PID lets a paused process go on",
	"answer":     "a question is answered in the terminal that follows the process: agentkernel resume -f PID; agentkernel signal PID user JSON hands it something",
	"delete":     "agentkernel prune removes processes that have ended, agentkernel kill PID ends one, agentkernel discard PID throws away what one changed",
	"remove":     "agentkernel prune removes processes that have ended, agentkernel kill PID ends one, agentkernel discard PID throws away what one changed",
	"tail":       "agentkernel logs -f PID",
	"web":        "there is no page to look at: agentkernel ps, agentkernel trace PID and agentkernel inspect PID show all; docs/api.md is for programs",
	"ui":         "there is no page to look at: agentkernel ps, agentkernel trace PID and agentkernel inspect PID show all; docs/api.md is for programs",
	"dashboard":  "there is no page to look at: agentkernel ps, agentkernel trace PID and agentkernel inspect PID show all; docs/api.md is for programs",
	"call":       "agentkernel tools call SERVER.TOOL",
}

// argumentElsewhere says what is meant by a process, or a file, behind a command that takes none; "": nothing is known.
func argumentElsewhere(command, word string) string {
	if _, err := agentkernel.ParsePID(word); err != nil {
		if command == "agentkernel export" {
			return "the file is named with -o: agentkernel export PID -o " + shellword.File(word)
		}
		return ""
	}
	switch command {
	case "agentkernel budget":
		return command + " show " + word
	case "agentkernel ps":
		return fmt.Sprintf("agentkernel inspect %s shows a process, agentkernel why %s why it failed or waits", word, word)
	case "agentkernel halt", "agentkernel thaw":
		return command + " --tree " + word
	}
	return ""
}

func hasFlag(node *kong.Node, name string) bool {
	return slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == name })
}

func flagNames(node *kong.Node) (names []string) {
	for _, f := range node.Flags {
		names = append(names, f.Name)
	}
	return names
}

// unknownCommand answers a word that is no command of node: with the commands that may be meant, or, for a
// program, with the command that runs it.
func unknownCommand(node *kong.Node, word string) error {
	word, _, _ = strings.Cut(word, ", did you mean")
	e := agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "%s has no command %q", node.FullPath(), word)
	if ours := commandElsewhere[word]; ours != "" && node.Type == kong.ApplicationNode {
		return e.WithHint("%s", ours)
	}
	switch near := nearest.Names(word, commandNames(node)); {
	case argumentElsewhere(node.FullPath(), word) != "":
		return e.WithHint("%s", argumentElsewhere(node.FullPath(), word))
	case len(near) > 0:
		return e.WithHint("did you mean \"%s\"?", strings.Join(near, "\", \""))
	case strings.HasSuffix(word, ".py"):
		return e.WithHint("agentkernel run %s", shellword.File(word))
	}
	return e.WithHint("%s --help", node.FullPath())
}

func commandNames(node *kong.Node) (names []string) {
	for _, c := range node.Children {
		names = append(names, c.Name)
	}
	return names
}

// spokenByParser are the messages of the parser that say more of it than of the command line, and what they mean.
var spokenByParser = []struct {
	re   func() *regexp.Regexp
	with string
}{
	{lazy.Regexp(`^(--?\S+): (?:expected \w+ value but got "EOL" \(<EOL>\)|missing value, expecting .*)$`), "$1: its value is missing"},
	{lazy.Regexp(`^(--\S+): expected a valid 64 bit int but got (".*")$`), "$1: $2 is not a whole number"},
	{lazy.Regexp(`^(--\S+): expected .* value but got "(-\d.*)" \((?:short|long) flag\).*$`), "$1: \"$2\" is below zero"},
	{lazy.Regexp(`^(--\S+): expected .* value but got ".*" \((?:short|long) flag\).*$`), "$1: its value is missing"},
	{lazy.Regexp(`^missing flags: (--[\w-]+)=(\S+)$`), "missing: $1 $2"},
}

// choices are those of an argument that people can make: the shell scripts of completion have one for themselves.
func choices(enum string) []string {
	return slices.DeleteFunc(strings.Split(enum, ","), func(e string) bool { return e == completionWords })
}

var oneOf = lazy.Regexp(`^(\S+) must be one of (.*) but got (".*")$`)

// readable turns what the parser says into words: `expected "<pid> ..."` is a PID that is missing.
func readable(message string) string {
	for _, s := range spokenByParser {
		if re := s.re(); re.MatchString(message) {
			return re.ReplaceAllString(message, s.with)
		}
	}
	if m := oneOf().FindStringSubmatch(message); m != nil {
		name := m[1]
		if strings.HasPrefix(name, "<") {
			name = strings.ToUpper(strings.Trim(name, "<>"))
		}
		return name + ": " + m[3] + " is not one of " + strings.Join(choices(strings.ReplaceAll(m[2], `"`, "")), ", ")
	}
	if what, ok := strings.CutPrefix(message, `expected "`); ok {
		return "missing: " + strings.ToUpper(strings.NewReplacer("<", "", ">", "", `"`, "").Replace(what))
	}
	return message
}

// fail reports an error and gives the exit code; nil is success.
func (a *app) fail(err error) int {
	if err == nil {
		return agentkernel.ExitOK
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	if errors.Is(err, context.Canceled) && a.ctx.Err() != nil {
		err = agentkernel.Errorf(agentkernel.CodeCanceled, "", "interrupted")
	}
	e := a.ofRunningKernel(asError(err))
	if a.cli.JSON {
		if perr := a.printJSON(struct {
			Error *agentkernel.Error `json:"error"`
		}{a.hinted(e)}); perr == nil {
			return exitFor(e)
		}
	}
	a.reportError(e)
	return exitFor(e)
}

// asError gives what is inside err: code, hint and message. What a wrapper says besides is kept.
func asError(err error) *agentkernel.Error {
	e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
	if text := err.Error(); text != e.Error() && text != e.Message() {
		c := *e
		c.Err = errors.New(text)
		return &c
	}
	return e
}

// reportError writes traceback, message and hint to standard error.
func (a *app) reportError(e *agentkernel.Error) {
	message, trace, hint := a.passedOn(e.Message()), a.passedOn(strings.TrimRight(e.Traceback, "\n")), a.withTools(e.Hint)
	if trace != "" {
		a.con.Err(console.Clean(trace) + "\n")
	}
	if flag := why.Flag(e); flag != "" && hint != "" && !strings.Contains(hint, flag) {
		hint += ": " + flag
	}
	if trace != "" && saidAlready(trace, message) {
		a.con.Hint(hint)
		return
	}
	a.con.Error(message, hint)
}

// passedOn is a text of a program for the person whom the hint in it was meant for.
func (a *app) passedOn(text string) string {
	before, hint, after := agentkernel.PassedOn(text)
	if hint == "" {
		return text
	}
	return before + "(" + a.withHome(a.withTools(hint)) + ")" + after
}

// saidAlready says whether the traceback ends with the message: "ValueError: no" or, for a syntax error
// whose message is "line 3: invalid syntax", "SyntaxError: invalid syntax".
func saidAlready(trace, message string) bool {
	trace = strings.TrimRight(trace, "\n")
	last := trace[strings.LastIndexByte(trace, '\n')+1:]
	_, text, _ := strings.Cut(last, ": ")
	message = inLine().ReplaceAllString(message, "") // as CPython says it of syntax errors
	return message == firstLine(trace) || strings.HasPrefix(trace, message+"\n") || strings.HasSuffix(message, last) || text != "" && strings.HasSuffix(firstLine(message), text)
}

var inLine = lazy.Regexp(` \([^()]*, line \d+\)$`)

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// settings are the configuration, read when first needed.
func (a *app) settings() (*config.Config, error) {
	if a.cfg != nil {
		return a.cfg, nil
	}
	dir, err := a.workingDir()
	if err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "config", "the working directory is gone: %w", err).
			WithHint("cd to a directory that exists")
	}
	from := config.Options{Dir: dir, Env: a.env, UserHome: a.userHome}
	var users error // the user's own file, which alone may name the data directory
	if a.bears != bearsNothing {
		from.Broken = func(kind config.Kind, err error) {
			if a.broken = err; kind == config.User {
				users = err
			}
			a.con.Say("warning: %s", asError(err).Message())
			a.con.Hint(asError(err).Hint)
		}
	}
	cfg, err := config.Load(from)
	if err != nil {
		return nil, err
	}
	if a.cli.Home != "" {
		if err := cfg.SetFlag("home", "--home", a.cli.Home); err != nil {
			return nil, err
		}
	}
	if a.broken != nil {
		if err := a.bearBroken(cfg, users); err != nil {
			return nil, err
		}
	}
	a.cfg = cfg
	return cfg, nil
}

// bearBroken says with what a command goes on where a file of settings cannot be used; users is why it is the user's own file.
func (a *app) bearBroken(cfg *config.Config, users error) error {
	home, err := datadir.Resolve(cfg.Home)
	switch {
	case err != nil:
		return err
	case users == nil || cfg.Origin("home").Kind != config.Default:
		a.con.Say("this command goes on without it; no program starts before that is mended")
	case a.bears == bearsEnding:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "config", "that file may name another data directory, so nothing is stopped").
			WithHint("mend the file, or say whose: --home DIR")
	default:
		a.con.Say("this command goes on without it and reads %s, which may not be the data directory that the file names; no program starts before that is mended", home)
	}
	return nil
}

// printJSON writes v as one line of JSON to standard output.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInternal, "json", "%w", err)
	}
	a.con.Out(b.String())
	return a.outputError()
}

// outputError is the failure of standard output, if it failed for another reason than a reader that went.
func (a *app) outputError() error {
	if err := a.con.Broken(); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		return agentkernel.Errorf(agentkernel.CodeStorage, "stdout", "standard output cannot be written: %w", err)
	}
	return nil
}
