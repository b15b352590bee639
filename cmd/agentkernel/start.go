package main

import (
	"agentkernel"
)

type startCmd struct{}

func (startCmd) Help() string {
	return `For SDKs and scripts that talk to the kernel's socket themselves. Commands start a kernel by themselves when they
need one. Nothing is recovered, and the kernel ends when it has been idle for a while (setting idle_after).

` + examples("agentkernel start", "curl --unix-socket $(agentkernel start --json | jq -r .socket) http://k/api/v1/info")
}

// started is what start --json prints.
type started struct {
	Socket  string `json:"socket"`
	Home    string `json:"home"`
	Version string `json:"version"`
	API     int    `json:"api"`
	OSPID   int    `json:"os_pid"`
	Mode    string `json:"mode"`
}

func (startCmd) Run(a *app) error {
	if a.cli.Embedded {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "start", "a kernel inside this command would end with it").
			WithHint("leave --embedded out, or use serve")
	}
	dir, k, err := a.attached()
	if err != nil {
		return err
	}
	defer k.Close()
	info, err := k.Info(a.ctx)
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(started{dir.Socket(), dir.Path(), info.Version, info.API, info.OSPID, info.Mode})
	}
	a.con.Out(dir.Socket() + "\n")
	a.con.Note("kernel %s, os process %d", info.Version, info.OSPID)
	a.mentionUnfinished(k)
	return a.outputError()
}
