package main

import (
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/lazy"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/nearest"
)

// It is the kernel that sends keys, and one in the background has the environment of the terminal that started it. So what is said of a key is
// said of the kernel that runs; without one, of this terminal, with whose environment the next one starts.

// keyStates are what the kernel that runs says of models; nil: none does.
type keyStates struct {
	info *agentkernel.KernelInfo
	same bool // its models are those of this command's settings, as far as it says
	of   map[string]agentkernel.ModelDeployment
}

// keyStates asks the kernel that runs.
func (a *app) keyStates() *keyStates {
	k := a.shared()
	if k == nil {
		return nil
	}
	defer k.Close()
	info, err := k.Info(a.ctx)
	if err != nil {
		return nil
	}
	s := &keyStates{info: &info, same: info.Settings == nil || info.Settings["models"] == a.cfg.Kernel()["models"], of: map[string]agentkernel.ModelDeployment{}}
	l, err := k.ModelLimits(a.ctx)
	if err != nil {
		return s
	}
	for i := range l.Deployments {
		if d := &l.Deployments[i]; d.Tree == 0 { // others are no matter of the settings
			s.of[d.Name] = *d
		}
	}
	return s
}

// missing says why the key of a deployment is not there, and what is to be done about it; "": it is.
func (a *app) missing(s *keyStates, key models.Key, deployment string) (why, fix string) {
	if key.Given() {
		if why = s.missingGiven(deployment); why != "" {
			fix = "give it, or declare the model with another key="
		}
		return why, fix
	}
	if s.lacks(deployment) {
		return fmt.Sprintf("the kernel that runs (%s) does not have it: it was started with other models", kernelText(s.info)), restart(s.info, "settings")
	}
	_, err := key.Read(a.ctx, a.lookupEnv)
	name, inVariable := key.Variable()
	if d, known := s.deployment(deployment); known && inVariable {
		switch {
		case d.Missing == "":
			return "", ""
		case err == nil:
			return fmt.Sprintf("%s is set here, and not in the kernel that runs (%s)", name, kernelText(s.info)), restart(s.info, "environment")
		}
		return fmt.Sprintf("%s is set neither here nor in the kernel that runs (%s)", name, kernelText(s.info)),
			fmt.Sprintf("export %s=...; %s; or declare the model with another key=", name, restart(s.info, "environment"))
	}
	switch {
	case err == nil:
		return "", ""
	case inVariable:
		return strings.ReplaceAll(err.Error(), " in the environment "+agentkernel.OfRunningKernel, ""), fmt.Sprintf("export %s=..., or declare the model with another key=", name)
	}
	return err.Error(), "mend that, or declare the model with another key="
}

// deployment is what the kernel says of a deployment of this command's settings; false: there is no kernel, or it has other models.
func (s *keyStates) deployment(name string) (agentkernel.ModelDeployment, bool) {
	if s == nil || !s.same {
		return agentkernel.ModelDeployment{}, false
	}
	d, known := s.of[name]
	return d, known
}

// lacks says that a kernel runs that does not have a deployment, since it has the settings with which it was started.
func (s *keyStates) lacks(deployment string) bool {
	if s == nil || s.same {
		return false
	}
	_, known := s.of[deployment]
	return !known
}

// missingGiven says why a key that somebody gives is not there; "": it is.
func (s *keyStates) missingGiven(deployment string) string {
	if s == nil {
		return fmt.Sprintf("its key is given to a kernel that runs, and none does: agentkernel llm key %s", deployment)
	}
	d, known := s.of[deployment]
	switch {
	case !known || !d.Given:
		return "its key is given, and the kernel that runs does not know it: it has other settings (agentkernel shutdown ends it)"
	case d.State == agentkernel.ModelKeyless:
		return fmt.Sprintf("the kernel that runs waits for its key: agentkernel llm key %s", deployment)
	}
	return ""
}

// otherKeys says which variables with keys of models have another value in the running kernel than here. No value is said, or sent anywhere.
func (a *app) otherKeys(info *agentkernel.KernelInfo) (differ []string) {
	there := kernelEnvironment(info)
	declared, _, err := a.loadModels()
	if there == nil || err != nil {
		return nil
	}
	said := map[string]bool{}
	for _, m := range declared {
		name, inVariable := m.Key.Variable()
		if inVariable && !said[name] && a.otherKey(there, name) {
			differ = append(differ, fmt.Sprintf("%s, the key of %s, has another value there", name, m.Alias))
			said[name] = true
		}
	}
	return differ
}

// otherKey says whether a variable is set in both environments, and has another value in the kernel's.
func (a *app) otherKey(there *host, name string) bool {
	mine, its := strings.TrimSpace(a.getenv(name)), strings.TrimSpace(there.getenv(name))
	return mine != "" && its != "" && mine != its
}

// exportOf finds the variable that a hint of the kernel wants to be set.
var exportOf = lazy.Regexp("`export (\\w+)=\\.\\.\\.`")

// keyAdvice is a hint about a key as it holds for this terminal and the kernel that runs; what the kernel alone can say is neither which
// environment this terminal has nor whether it is the same.
func (a *app) keyAdvice(hint string) string {
	m := exportOf().FindStringSubmatch(hint)
	if m == nil {
		return hint
	}
	name := m[1]
	info := a.running()
	if info == nil { // the kernel was this command's own
		return fmt.Sprintf("export %s=... with the right key, and then once more", name)
	}
	if there := kernelEnvironment(info); there != nil {
		if strings.TrimSpace(a.getenv(name)) != "" && strings.TrimSpace(there.getenv(name)) == "" {
			return fmt.Sprintf("%s is set here, and not in the kernel that runs (%s): %s", name, kernelText(info), restart(info, "environment"))
		}
		if a.otherKey(there, name) {
			return fmt.Sprintf("%s has another value here than in the kernel that runs (%s): %s", name, kernelText(info), restart(info, "environment"))
		}
	}
	return fmt.Sprintf("export %s=... with the right key; %s", name, restart(info, "environment"))
}

// knownModel refuses --model with an alias that nothing declares: not the settings, nor the process, nor the kernel that runs.
func (a *app) knownModel(alias string, declared []models.Model, brought []string) error {
	var known []string
	for _, m := range declared {
		known = append(known, m.Alias)
	}
	for _, line := range brought {
		if f := strings.Fields(line); len(f) > 0 {
			known = append(known, f[0])
		}
	}
	if alias == "" || slices.Contains(known, alias) {
		return nil
	}
	if states := a.keyStates(); states != nil {
		for name := range states.of {
			if first, _, _ := strings.Cut(name, "#"); first == alias {
				return nil
			}
		}
	}
	e := agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--model: there is no model %q", alias)
	if q := nearest.Question(alias, known); q != "" {
		return e.WithHint("%s", q)
	}
	return e.WithHint("declared are %s: agentkernel llm list", strings.Join(slices.Compact(known), ", "))
}
