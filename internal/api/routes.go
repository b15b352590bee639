package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/clip"
	"agentkernel/internal/nearest"
)

// route is one endpoint. query names the parameters that it knows; any other is refused.
type route struct {
	method, path string
	query        []string
	handle       func(s *Server, w http.ResponseWriter, r *http.Request, q query) error
}

// routes is the one table of endpoints, in the order of docs/api.md.
func routes() []route {
	return []route{
		{"GET", "/version", nil, (*Server).getVersion},
		{"GET", "/info", nil, (*Server).getInfo},
		{"POST", "/processes", []string{"follow"}, (*Server).postProcess},
		{"GET", "/processes", []string{"namespace", "unfinished", "active", "parent", "key", "before", "limit"}, (*Server).listProcesses},
		{"GET", "/processes/count", []string{"namespace", "unfinished", "active", "parent", "key", "before"}, (*Server).countProcesses},
		{"POST", "/processes/many", nil, (*Server).postMany},
		{"GET", "/processes/{pid}", nil, (*Server).getProcess},
		{"GET", "/processes/{pid}/wait", []string{"timeout"}, (*Server).waitProcess},
		{"GET", "/processes/{pid}/events", []string{"from", "follow"}, (*Server).getEvents},
		{"GET", "/processes/{pid}/journal", []string{"from", "limit"}, (*Server).getJournal},
		{"GET", "/processes/{pid}/spec", nil, (*Server).getSpec},
		{"GET", "/processes/{pid}/state", nil, (*Server).getState},
		{"GET", "/processes/{pid}/budget", nil, (*Server).getBudget},
		{"POST", "/processes/{pid}/budget", nil, (*Server).postBudget},
		{"GET", "/allowances", []string{"namespace"}, (*Server).getAllowances},
		{"GET", "/models/usage", []string{"by", "namespace", "tree", "since", "until"}, (*Server).getModelUsage},
		{"GET", "/models/limits", nil, (*Server).getModelLimits},
		{"POST", "/models/key", nil, (*Server).postModelKey},
		{"POST", "/tasks/program", nil, (*Server).postTaskProgram},
		{"POST", "/processes/{pid}/signal", nil, (*Server).postSignal},
		{"POST", "/processes/{pid}/answers", nil, (*Server).postAnswer},
		{"GET", "/processes/{pid}/export", []string{"unredacted", "files"}, (*Server).getExport},
		{"POST", "/import", []string{"namespace"}, (*Server).postImport},
		{"POST", "/replay", []string{"time", "memory", "environment"}, (*Server).postReplay},
		{"POST", "/processes/{pid}/resolutions", nil, (*Server).postResolution},
		{"POST", "/processes/{pid}/pieces", nil, (*Server).postCell},
		{"POST", "/processes/{pid}/end", nil, (*Server).postEnd},
		{"GET", "/processes/{pid}/host", []string{"epoch", "takeover"}, (*Server).getHost},
		{"GET", "/processes/{pid}/changes", nil, (*Server).getChanges},
		{"POST", "/processes/{pid}/apply", nil, (*Server).postApply},
		{"POST", "/processes/{pid}/discard", nil, (*Server).postDiscard},
		{"GET", "/processes/{pid}/file", []string{"path", "volume", "before"}, (*Server).getFile},
		{"POST", "/recover", nil, (*Server).postRecover},
		{"POST", "/halt", nil, (*Server).postHalt},
		{"POST", "/thaw", nil, (*Server).postThaw},
		{"POST", "/prune", nil, (*Server).postPrune},
		{"GET", "/storage", nil, (*Server).getStorage},
		{"GET", "/tools/servers", []string{"files"}, (*Server).getServers},
		{"GET", "/tools", []string{"files", "server"}, (*Server).getTools},
		{"GET", "/tools/search", []string{"files", "text", "server", "limit"}, (*Server).searchTools},
		{"POST", "/tools/search", nil, (*Server).searchToolsWith},
		{"POST", "/tools/accept", nil, (*Server).acceptTools},
		{"POST", "/skills", nil, (*Server).postSkill},
		{"GET", "/skills", []string{"namespace", "text", "limit"}, (*Server).listSkills},
		{"GET", "/skill", []string{"namespace", "name", "version"}, (*Server).getSkill},
		{"POST", "/skills/delete", nil, (*Server).deleteSkill},
		{"POST", "/states", nil, (*Server).postDocument},
		{"GET", "/state", []string{"namespace", "owner", "name"}, (*Server).getDocument},
		{"GET", "/backup", nil, (*Server).getBackup},
		{"POST", "/shutdown", nil, (*Server).postShutdown},
	}
}

func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	table := routes()
	for _, rt := range table {
		mux.HandleFunc(rt.method+" "+wire.Prefix+rt.path, func(w http.ResponseWriter, r *http.Request) {
			err := s.safely(r, func() error {
				q, err := parseQuery(r.URL.RawQuery, rt.query)
				if err != nil {
					return err
				}
				return rt.handle(s, w, r, q)
			})
			if err != nil {
				s.fail(w, r, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, notRouted(mux, table, w, r)) })
	return mux
}

// notRouted says whether the path or the method was wrong.
func notRouted(mux *http.ServeMux, table []route, w http.ResponseWriter, r *http.Request) error {
	var methods []string
	for _, m := range []string{"GET", "POST"} {
		other := &http.Request{Method: m, URL: &url.URL{Path: r.URL.Path}, Host: r.Host}
		if _, pattern := mux.Handler(other); pattern != "/" && pattern != "" {
			methods = append(methods, m)
		}
	}
	if len(methods) > 0 && !slices.Contains(methods, r.Method) {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return agentkernel.Errorf(agentkernel.CodeInvalid, r.URL.Path, "%s is not possible here, %s is", clip.Short(r.Method), strings.Join(methods, " or "))
	}
	known := make([]string, 0, len(table))
	for _, rt := range table {
		known = append(known, wire.Prefix+rt.path)
	}
	return agentkernel.Errorf(agentkernel.CodeNotFound, "api", "there is nothing at %q", clip.Short(r.URL.Path)).
		WithHint("docs/api.md lists all%s", nearestPath(r.URL.Path, known))
}

// nearestPath names a path that may have been meant; "": none is near. The beginning that all have in common says nothing.
func nearestPath(path string, known []string) string {
	rest, below := strings.CutPrefix(path, wire.Prefix+"/")
	if rest = strings.Trim(rest, "/"); !below || rest == "" {
		return ": all begin with " + wire.Prefix + "/"
	}
	paths := make([]string, 0, len(known))
	for _, k := range known {
		paths = append(paths, strings.TrimPrefix(k, wire.Prefix+"/"))
	}
	if near := nearest.One(rest, paths); near != "" {
		return "; nearest: " + wire.Prefix + "/" + near
	}
	for i := len(rest); i >= 3; i-- { // "procs" begins as "processes" does
		for _, p := range paths {
			if strings.HasPrefix(p, rest[:i]) {
				return "; nearest: " + wire.Prefix + "/" + p
			}
		}
	}
	return ""
}
