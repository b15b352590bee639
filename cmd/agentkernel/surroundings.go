package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/datadir"
	"agentkernel/internal/setup"
	"agentkernel/internal/tool"
)

// A kernel keeps the environment and the settings of the terminal that started it. What this file does is to say so where that matters.

// pathSetting is the key of the PATH in KernelInfo.Settings.
const pathSetting = "PATH"

// kernelSettings are those that a kernel which this command starts is to keep.
func (a *app) kernelSettings() map[string]string {
	set := a.cfg.Kernel()
	set[pathSetting] = a.getenv(pathSetting)
	return set
}

// running describes the kernel that other terminals share; nil: there is none, or it does not answer.
func (a *app) running() *agentkernel.KernelInfo {
	k := a.shared()
	if k == nil {
		return nil
	}
	defer k.Close()
	info, err := k.Info(a.ctx)
	if err != nil {
		return nil
	}
	return &info
}

// shared is the kernel that other terminals share; nil: there is none.
func (a *app) shared() agentkernel.Kernel {
	home, err := a.home()
	if err != nil || a.cli.Embedded {
		return nil
	}
	if _, err := os.Stat(home); err != nil { // to open it would make it
		return nil
	}
	dir, err := datadir.Open(home)
	if err != nil {
		return nil
	}
	k, err := a.dial(a.ctx, dir.Socket())
	if err != nil {
		return nil
	}
	return k
}

// kernelText names a running kernel.
func kernelText(info *agentkernel.KernelInfo) string {
	return fmt.Sprintf("os process %d, since %s", info.OSPID, info.Started.Local().Format(time.DateTime))
}

// ofRunningKernel adds to an error about what the kernel keeps from its start which kernel that is, and, if this terminal has what the
// kernel lacks, how to get one that has it.
func (a *app) ofRunningKernel(e *agentkernel.Error) *agentkernel.Error {
	if e == nil {
		return nil
	}
	if pid := missingPID(e); pid != 0 {
		return a.aboutNewest(e, pid)
	}
	if advice := a.keyAdvice(e.Hint); advice != e.Hint {
		e = e.WithHint("%s", advice)
	} else if !strings.Contains(e.Message(), agentkernel.OfRunningKernel) {
		return e
	}
	said, info := *e, a.running()
	which := ""
	if info != nil {
		which = " " + agentkernel.OfRunningKernel + " (" + kernelText(info) + ")"
	}
	said.Err = errors.New(strings.ReplaceAll(e.Message(), " "+agentkernel.OfRunningKernel, which))
	said.Traceback = strings.ReplaceAll(e.Traceback, " "+agentkernel.OfRunningKernel, which)
	if info == nil { // the kernel was this command's own
		return &said
	}
	if name := agentkernel.MissingCommand(e.Message()); name != "" {
		if path := a.lookPath(name); path != "" {
			return said.WithHint("here it is %s: %s", path, restart(info, "PATH"))
		}
		return &said
	}
	if name := agentkernel.UnsetVariable(e.Message()); name != "" {
		if _, here := a.lookupEnv(name); here {
			return said.WithHint("here it is set: %s", restart(info, "environment"))
		}
		return &said
	}
	if differ := a.otherKernelSettings(info); len(differ) > 0 {
		return said.WithHint("%s: %s", strings.Join(differ, "; "), restart(info, "settings"))
	}
	return &said
}

// restart says how to get a kernel with what this terminal has.
func restart(info *agentkernel.KernelInfo, what string) string {
	if info.Mode == background {
		return "agentkernel shutdown; the next command starts one with this terminal's " + what
	}
	return "agentkernel shutdown; then start it here, with this terminal's " + what + ": agentkernel serve"
}

// lookPath finds a command on the PATH of this command's environment; "": it is not there.
func (a *app) lookPath(name string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		return ""
	}
	for _, dir := range filepath.SplitList(a.getenv(pathSetting)) {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// otherKernelSettings are the settings in which the running kernel differs from one that this command would start.
func (a *app) otherKernelSettings(info *agentkernel.KernelInfo) []string {
	here, there := a.kernelSettings(), maps.Clone(info.Settings)
	delete(here, pathSetting)
	delete(there, pathSetting)
	var differ []string
	for key := range here {
		if here[key] != there[key] {
			differ = append(differ, settingText(key, here[key], there[key]))
		}
	}
	for key := range there {
		if _, both := here[key]; !both {
			differ = append(differ, settingText(key, "", there[key]))
		}
	}
	slices.Sort(differ)
	return differ
}

func settingText(key, here, there string) string {
	return fmt.Sprintf("%s = %s here, %s there", key, cmp.Or(here, "the default"), cmp.Or(there, "the default"))
}

// examineRunning compares the running kernel with this terminal; nil: there is none, or none that differs.
func (a *app) examineRunning() []setup.Finding {
	info := a.running()
	if info == nil {
		return nil
	}
	const check = "running kernel"
	var found []setup.Finding
	if differ := a.otherKernelSettings(info); len(differ) > 0 {
		found = append(found, setup.Finding{Check: check, Status: setup.Warn, Found: kernelText(info) + ", has other settings: " + strings.Join(differ, "; "),
			Fix: restart(info, "settings")})
	}
	if differ := a.otherVariables(info, a.cfg.Tools); len(differ) > 0 {
		found = append(found, setup.Finding{Check: check, Status: setup.Warn, Found: kernelText(info) + ", has another environment: " + strings.Join(differ, "; "),
			Fix: restart(info, "environment")})
	}
	if differ := a.otherKeys(info); len(differ) > 0 {
		found = append(found, setup.Finding{Check: check, Status: setup.Warn, Found: kernelText(info) + ", has another environment: " + strings.Join(differ, "; "),
			Fix: restart(info, "environment")})
	}
	if there, known := info.Settings[pathSetting]; known {
		if text := otherPath(a.getenv(pathSetting), there); text != "" {
			found = append(found, setup.Finding{Check: check, Status: setup.Warn, Found: kernelText(info) + ", has another PATH: " + text, Fix: restart(info, "PATH")})
		}
	}
	return found
}

// otherVariables says which of the variables that tools files take have another value in the running kernel than here. No value is
// said, or sent anywhere.
func (a *app) otherVariables(info *agentkernel.KernelInfo, files []string) []string {
	there := kernelEnvironment(info)
	if there == nil {
		return nil
	}
	var differ []string
	for _, file := range files {
		content, err := tool.ReadFile(file)
		if err != nil {
			continue // what is wrong with it is said elsewhere
		}
		names, _ := tool.Variables(file, content)
		for _, name := range names {
			mine, here := a.lookupEnv(name)
			its, set := there.lookupEnv(name)
			var text string
			switch {
			case here && !set:
				text = "is set here, and not there"
			case !here && set:
				text = "is set there, and not here"
			case mine != its:
				text = "has another value there"
			default:
				continue
			}
			differ = append(differ, fmt.Sprintf("%s, which %s names, %s", name, a.relative(file), text))
		}
	}
	return differ
}

// kernelEnvironment is the environment with which the running kernel was started; nil: this system does not show it to us.
func kernelEnvironment(info *agentkernel.KernelInfo) *host {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", info.OSPID))
	if err != nil {
		return nil
	}
	there := &host{env: strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")}
	// Where the kernel is in another container its number is another process's here.
	if path, known := info.Settings[pathSetting]; !known || path != there.getenv(pathSetting) {
		return nil
	}
	return there
}

// mentionVariables says that tools of a program get other values than this terminal has.
func (a *app) mentionVariables(k *session, spec *agentkernel.Spec) {
	if len(spec.Tools) == 0 || k.inProcess || a.cli.JSON || a.cli.quiet() || spec.Program.Source != "" && !speaksOfTools(&spec.Program) {
		return
	}
	info, err := k.Info(a.ctx)
	if err != nil {
		return
	}
	if differ := a.otherVariables(&info, a.cfg.Tools); len(differ) > 0 {
		a.con.Note("the kernel that runs (%s) was started with another environment: %s · %s", kernelText(&info), strings.Join(differ, "; "), restart(&info, "environment"))
	}
}

// tellUnpriced says whose tools a process under a budget of dollars cannot call, since its tools files say nothing of what they cost: the program, or the
// model, would learn it call by call.
func (a *app) tellUnpriced(spec *agentkernel.Spec) {
	if spec.Budget.USD == 0 || a.cli.quiet() || spec.Program.Source != "" && !speaksOfTools(&spec.Program) {
		return
	}
	for _, file := range spec.Tools {
		content, err := tool.ReadFile(file)
		if err != nil {
			continue // what is wrong with it is said elsewhere
		}
		if servers, _ := tool.Unpriced(file, content); len(servers) > 0 {
			a.con.Say("warning: under a budget of dollars, tools of %s are refused, since nothing says what they cost: in %s, write \"cost_usd\": 0 beside the \"command\" or \"url\" of each that costs nothing",
				strings.Join(servers, ", "), a.relative(file))
		}
	}
}

// otherPath says how a PATH differs from that of this terminal; "": a command is found alike on both.
func otherPath(here, there string) string {
	a, b := pathDirs(here), pathDirs(there)
	if slices.Equal(a, b) {
		return ""
	}
	lacking := slices.DeleteFunc(slices.Clone(a), func(dir string) bool { return slices.Contains(b, dir) })
	if len(lacking) > 0 {
		return "it lacks " + strings.Join(lacking, ", ")
	}
	return there
}

// pathDirs are the directories of a PATH in which a command can be found first.
func pathDirs(path string) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		if dir = filepath.Clean(dir); filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
