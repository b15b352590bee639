package workspace

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"agentkernel"
)

// Git takes settings from its environment, too (git-config(1), "ENVIRONMENT"). What is looked at is that of the kernel, with
// the configs that the caller's names, and both what a variable names and what is read without it: the user's other shells
// may have it, or not.

// gitCommandVariables name commands, as settings do.
const gitCommandVariables = `GIT_EXTERNAL_DIFF GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_SSH_COMMAND GIT_SSH GIT_ASKPASS GIT_PROXY_COMMAND
	SSH_ASKPASS VISUAL EDITOR PAGER`

// nowhere is where git runs that is in no repository of the folder: of what a config names only absolute paths count.
const nowhere = "/dev/null"

// userConfigs reads the configs that count in every repository, as those of one with these directories.
func (g *gitNames) userConfigs(bases []string) error {
	for _, file := range g.everywhere {
		if err := g.config(file, bases, 0); err != nil {
			return err
		}
	}
	for name, file := range agentkernel.GitConfigs(os.Getenv) {
		file = absolute(bases[0], file)
		g.add(g.files, file, name)
		if err := g.config(file, bases, 0); err != nil {
			return err
		}
	}
	return g.environment(bases)
}

// gitConfigs are where git looks for those without being told.
func gitConfigs(user string) []string {
	list := []string{"/etc/gitconfig", path.Join(user, ".gitconfig"), path.Join(user, ".config/git/config")}
	if git, err := exec.LookPath("git"); err == nil { // one that was built for another prefix
		list = append(list, path.Join(path.Dir(git), "../etc/gitconfig"))
		if real, err := filepath.EvalSymlinks(git); err == nil {
			list = append(list, path.Join(path.Dir(real), "../etc/gitconfig"))
		}
	}
	return list
}

// environment notes what settings in the environment name.
func (g *gitNames) environment(bases []string) error {
	n, _ := strconv.Atoi(os.Getenv("GIT_CONFIG_COUNT")) // git refuses what is no number
	var list []gitSetting
	for i := range min(n, maxGitConfigs) {
		at := strconv.Itoa(i)
		list = append(list, settingOf(os.Getenv("GIT_CONFIG_KEY_"+at), os.Getenv("GIT_CONFIG_VALUE_"+at)))
	}
	for _, text := range unquoted(os.Getenv("GIT_CONFIG_PARAMETERS")) {
		key, value, _ := strings.Cut(text, "=")
		list = append(list, settingOf(key, value))
	}
	for name := range strings.FieldsSeq(gitCommandVariables) {
		g.command(os.Getenv(name), bases, name)
	}
	if dir := os.Getenv("GIT_TEMPLATE_DIR"); dir != "" {
		list = append(list, gitSetting{"init.templatedir", dir})
	}
	return g.settings(list, bases[0], bases, 0)
}

// settingOf is a setting of the key "section.subsection.key".
func settingOf(key, value string) gitSetting {
	section, _, _ := strings.Cut(key, ".")
	return gitSetting{strings.ToLower(section + key[max(0, strings.LastIndexByte(key, '.')):]), value}
}

// unquoted are the words of a text in single quotes, as git writes GIT_CONFIG_PARAMETERS: 'a.b=c' 'd.e'='f'. What stands
// behind a backslash outside of them is taken as it is.
func unquoted(text string) (words []string) {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			quoted = !quoted
		case c == '\\' && !quoted && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c == ' ' && !quoted:
			words = append(words, b.String())
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	return append(words, b.String())
}
