package workspace

import (
	"path"
	"strings"

	"agentkernel/internal/lazy"
)

// quoted are the texts of a TOML file on one line, in which it names files.
var quoted = lazy.Regexp(`"([^"\n]+)"|'([^'\n]+)'`)

// filesNamed are the texts of settings that may be names of files.
func filesNamed(settings []byte) (names []string) {
	for _, m := range quoted().FindAllSubmatch(settings, -1) {
		names = append(names, string(m[1])+string(m[2]))
	}
	return names
}

// isSettings says whether a file of this path is one of settings that may hold keys, or a copy of one.
func isSettings(p string) bool {
	of := copied(p)
	return mayHoldKeys().find(of, true) != "" || of != p && mayHoldKeys().find(undotted(of), true) != ""
}

// addressed is an address with a credential.
var addressed = lazy.Regexp(userInAddress)

const userInAddress = `://[^\s/@:"]*:[^\s/@"]+@|://[^\s/@:"]{20,}@`

// credential is what a config of git has where it holds a key: in an address, as a setting, in a header, or as a text that
// is one wherever it stands (those of scrub's shapes that say so by their first letters).
var credential = lazy.Regexp(`(?i)` + userInAddress + `|extraheader\s*=\s*\S|(pass|passwd|password|token|secret|(api|access|auth)[_-]?key|authorization|cookie)["']?\s*[=:]\s*\S|` +
	`\bx-[a-z0-9-]*(key|auth|session)["']?\s*:\s*\S|\bsshpass(\s+-\S+)*\s+-[a-z]*p\s*\S|\b(plink|pscp)(\.exe)?\s[^\n]*-pw\s+\S|\bcurl\s([^\n]*\s)?(-u|--user)[\s=]*["']?[^\s:"'$]+:[^\s"'$]|` +
	`--(password|passwd|token|api-key)\s+["']?[^\s"'$-]|` +
	`\bBUNDLE_\w+__\w+:\s*["']?[^\s:"']+:[^\s"']|/t/[a-z]{2}-[0-9a-f-]{20,}|` + // Bundler, conda
	`\b(bearer|basic)\s+[a-z0-9._~+/=-]{16,}|-----BEGIN [A-Z0-9 ]*PRIVATE KEY|` +
	`\b(gh[pousr]|github_pat|glpat|gldt|xox[abeoprs]|dop_v1|shpat)[-_][a-z0-9_-]{16,}|\b(sk|rk|npm|hf|pypi)[-_]([a-z]+[0-9]*[-_])*[a-z0-9]{20,}|\b(AKIA|ASIA)[0-9A-Z]{12,}|\beyJ[a-z0-9_-]{8,}\.[a-z0-9_-]{8,}`)

// unfolded is a config with the lines joined that git reads as one, and without the quotes and backslashes of values, which
// may stand anywhere in a word.
var unfolded = strings.NewReplacer("\\\r\n", "", "\\\n", "", `\`, "", `"`, "")

// isGitLog says whether git notes in a file of this path what it was told: commands with their addresses.
func isGitLog(p string) bool {
	p = "/" + fold(p)
	return strings.HasSuffix(p, "/fetch_head") || strings.HasSuffix(p, "/logs/head") || strings.Contains(p, "/logs/refs/")
}

// coreName says whether Linux gives what was in a program's memory a name like this path's, core or core.1234.
func coreName(p string) bool {
	rest, ok := strings.CutPrefix(path.Base(p), "core")
	return ok && strings.Trim(rest, ".0123456789") == ""
}

// startsCore says whether a file that begins so is what Linux wrote of a program's memory.
func startsCore(head []byte) bool {
	return len(head) >= 18 && string(head[:4]) == "\x7fELF" && head[16]|head[17] == 4 // ET_CORE, in either order of bytes
}

func holdsCredential(text []byte) bool {
	return credential().Match(text) || credential().MatchString(unfolded.Replace(string(text)))
}

// isGitConfig says whether git takes settings from a file of this name: that of a repository (a bare one is called name.git), the user's own,
// and what a repository says of its modules and large files.
func isGitConfig(p string) bool {
	p = fold(p)
	of := copied(p)
	return gitReads(of) || of != p && gitReads(undotted(of))
}

func gitReads(p string) bool {
	switch path.Base(p) {
	case ".gitconfig", ".gitmodules", ".lfsconfig":
		return true
	case "config":
		return strings.Contains(p, ".git/") || strings.HasSuffix("/"+p, "/.config/git/config")
	case "config.worktree":
		return strings.Contains(p, ".git/")
	}
	return false
}
