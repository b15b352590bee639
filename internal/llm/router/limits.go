package router

import (
	"math"
	"time"

	"agentkernel"
	"agentkernel/internal/llm/control"
)

// Limits are what is known of the traffic at this moment, of the kernel's own models first.
func (r *Router) Limits() agentkernel.ModelLimits {
	out := r.limits()
	for _, own := range r.trees() {
		l := own.limits()
		out.Keys, out.Deployments, out.Unplaced = append(out.Keys, l.Keys...), append(out.Deployments, l.Deployments...), out.Unplaced+l.Unplaced
	}
	return out
}

func (r *Router) limits() agentkernel.ModelLimits {
	s := r.control.Snapshot()
	out := agentkernel.ModelLimits{Keys: []agentkernel.KeyLimits{}, Deployments: []agentkernel.ModelDeployment{}, Unplaced: s.Unplaced}
	for i := range s.Keys {
		k := &s.Keys[i]
		shown := agentkernel.KeyLimits{Key: k.Key, Tree: r.cfg.tree, Family: k.Family, Limits: []agentkernel.ModelLimit{}, Share: k.Share, Concurrent: int(min(k.Concurrency, math.MaxInt32)),
			Learned: k.Learned, Running: k.Running, Queued: k.Queued, Queue: []agentkernel.QueuedAt{}, Waiting: k.Waiting, PausedUntil: k.PausedUntil}
		for _, l := range k.Limits {
			shown.Limits = append(shown.Limits, agentkernel.ModelLimit{What: l.What, Source: string(l.Source), Amount: whole(l.Amount), Period: agentkernel.Duration(l.Period),
				Pace: l.Pace, Left: whole(l.Left), Second: l.Second, Ten: l.Ten})
		}
		for _, q := range k.Queue {
			shown.Queue = append(shown.Queue, agentkernel.QueuedAt(q))
		}
		out.Keys = append(out.Keys, shown)
	}
	for i := range s.Deployments {
		d := deployed(&s.Deployments[i])
		key := r.deployments[d.Name].model.Key
		d.Tree, d.Given = r.cfg.tree, key.Given()
		if err := key.Look(r.cfg.Lookup); err != nil {
			d.Missing = err.Error()
		}
		out.Deployments = append(out.Deployments, d)
	}
	return out
}

// whole is a number without what is behind its point. Of one that is too large for that, the conversion may be anything.
func whole(n float64) int64 {
	const most = 1 << 62
	return int64(min(n, most))
}

// deployed is a deployment as users see it.
func deployed(d *control.DeploymentState) agentkernel.ModelDeployment {
	shown := agentkernel.ModelDeployment{Name: d.Name, Key: d.Key, Family: d.Family, Model: d.Model, Queued: d.Queued, State: agentkernel.ModelUp, Since: d.Since,
		Failures: d.Failures, Reason: d.Reason}
	switch {
	case d.Lacks:
		shown.State = agentkernel.ModelKeyless
	case !d.DownUntil.IsZero() && d.Tried:
		shown.State = agentkernel.ModelTrial
	case !d.DownUntil.IsZero():
		shown.State, shown.Until = agentkernel.ModelDown, d.DownUntil
	case !d.AvoidUntil.IsZero():
		shown.State, shown.Until = agentkernel.ModelAvoided, d.AvoidUntil
	}
	for _, at := range []*time.Time{&shown.Since, &shown.Until} {
		*at = at.UTC().Round(0)
	}
	return shown
}
