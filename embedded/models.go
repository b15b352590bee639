package embedded

import (
	"os"

	"agentkernel"
	"agentkernel/internal/datadir"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/llm/router"
	"agentkernel/internal/sched"
)

// askers makes what asks the language models of a configuration.
func askers(cfg Config, dir *datadir.Dir, weight func(namespace string) int) (*router.Router, error) {
	declared, prices, err := models.Load(cfg.Models, cfg.Prices, models.Installed(dir.Prices()))
	if err != nil {
		return nil, err
	}
	reserved, err := sched.Reserved(cfg.ModelShares)
	if err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeInvalid, "model_shares")
	}
	return router.New(router.Config{Models: declared, Prices: prices, Lookup: os.LookupEnv, Weight: weight, Reserved: reserved})
}
