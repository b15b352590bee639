package main

import (
	"cmp"
	"context"
	"slices"

	"agentkernel"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/llm/models"
	"agentkernel/userland/agent"
)

// This file makes the programs that do tasks: of agentkernel do and chat, of agentkernel mcp, and of callers of the API.

// addTask puts the program that does a task, or with talks a conversation, into the Spec of this command: with the skills that it is told of
// and the rules of its folder. All that it asks a kernel it asks the one in which the task then runs.
func (a *app) addTask(spec *agentkernel.Spec, task agent.Task, talks bool, tools *listedTools) error {
	k, err := a.hold()
	if err != nil {
		return err
	}
	if err := a.kernelHas(k, spec, task.Model); err != nil {
		return err
	}
	if task.Skills, err = agent.SkillsFor(a.ctx, k, spec.Namespace, task.Text); err != nil {
		return err
	}
	if task.Rules, err = a.rulesOf(spec); err != nil {
		return err
	}
	name := spec.Program.Name
	if spec.Program, err = a.taskProgram(spec, task, talks, tools.pythonServers); err != nil {
		return err
	}
	spec.Program.Name = cmp.Or(name, spec.Program.Name)
	return nil
}

// kernelHas refuses a task whose model the settings declare, and the kernel that runs does not have, since it was started before. alias "" is the
// first one. Of one that the settings do not declare the kernel says what there is.
func (a *app) kernelHas(k *session, spec *agentkernel.Spec, alias string) error {
	declared, _, err := a.loadModels()
	if err != nil || k.inProcess || len(spec.Models) > 0 || len(declared) == 0 {
		return err
	}
	if alias = cmp.Or(alias, declared[0].Alias); !slices.ContainsFunc(declared, func(m models.Model) bool { return m.Alias == alias }) {
		return nil
	}
	if s := a.keyStates(); s.lacks(alias) {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "do", "the kernel that runs (%s) does not have the model %s: it was started with other models", kernelText(s.info), alias).
			WithHint("%s", restart(s.info, "settings"))
	}
	return nil
}

// taskProgram is the program of a task, or with talks of a conversation, in a process like spec, which a model does; this is the one place where
// it is made. servers gives the names under which programs import the tool servers of files; it is asked only where they have to be known:
// where the programs of the model run in the process of the task.
func (a *app) taskProgram(spec *agentkernel.Spec, task agent.Task, talks bool, servers func(files []string) ([]string, error)) (program agentkernel.Program, err error) {
	task.Local = a.localTools(spec.Program.Modules)
	task.Folder = spec.HasFiles()
	if files := spec.ToolFiles(); (task.Folder || talks) && len(files) > 0 {
		if task.Servers, err = servers(files); err != nil {
			return program, err
		}
	}
	if talks {
		program, err = agent.Chat(task)
	} else {
		program, err = agent.Program(task)
	}
	program.Modules = spec.Program.Modules // its programs import them
	return program, err
}

// listedTools are the tools of a command's files, for which their servers are asked once.
type listedTools struct {
	a    *app
	list *toolList
}

// of are the tools of files, which are the same each time.
func (l *listedTools) of(files []string) (*toolList, error) {
	if l.list == nil {
		var list toolList
		if err := (&toolsListCmd{}).ask(l.a, files, &list); err != nil {
			return nil, err
		}
		l.list = &list
	}
	return l.list, nil
}

// pythonServers are the servers as programs import them. One that does not start is an error: programs of the task's process import all.
func (l *listedTools) pythonServers(files []string) ([]string, error) {
	list, err := l.of(files)
	if err != nil {
		return nil, err
	}
	for _, s := range list.Servers {
		if s.Problem != "" {
			return nil, l.a.ofRunningKernel(agentkernel.Errorf(agentkernel.CodeUnavailable, "do", "%s", s.Problem))
		}
	}
	return list.pythonServers(), nil
}

// pythonServersOf are the same, as a kernel says that somebody else talks to.
func pythonServersOf(ctx context.Context, k agentkernel.Kernel) func(files []string) ([]string, error) {
	return func(files []string) ([]string, error) {
		var list toolList
		if err := list.ask(ctx, k, files); err != nil {
			return nil, err
		}
		return list.pythonServers(), nil
	}
}

// agentFor gives what makes the program of a task for processes like one, as a model does it; nil: no model is declared.
func (a *app) agentFor(spec *agentkernel.Spec) (func(ctx context.Context, k agentkernel.Kernel, namespace, text string) (agentkernel.Program, error), error) {
	declared, _, err := a.loadModels()
	if err != nil || len(declared) == 0 {
		return nil, err
	}
	return func(ctx context.Context, k agentkernel.Kernel, namespace, text string) (agentkernel.Program, error) {
		skills, err := agent.SkillsFor(ctx, k, namespace, text)
		if err != nil {
			return agentkernel.Program{}, err
		}
		return a.taskProgram(spec, agent.Task{Text: text, Skills: skills}, false, pythonServersOf(ctx, k))
	}, nil
}

// tasksOf makes the programs of tasks for callers of the API, with the models of the settings with which the kernel was opened.
func (a *app) tasksOf() func(context.Context, agentkernel.Kernel, *wire.TaskRequest) (wire.TaskProgram, error) {
	settings, err := a.settings()
	declared := err == nil && len(settings.Models) > 0
	return func(ctx context.Context, k agentkernel.Kernel, asked *wire.TaskRequest) (wire.TaskProgram, error) {
		if !declared && len(asked.Spec.Models) == 0 {
			return wire.TaskProgram{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "task", "no model is configured").WithHint("%s", a.declareModel())
		}
		task := agent.Task{Text: asked.Task, Model: asked.Model, Schema: asked.Schema, Steps: asked.Steps, Checked: asked.Checked, Agents: asked.Agents}
		skills, err := agent.SkillsFor(ctx, k, asked.Spec.Namespace, asked.Task)
		if err != nil {
			return wire.TaskProgram{}, err
		}
		task.Skills = skills
		program, err := a.taskProgram(&asked.Spec, task, false, pythonServersOf(ctx, k))
		return wire.TaskProgram{Program: program, Turns: agent.Turns}, err
	}
}
