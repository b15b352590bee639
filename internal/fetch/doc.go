// Package fetch makes the HTTP requests of programs: agentkernel.Fetcher over net/http.
//
// The caller is hostile, and so is every server. A request goes to a host only if a pattern of its process allows
// it; the address is checked after the name was resolved, and the checked address is the one that is dialled; each
// redirect is a new request to these rules. Secrets are filled in here, for hosts that their entry names, and taken
// out of all that comes back.
//
// It must never reach an address that is not public, unless the user named that very address and port; never read
// the environment for a proxy; never keep cookies; never put a secret into an error or a log.
package fetch
