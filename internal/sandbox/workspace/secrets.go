package workspace

import (
	"path"
	"strings"

	"agentkernel/internal/lazy"
)

// secret are the files in which keys and passwords usually lie. In a folder that a program is shown without having been
// asked for it they are hidden, by name. docs/workspace.md has the same list; a test compares them.
var secret = newTable(secretGroups)

var secretGroups = []group{
	{"environments", []string{".env", ".env.*", "*.env", ".envrc", ".dev.vars", ".flaskenv", ".env~", ".env.d/", ".env_*", ".env-*", ".envs/", "env.production", "env.prod", "env.staging", "env.local", ".envrc.*"}},
	{"keys", []string{"*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.keyring", "keystore.properties", "*.kdbx", "*.kdb", "*.ppk", "*.p8", "*.age", "*.ovpn", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*_rsa", "*_dsa", "*_ecdsa", "*_ed25519", "ssh_host_*_key", "deploy_key", "secring.gpg", ".password-store/", ".config/solana/id.json", ".ethereum/keystore/", "key.properties",
		".ssh/", ".gnupg/", "wallet.dat", ".vault-token", ".vault_pass*", ".vault-pass*"}},
	{"credentials", []string{"credentials", "credentials.*", "*credentials*.json", "client_secret*.json", "service-account*.json", "service_account*.json", "serviceaccount*.json", "*firebase-adminsdk*.json", "gcp-key.json", "gcloud-service-key.json", "oauth_creds.json", "secret.*", "secrets.*",
		"*.secret", "*.secrets", ".secrets/", ".netrc", "_netrc", ".netrc.gpg", ".authinfo", ".authinfo.gpg", ".git-credentials", ".htpasswd", ".pgpass", ".my.cnf", ".mylogin.cnf", ".s3cfg", ".pg_service.conf", ".smbcredentials", ".databrickscfg", ".dbt/profiles.yml", ".snowsql/config", ".boto", ".aws/", ".azure/", ".kube/", "kubeconfig*", "*.kubeconfig",
		".config/gcloud/", ".config/gh/", ".config/rclone/", "rclone.conf", ".rclone.conf", ".msmtprc", ".mbsyncrc", ".cdsapirc", ".credentials", ".credentials/", ".api_key", ".api_key.*", "api_key", "api_key.*", ".kaggle/", "kaggle.json", ".docker/config.json", ".dockercfg", ".dockerconfigjson", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", ".terraformrc", "token", "token.json", "tokens.json", "token.pickle", ".token", "*.token", "auth.json",
		"local.settings.json", ".vscode/sftp.json", "storagestate.json", "playwright/.auth/"}},
	{"settings that hold tokens", []string{".npmrc", ".yarnrc*", ".pypirc", ".gem/", ".cargo/credentials*", "nuget.config", "settings-security.xml", ".m2/settings.xml", ".gradle/gradle.properties", ".sentryclirc", "*mcp*.json", ".claude.json",
		"claude_desktop_config.json", ".git-credentials"}},
	{"histories", []string{".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".node_repl_history", ".sqlite_history", ".rediscli_history", ".fish_history", ".irb_history", ".histfile"}},
}

// mayHoldKeys are files of settings that programs need, and in which keys lie seldom: they are hidden only with one.
var mayHoldKeys = newTable([]group{{"settings", []string{settingsFile, "pip.conf", "pip.ini", ".condarc", ".hg/hgrc", ".bundle/config"}}})

// settingsFile is the name of a project's settings.
const settingsFile = "agentkernel.toml"

// sources are how the names of files end that are written for people and compilers: a secrets.py is the module that reads
// them, and *.pub is the half of a key that others may have.
var sources = map[string]bool{".pub": true, ".md": true, ".rst": true, ".html": true, ".css": true, ".sql": true, ".proto": true, ".py": true, ".pyi": true, ".go": true, ".js": true, ".mjs": true,
	".cjs": true, ".jsx": true, ".ts": true, ".tsx": true, ".vue": true, ".svelte": true, ".rs": true, ".java": true, ".kt": true, ".scala": true, ".c": true, ".h": true, ".cc": true, ".cpp": true,
	".hpp": true, ".cs": true, ".rb": true, ".php": true, ".swift": true, ".dart": true, ".ex": true, ".exs": true, ".erl": true, ".hs": true, ".ml": true, ".lua": true, ".zig": true}

// copies are how names of files end that editors, tools and people write beside another.
var copies = []string{"~", ".bak", ".old", ".orig", ".save", ".lock"}

// managed is how file managers name a copy, before its ending or behind it: "X copy", "X copy 2", "X (copy)", "X (another copy)",
// "X (3rd copy)", "X (1)", "X - Copy", "X - Copy (2)".
var managed = lazy.Regexp(`^(.+?)(?: (?:- )?copy(?: \d+| \(\d+\))?| \((?:(?:another |\d+(?:st|nd|rd|th) )?copy(?: \d+)?|\d+)\))(\.[^. ]+)?$`)

// copied is the path of the file that one of this path is a copy of, by its name; p itself: of none.
func copied(p string) string {
	low := fold(p)
	dir, name := path.Split(low)
	if strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") && len(name) > 2 { // Emacs
		return dir + name[1:len(name)-1]
	}
	for _, end := range copies {
		if bare, ok := strings.CutSuffix(name, end); ok && bare != "" {
			return dir + bare
		}
	}
	if at := len(name) - len(".swp"); at > 0 && name[at:len(name)-1] == ".sw" && 'a' <= name[len(name)-1] && name[len(name)-1] <= 'p' {
		return dir + name[:at] // Vim, which goes on to .swo, .swn ... where there is one
	}
	if strings.Contains(name, " ") {
		if m := managed().FindStringSubmatch(name); m != nil {
			return dir + m[1] + m[2]
		}
	}
	return p
}

// undotted is a path without the dot that Vim puts before the name of a file whose text it keeps beside it; "": there is none.
func undotted(p string) string {
	dir, name := path.Split(p)
	if len(name) < 2 || name[0] != '.' {
		return ""
	}
	return dir + name[1:]
}

// Secret says whether keys or passwords usually lie in a file of this path.
func Secret(p string) bool { return hides(p, false) }

// hides says whether a file or directory is hidden where nobody asked for the folder to be shown.
func hides(p string, isDir bool) bool {
	if of := copied(p); !isDir && of != p && (hides(of, false) || hides(undotted(of), false)) {
		return true
	}
	if secret().find(p, !isDir) == "" || templates().find(p, true) != "" {
		return false
	}
	return isDir || !sources[path.Ext(fold(p))]
}
