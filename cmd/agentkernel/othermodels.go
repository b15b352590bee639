package main

import (
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/userland/agent"
)

// otherModels are the models of which the running kernel has another declaration than the files here, or none. A declaration may hold
// what is no one else's business, so the names alone are said.
func (a *app) otherModels(info *agentkernel.KernelInfo) (names []string) {
	there := strings.Split(info.Settings["models"], ", ")
	for _, declared := range a.cfg.Models {
		if alias, _, _ := strings.Cut(declared, " "); !slices.Contains(there, declared) && !slices.Contains(names, alias) {
			names = append(names, alias)
		}
	}
	return names
}

// mentionModels says that a program will not get the models that the files declare, before it waits for others. spec: the program; nil: any.
func (a *app) mentionModels(spec *agentkernel.Spec) {
	if a.cli.JSON || a.cli.quiet() || len(a.cfg.Models) == 0 {
		return
	}
	if spec != nil {
		if p := &spec.Program; !agent.Does(p) && !agent.Talks(p) && !strings.Contains(p.Source, "llm") {
			return
		}
	}
	info := a.running()
	if info == nil {
		return
	}
	names := a.otherModels(info)
	if spec != nil {
		names = slices.DeleteFunc(names, func(name string) bool {
			return slices.ContainsFunc(spec.Models, func(own string) bool { return own == name || strings.HasPrefix(own, name+" ") })
		})
	}
	if len(names) == 0 {
		return
	}
	a.con.Say("warning: the running kernel (%s) has another declaration than the settings here, or none, of %s", kernelText(info), strings.Join(names, ", "))
	a.con.Hint(restart(info, "settings"))
}
