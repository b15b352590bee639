package catalog

import (
	"slices"

	"agentkernel"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/search"
)

// localTools are the local tools of a query, those of its server where it names one.
func localTools(q *agentkernel.ToolQuery) []agentkernel.Tool {
	return slices.DeleteFunc(tool.LocalTools(q.Modules), func(t agentkernel.Tool) bool { return q.Server != "" && t.PythonServer != q.Server })
}

// mixed puts local tools among those that were found, which keep their order: each before the first that fits the query
// less. They are few and belong to one query, so they are compared with what was found and not with the whole index.
func mixed(out agentkernel.ToolMatches, local []agentkernel.Tool, q *agentkernel.ToolQuery) agentkernel.ToolMatches {
	if len(local) == 0 {
		return out
	}
	out.Total += len(local)
	if q.Text == "" {
		out.Tools = slices.Concat(local, out.Tools)
	} else {
		ix := search.New(search.Default())
		ix.Add(local...)
		ix.Add(out.Tools...)
		hits := ix.Search(q.Text, len(local)+len(out.Tools))
		score := map[[2]string]float64{}
		for _, h := range hits {
			score[[2]string{h.Tool.Server, h.Tool.Name}] = h.Score
		}
		for _, h := range slices.Backward(hits) {
			if h.Tool.Effect != agentkernel.EffectLocal {
				continue
			}
			at := slices.IndexFunc(out.Tools, func(t agentkernel.Tool) bool { return score[[2]string{t.Server, t.Name}] < h.Score })
			if at < 0 {
				at = len(out.Tools)
			}
			out.Tools = slices.Insert(out.Tools, at, h.Tool)
		}
	}
	out.Tools = out.Tools[:min(len(out.Tools), q.Limit)]
	return out
}
