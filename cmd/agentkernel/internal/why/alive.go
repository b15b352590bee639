package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/lazy"
)

// alive explains a process that has not ended.
func (c *inquiry) alive() {
	open := c.open()
	for _, o := range open {
		c.cause.WaitsFor = append(c.cause.WaitsFor, *ref(o))
	}
	keyless, gives := c.keyless()
	switch {
	case c.p.Paused:
		c.paused(open)
	case c.p.State == agentkernel.StateUnfinished:
		c.unfinished(open)
	case c.p.Halted != "":
		c.say(Waiting, "it stands still: %s is halted", c.p.Halted)
		c.step("agentkernel ps", "since when and why it is halted, and the agentkernel thaw that lets it go on")
	case slices.Contains(c.p.WaitsFor, agentkernel.ItsHost):
		c.hostless(open)
	case slices.Contains(c.p.WaitsFor, agentkernel.ItsServers):
		c.servers()
	case c.p.State == agentkernel.StateRunning:
		c.running()
	case c.p.State == agentkernel.StateReady:
		c.ready()
	case keyless != "":
		c.key(keyless, gives)
	case len(open) == 0 && len(c.p.WaitsFor) > 0:
		c.asking()
	case len(open) == 0:
		c.say(Waiting, "nothing is under way for it%s", c.sinceLast())
		c.step(c.cmd("trace %d"), "what it did")
	default:
		c.waiting(open)
	}
}

// hostless: its program lives elsewhere, and is not there.
func (c *inquiry) hostless(open []*history.Call) {
	text := "its program runs outside the kernel, and is not there: start it again, and what it did is answered from the journal"
	if n := len(open); n > 0 {
		text += fmt.Sprintf("; %d of its calls are under way", n)
	}
	c.say(Waiting, "%s%s", text, c.sinceLast())
	c.step(c.cmd("trace %d"), "what it did")
	c.step(c.cmd("kill %d"), "")
}

// servers: the servers of the tools that it imports have to be there first, and one of them may take long, or never come.
func (c *inquiry) servers() {
	c.say(Waiting, "it waits for the servers of the tools that it imports; those that did not run are being started%s", c.sinceLast())
	c.step("agentkernel tools list"+c.toolsFlags(), "whether they start, and why not")
	c.step(c.cmd("kill %d"), "")
}

// deadline adds when a process is asked to stop, or was.
func (c *inquiry) deadline() {
	at, left := c.p.Deadline, c.p.Deadline.Sub(c.in.Now)
	switch {
	case at.IsZero():
	case left > 0:
		c.cause.Sentence += "; deadline in " + console.Age(left)
	default:
		c.cause.Sentence += "; its deadline was " + console.Age(-left) + " ago"
	}
}

// budget adds that most of its budget was spent when it was told so last.
func (c *inquiry) budget() {
	for i := len(c.in.Entries) - 1; i >= 0; i-- {
		if w, ok := history.WarningOf(&c.in.Entries[i]); ok {
			c.cause.Sentence += "; it was told " + console.Age(c.in.Now.Sub(c.in.Entries[i].At)) + " ago that " + w.String()
			return
		}
	}
}

func (c *inquiry) paused(open []*history.Call) {
	ago := ""
	if since := c.history.Pauses.At; !since.IsZero() {
		ago = " " + console.Age(c.in.Now.Sub(since)) + " ago"
	}
	resume := c.cmd("resume %d")
	if unknown, reason := c.unresolved(); unknown != nil {
		c.cause.Call, c.cause.Code, c.cause.Message = ref(unknown), reason.Code, reason.Message()
		c.say(Paused, "%s, because nobody knows whether %s happened (%s): %s", strings.TrimSpace("since"+strings.TrimSuffix(ago, " ago")),
			unknown.Name(), c.number(unknown), afterColon(oneLine(reason.Message())))
		decide := fmt.Sprintf("agentkernel resolve %d %d ", c.p.PID, unknown.Number)
		c.step(c.cmd("trace %d --full"), lookAt(reason))
		c.step(decide+"--done null", "it happened, and this is its result")
		c.step(decide+"--retry", "it did not happen: make the call again")
		c.step(resume, "the program is handed OutcomeUnknown")
		return
	}
	if with := c.history.Pauses.With; with != 0 {
		c.cause.Message = c.p.PauseNote
		c.say(Paused, "with process %d%s, below which it stands", with, ago)
		if call := c.p.Asks(); call != "" { // where nobody can answer, it is paused again at once
			c.cause.Allow = call
			c.cause.Sentence += fmt.Sprintf(", while it waited for your answer whether it may call %s", call)
			c.step(fmt.Sprintf("agentkernel resume -f %d", with), "that goes on, and this with it, and asks again, at a terminal")
			c.step(c.cmd("resume -f %d"), "this alone goes on")
			return
		}
		if prevents := history.PauseOf(c.p.PauseNote).Prevents(); prevents != "" {
			c.cause.Sentence += "; what keeps it from going on: " + oneLine(prevents)
		}
		c.step(fmt.Sprintf("agentkernel resume %d", with), "that goes on, and this with it")
		c.step(resume, "this alone goes on")
		return
	}
	call := c.p.Asks()
	if prevents := history.PauseOf(c.p.PauseNote).Prevents(); prevents != "" {
		c.cause.Message = c.p.PauseNote
		c.say(Paused, "by hand%s; what keeps it from going on: %s", ago, prevents)
		c.step(resume, "when that is mended")
		c.step(c.cmd("kill %d"), "")
		return
	}
	if note := c.p.PauseNote; note != "" && call == "" {
		c.cause.Message = note
		c.say(Paused, "by the kernel%s: %s", ago, note)
		if raise := c.p.RaiseBudget(); raise != "" {
			c.step(raise, "it goes on by itself")
			c.step(c.cmd("kill %d"), "")
			return
		}
		if c.p.AllowanceAgain() != "" {
			c.step("agentkernel config show", "names the file with the setting allowances: raise it there")
			c.step("kill -HUP KERNEL", "the kernel reads its settings again, and this goes on; agentkernel doctor names its process")
			c.step("agentkernel budget show", "what the allowances are, and when it goes on by itself")
			c.step(c.cmd("kill %d"), "")
			return
		}
		if c.p.Repeats() {
			c.step(c.cmd("trace %d --full"), "what it was answered")
			c.step(resume, "it goes on, and is counted anew")
			c.step(c.cmd("kill %d"), "")
			return
		}
		if strings.Contains(note, agentkernel.OfProgram) {
			c.step(c.cmd("kill %d"), "that program, run again, starts a new process; this one cannot call its functions any more")
			c.step(resume, "it goes on without them")
			return
		}
		c.step(resume, "")
		return
	}
	text := "by hand" + ago
	if call != "" {
		if c.p.Unheard() { // nobody was there who could answer
			text = strings.TrimPrefix(ago, " ")
		}
		c.cause.Allow = call
		c.say(Paused, "%s, while it waited for your answer whether it may call %s", text, call)
		c.step(c.cmd("resume -f %d"), "asks again, at a terminal")
		c.step(c.cmd("kill %d"), "")
		return
	}
	if len(open) > 0 {
		c.cause.Call = ref(open[0])
		text += fmt.Sprintf(", while it waited for %s (call %d)", open[0].Name(), open[0].Number)
	}
	c.say(Paused, "%s", text)
	c.step(resume, "")
	c.step(c.cmd("kill %d"), "")
}

// unresolved is the first write without a known outcome about which a human is asked, and why it is unknown.
func (c *inquiry) unresolved() (*history.Call, *agentkernel.Error) {
	first := c.history.Unresolved.First()
	at := slices.IndexFunc(c.calls, func(o history.Call) bool { return o.Number == first })
	if first == 0 || at < 0 {
		return nil, nil
	}
	return &c.calls[at], c.history.Unresolved.Asked[first].Why
}

func (c *inquiry) unfinished(open []*history.Call) {
	if c.in.Hidden != nil {
		c.say(Unfinished, "it may be run by a kernel that cannot be asked: %s", c.in.Hidden.Message())
		if c.in.Hidden.Code == agentkernel.CodeVersion {
			c.step("agentkernel shutdown", "it ends that kernel; then "+c.cmd("recover %d")+" continues what is unfinished")
		} else {
			c.step("agentkernel doctor", "what is wrong with that kernel")
		}
		return
	}
	text := "its kernel stopped" + c.sinceLast()
	if len(open) > 0 {
		c.cause.Call = ref(open[0])
		text += fmt.Sprintf(" while %s (call %d) was under way; %s", open[0].Name(), open[0].Number, recovery(open[0]))
	}
	c.say(Unfinished, "%s", text)
	if len(open) > 0 && c.spec.OnUnknown == agentkernel.UnknownPause && slices.ContainsFunc(open, func(o *history.Call) bool { return o.InDoubt() }) {
		c.step(c.cmd("recover %d"), "it is brought back, and stays paused until you say whether the call happened")
		c.step(c.cmd("kill %d"), "")
		return
	}
	c.recovered()
	c.step(c.cmd("kill %d"), "")
}

// recovered adds what recovering it does.
func (c *inquiry) recovered() {
	anew := fmt.Sprintf(": a program in %s cannot be replayed", c.p.Language)
	switch {
	case c.p.Replayable || !c.history.Noted:
		c.step(c.cmd("recover %d"), "it goes on; finished calls are not made again")
	case c.spec.Restart == agentkernel.RestartOnCrash:
		c.step(c.cmd("recover %d"), "it begins anew"+anew)
	default:
		c.step(c.cmd("recover %d"), "it ends as failed"+anew)
		c.step(c.cmd("rerun %d"), "runs it again, after that; calls whose results its journal has are not made again")
	}
}

// recovery says what becomes of a call that was cut off.
func recovery(o *history.Call) string {
	switch {
	case o.Op == "time.sleep":
		return "the sleep ends at its old time"
	case o.Effect == agentkernel.EffectPure:
		return "it goes on waiting"
	case o.Effect.Repeatable():
		return "it will be called again"
	case o.Unsent:
		return "it waits for its turn, and was not sent"
	case o.Effect == agentkernel.EffectPaid:
		return "it will be called again, once"
	}
	return "nobody knows whether it happened, and it will not be called again"
}

func (c *inquiry) running() {
	text := "it computes"
	if n := len(c.calls); n > 0 {
		last := &c.calls[n-1]
		c.cause.Call = ref(last)
		text += fmt.Sprintf("; its last call was %s (call %d)", last.Name(), last.Number)
	}
	limit := c.spec.Limits.WithDefaults(agentkernel.DefaultLimits()).Time
	c.say(Running, "%s%s; limits.time is %s, of which %s was used before", text, c.sinceLast(), limit, console.Span(c.p.Usage.Running))
	c.step(c.cmd("wait %d"), "")
	c.step(c.cmd("kill %d"), "")
}

// ready: it could run, and others do.
func (c *inquiry) ready() {
	// Who has computed for longest first: it is the one to look at.
	slots := slices.SortedStableFunc(slices.Values(c.in.Running), func(a, b agentkernel.Process) int { return cmp.Compare(b.Usage.Running, a.Usage.Running) })
	if len(slots) == 0 {
		c.say(Ready, "it could run and waits for its turn%s", c.sinceLast())
		c.step("agentkernel ps", "who runs")
		return
	}
	const shown = 3
	var names []string
	for _, p := range slots[:min(shown, len(slots))] {
		names = append(names, fmt.Sprintf("%d (%s, %s)", p.PID, p.Name, console.Span(p.Usage.Running)))
	}
	if n := len(slots) - shown; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	for i := range slots {
		c.cause.Behind = append(c.cause.Behind, slots[i].PID)
	}
	c.say(Ready, "it waits for a slot; those who have one: %s%s", strings.Join(names, ", "), c.sinceLast())
	c.step(fmt.Sprintf("agentkernel why %d", slots[0].PID), "what the one that has computed for longest does")
	c.step("agentkernel ps --state running", "all that run; a slot is free when one ends, or waits for a call")
}

// keylessForm is a call of whose model the key is waited for, and the command that gives it. What a program has written reads like no such
// command.
var keylessForm = lazy.Regexp(`^(llm\.[a-z]+ [A-Za-z0-9_.-]+)` + agentkernel.WaitsForKey + ": `(agentkernel llm key [A-Za-z0-9_.#-]+( --pid [0-9]+)?)` gives it$")

// keyless is such a call, and the command; "": there is none.
func (c *inquiry) keyless() (call, command string) {
	for _, w := range c.p.WaitsFor {
		if m := keylessForm().FindStringSubmatch(w); m != nil {
			return m[1], m[2]
		}
	}
	return "", ""
}

// key: nothing was sent, and the call waits for as long as it takes.
func (c *inquiry) key(call, command string) {
	c.say(Key, "%s waits for the key of its model, which somebody has to give%s", call, c.sinceLast())
	c.step(command, "gives it; it is in the memory of the kernel alone")
	c.step(c.cmd("kill -s interrupt %d"), "the call raises KernelInterrupt in the program")
}

// asking: the kernel knows of calls that are not in the journal, because they have not been let through.
func (c *inquiry) asking() {
	name, asked := strings.CutPrefix(c.p.WaitsFor[0], agentkernel.YourAnswer)
	if call, why, queued := strings.Cut(name, ", queued "); queued {
		c.say(Waiting, "%s waits its turn: queued %s", strings.TrimPrefix(call, "tool.call "), why)
		c.whoGoesFirst(call)
		return
	}
	name = strings.TrimPrefix(name, "tool.call ")
	c.cause.Allow = name
	if asked {
		c.say(Asking, "it waits for your answer at its terminal, whether it may call %s%s", name, c.sinceLast())
	} else {
		c.say(Asking, "%s has not been let through: its server is starting%s", name, c.sinceLast())
	}
	c.step(c.cmd("kill -s interrupt %d"), "the call raises KernelInterrupt in the program")
}

// whoGoesFirst says where to look for what a call waits behind.
func (c *inquiry) whoGoesFirst(call string) {
	switch op, _, _ := strings.Cut(call, " "); {
	case strings.HasPrefix(op, "llm."):
		c.step("agentkernel llm limits", "the limits of the models, and how much of them is left")
	case strings.HasPrefix(op, "tool."):
		c.step("agentkernel tools list", `the servers; "concurrency" in the tools file says how many calls one does at once`)
	}
}

func (c *inquiry) waiting(open []*history.Call) {
	o := open[0]
	c.cause.Call = ref(o)
	more := ""
	if n := len(open) - 1; n > 0 {
		more = fmt.Sprintf(", and for %s more", count(int64(n), "call"))
	}
	age := console.Span(o.Took(c.in.Now))
	switch r := c.cause.Call; {
	case !r.Until.IsZero():
		c.say(Asleep, "it sleeps until %s, %s from now (call %d)%s", r.Until.Local().Format(time.TimeOnly),
			console.Span(max(r.Until.Sub(c.in.Now), 0)), o.Number, more)
		c.step(c.cmd("wait %d"), "")
	case r.Child != 0:
		c.say(Waiting, "it waits for its child %d for %s (call %d)%s", r.Child, age, o.Number, more)
		c.step(fmt.Sprintf("agentkernel why %d", r.Child), "what the child waits for")
	case c.in.Talks && o.Op == "proc.next":
		c.say(Waiting, "it is a conversation, and has waited for %s for what is said next (call %d)", age, o.Number)
		c.step(c.cmd("chat --resume %d"), "goes on with it, at a terminal")
		c.step(c.cmd("kill %d"), "")
	case c.queued(o) != "":
		c.say(Waiting, "it waits for %s for %s (call %d%s)%s: %s", o.Name(), age, o.Number, c.patience(o), more, c.queued(o))
		c.whoGoesFirst(o.Op)
		c.step(c.cmd("wait %d"), "")
		c.step(c.cmd("kill -s interrupt %d"), "the call raises KernelInterrupt in the program")
	default:
		c.say(Waiting, "it waits for %s for %s (call %d%s)%s", o.Name(), age, o.Number, c.patience(o), more)
		c.step(c.cmd("wait %d"), "")
		c.step(c.cmd("kill -s interrupt %d"), "the call raises KernelInterrupt in the program")
	}
}

// queued is why a call has no answer yet, as the kernel says it: "queued 4.1 s: tokens/min of ..."; "": it says nothing.
func (c *inquiry) queued(o *history.Call) string {
	for _, w := range c.p.WaitsFor {
		call, reason, _ := strings.Cut(w, ", ")
		if op, _, _ := strings.Cut(call, " "); op == o.Op && (strings.HasPrefix(o.Op, "llm.") || o.Unsent && strings.HasPrefix(reason, "queued ")) && reason != "" {
			return reason
		}
	}
	return ""
}

// patience says when the kernel gives a call up: one that has not been sent, or is in a queue again, may wait for as long as it takes.
func (c *inquiry) patience(o *history.Call) string {
	reason := c.queued(o)
	tried := strings.HasPrefix(reason, "no answer yet") && !strings.Contains(reason, ", queued ") &&
		(!strings.Contains(reason, "HTTP 429") || !strings.Contains(reason, ", again in ")) // the pause after it is a wait for the limit, too
	if !o.Effect.External() || o.Unsent && !tried {
		return ""
	}
	return ", given up after " + c.spec.Limits.WithDefaults(agentkernel.DefaultLimits()).CallWait.String()
}

// sinceLast says when the journal last grew: " (last entry 12s ago)".
func (c *inquiry) sinceLast() string {
	n := len(c.in.Entries)
	if n == 0 {
		return ""
	}
	at := c.in.Entries[n-1].At
	return fmt.Sprintf(" (last entry %s ago)", console.Age(c.in.Now.Sub(at)))
}
