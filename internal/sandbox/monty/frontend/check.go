package frontend

import (
	"slices"
	"strings"

	"agentkernel"
)

// Check refuses, before anything ran, a program that the engine cannot run, and says what the program
// needs. Errors: CodeSyntax with line and caret, CodeUnsupported that names the line, the thing and the
// backend that has it, CodeNotFound for names that the kernel does not have, CodeInvalid for modules
// that cannot be put together.
//
// It errs on the side of accepting: what it cannot judge is left to the engine.
func Check(p agentkernel.Program) (agentkernel.Needs, error) {
	defer alone(sizeOf(&p))()
	a, err := analyze(p)
	if err != nil {
		return agentkernel.Needs{}, err
	}
	return a.check()
}

func (a *analysis) check() (agentkernel.Needs, error) {
	needs := agentkernel.Needs{Plain: a.plain()}
	// The program's own problems come first: its author reads them.
	for i := len(a.files) - 1; i >= 0; i-- {
		f := a.files[i]
		for _, imp := range f.imports {
			a.checkImport(f, imp, &needs)
		}
		a.checkUses(f, &needs)
		a.checkSyntax(f)
		a.checkNames(f)
		f.differences(&needs)
	}
	return needs, a.err()
}

// checkImport judges one import statement.
func (a *analysis) checkImport(f *file, imp importStmt, needs *agentkernel.Needs) {
	if f.neverRuns(imp.stmt) {
		return
	}
	switch root, rest, dotted := strings.Cut(imp.module, "."); root {
	case "kernel":
		a.checkKernelImport(f, imp)
	case "tools":
		a.checkToolImport(f, imp, rest, dotted, needs)
	case "skills":
		a.checkSkillImport(f, imp, rest, dotted, needs)
	case "":
		a.refuse(f.source, imp.tok, "relative imports are not available: a program is one file, and its modules are tools.* and skills.*")
	default:
		if !f.guarded(imp.stmt) {
			a.checkModuleImport(f, imp)
		}
	}
}

func (a *analysis) checkKernelImport(f *file, imp importStmt) {
	if imp.star {
		a.refuse(f.source, imp.tok, "\"from %s import *\" is not available: import the names that you use", imp.module)
		return
	}
	if imp.module != "kernel" && imp.module != "kernel.aio" {
		a.report(f.source, imp.tok, agentkernel.CodeNotFound, "write: from kernel import "+strings.TrimPrefix(imp.module, "kernel."),
			"there is no module %q", imp.module)
		return
	}
	for _, n := range imp.names {
		a.checkKernelName(f, imp.module, n.name, n.tok)
	}
}

// checkKernelName judges a name of kernel, kernel.aio or one of their objects.
func (a *analysis) checkKernelName(f *file, module, name string, tok int32) {
	rest := strings.TrimPrefix(strings.TrimPrefix(module+".", "kernel."), "aio.")
	full := rest + name
	if kernelFunction(full) || isFamily(full) {
		return
	}
	if module == "kernel" && (agentkernel.GuestBase(name) != "" || name == "aio") {
		return
	}
	a.report(f.source, tok, agentkernel.CodeNotFound, a.suggest(name, func() []string { return kernelNames(strings.TrimSuffix(rest, ".")) }),
		"%s has no %q", module, name)
}

func (a *analysis) checkToolImport(f *file, imp importStmt, rest string, dotted bool, needs *agentkernel.Needs) {
	server, deeper, _ := strings.Cut(rest, ".")
	_, local := a.program.Modules[imp.module]
	switch {
	case imp.star:
		a.refuse(f.source, imp.tok, "\"from %s import *\" is not available: import the tools that you use", imp.module)
	case !dotted && imp.from: // from tools import fs
		for _, n := range imp.names {
			a.needServer(f, n.name, n.tok, needs)
		}
	case !dotted:
	case local:
		a.checkMembers(f, imp)
	case deeper != "" && deeper != "aio":
		hint := "write: from tools." + server + " import " + firstPart(deeper)
		if near := a.localNear(server, firstPart(deeper)); near != "" {
			hint = near
		}
		a.report(f.source, imp.tok, agentkernel.CodeNotFound, hint, "there is no module %q", imp.module)
	case imp.from:
		for _, n := range imp.names {
			if n.name == "aio" && deeper == "" {
				continue // its uses are looked at
			}
			a.needTool(f, server, n.name, n.tok, needs)
		}
	default:
		a.needServer(f, server, imp.tok, needs)
	}
}

// localNear names the local tools that a module of tools which is not there may mean; "": none. Where the word is right the
// server is misspelt.
func (a *analysis) localNear(server, name string) string {
	var servers, names []string
	for _, key := range a.under("tools") {
		s, n, _ := strings.Cut(strings.TrimPrefix(key, "tools."), ".")
		servers = append(servers, s)
		if s == server {
			names = append(names, n)
		}
	}
	if len(names) > 0 {
		return a.suggest(name, func() []string { return names })
	}
	return a.suggest(server, func() []string { return slices.Compact(servers) })
}

// needServer notes that the whole server is wanted if the program does not say which of its tools.
func (a *analysis) needServer(f *file, server string, tok int32, needs *agentkernel.Needs) {
	if len(a.under("tools."+server)) > 0 {
		return
	}
	escapes := f.escapes["tools."+server] || f.escapes["tools."+server+".aio"] || f.escapes["tools"]
	used := f.usesOf("tools."+server, false) || f.usesOf("tools."+server+".aio", false)
	if escapes || !used {
		a.addTool(f, tok, server, "*", needs)
	}
}

// needTool notes one tool, unless it is a local one, whose module must define it.
func (a *analysis) needTool(f *file, server, name string, tok int32, needs *agentkernel.Needs) {
	key := "tools." + server + "." + name
	module := a.byKey[key]
	if module == nil {
		a.addTool(f, tok, server, name, needs)
		return
	}
	if !module.defines(name) {
		a.report(f.source, tok, agentkernel.CodeInvalid, "the function of a local tool has the name of its file",
			"%s does not define %s", module.file, name)
	}
}

func (a *analysis) addTool(f *file, tok int32, server, name string, needs *agentkernel.Needs) {
	if a.want(f, tok, "tools."+server+"."+name) {
		needs.Tools = append(needs.Tools, agentkernel.ToolRef{Server: server, Name: name, Line: f.line(tok)})
	}
}

// want notes that the program needs a tool or skill; false if that is known already, or there are too many.
func (a *analysis) want(f *file, tok int32, name string) bool {
	switch {
	case a.wanted[name]:
		return false
	case a.wanted == nil:
		a.wanted = map[string]bool{}
	case len(a.wanted) == maxWanted:
		a.report(f.source, tok, agentkernel.CodeInvalid, "import what you use", "the program imports more than %d tools and skills", maxWanted)
	}
	a.wanted[name] = true
	return len(a.wanted) <= maxWanted
}

func (a *analysis) checkSkillImport(f *file, imp importStmt, rest string, dotted bool, needs *agentkernel.Needs) {
	want := func(name string) {
		if _, ok := a.program.Modules["skills."+name]; !ok && a.want(f, imp.tok, "skills."+name) {
			needs.Skills = append(needs.Skills, name)
		}
	}
	switch {
	case imp.star:
		a.refuse(f.source, imp.tok, "\"from %s import *\" is not available: import the names that you use", imp.module)
	case dotted:
		want(rest)
		a.checkMembers(f, imp)
	case imp.from:
		for _, n := range imp.names {
			want(n.name)
		}
	}
}

// checkMembers reports names that a module of the program does not define.
func (a *analysis) checkMembers(f *file, imp importStmt) {
	m := a.byKey[imp.module]
	if m == nil || !imp.from {
		return
	}
	for _, n := range imp.names {
		if !m.defines(n.name) {
			a.report(f.source, n.tok, agentkernel.CodeNotFound, a.suggest(n.name, func() []string { return m.topNames() }),
				"%s does not define %s", m.file, n.name)
		}
	}
}

func (a *analysis) checkModuleImport(f *file, imp importStmt) {
	if !knownModule(imp.module) {
		// "import os.path" names a part that is known; so does "from os import path" below
		a.unknownModule(f, imp)
		return
	}
	for _, n := range imp.names {
		if !hasName(imp.module, n.name) {
			a.unknownMember(f, imp.module, n.name, n.tok)
		}
	}
}

func (a *analysis) unknownModule(f *file, imp importStmt) {
	root := firstPart(imp.module)
	where := elsewhere
	hint, advised := advice[root]
	if !isStdlib(root) {
		where = perhapsElsewhere
		if !advised {
			hint = a.suggest(imp.module, func() []string { return importable() })
		}
	}
	a.report(f.source, imp.tok, agentkernel.CodeUnsupported, hint, "module '%s' is not available on the monty backend; %s", imp.module, where)
}

func (a *analysis) unknownMember(f *file, module, name string, tok int32) {
	a.report(f.source, tok, agentkernel.CodeUnsupported, a.suggest(name, func() []string { return moduleNames(module) }),
		"'%s' of module '%s' is not available on the monty backend; %s", name, module, elsewhere)
}

// checkUses judges every "module.name" of a file.
func (a *analysis) checkUses(f *file, needs *agentkernel.Needs) {
	for _, u := range f.uses {
		root, rest, _ := strings.Cut(u.module, ".")
		switch root {
		case "kernel":
			a.checkKernelName(f, u.module, u.name, u.tok)
		case "tools":
			if server := strings.TrimSuffix(rest, ".aio"); server != "" {
				a.needTool(f, server, u.name, u.tok, needs)
			}
		case "skills":
			if m := a.byKey[u.module]; m != nil && !m.defines(u.name) {
				a.report(f.source, u.tok, agentkernel.CodeNotFound, a.suggest(u.name, func() []string { return m.topNames() }),
					"%s does not define %s", m.file, u.name)
			}
		default:
			if knownModule(u.module) && !hasName(u.module, u.name) && !strings.HasPrefix(u.name, "__") {
				a.unknownMember(f, u.module, u.name, u.tok)
			}
		}
	}
}

// topNames lists what a module defines, for suggestions.
func (s *source) topNames() []string {
	var out []string
	for n := range s.assigned {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
