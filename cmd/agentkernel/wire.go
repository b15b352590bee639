package main

import (
	"context"
	"os"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/embedded"
	"agentkernel/internal/api"
	"agentkernel/internal/datadir"
	"agentkernel/internal/mcpserver"
	"agentkernel/internal/tool"
	"agentkernel/userland/agent"
	"agentkernel/userland/template"
)

// systemParts are the real parts.
func systemParts() parts {
	return parts{
		dial: func(ctx context.Context, socket string) (agentkernel.Kernel, error) {
			k, err := client.Dial(ctx, client.Options{Socket: socket, Version: version})
			if err != nil {
				return nil, err
			}
			return k, nil
		},
		stop: client.Stop,
		open: func(ctx context.Context, cfg embedded.Config) (agentkernel.Kernel, error) {
			embedded.Dedicate()
			k, err := embedded.Open(ctx, cfg)
			if err != nil {
				return nil, err // not a nil *Kernel in an interface
			}
			return k, nil
		},
		openReader: embedded.OpenReader,
		acceptLoss: func(ctx context.Context, home string) (*embedded.AcceptedLoss, error) {
			return embedded.AcceptLoss(ctx, home, version)
		},
		listen:       listen,
		start:        startBackground,
		localModules: localModules,
		localTools:   tool.LocalTools,
		trusted: func(home, project string, as tool.Kind, file string, content []byte) (bool, error) {
			return tool.NewTrust(datadir.At(home).Trust()).In(project).Accepted(as, file, content)
		},
		trust: func(home, project string, as tool.Kind, file string, content []byte) error {
			return tool.NewTrust(datadir.At(home).Trust()).In(project).Accept(as, file, content)
		},
		mcp: serveMCP,
	}
}

// serveMCP offers a kernel to MCP clients until ctx ends, or the one client of standard input goes.
func serveMCP(ctx context.Context, k agentkernel.Kernel, cfg mcpConfig) error {
	offered := mcpserver.Config{Kernel: k, Version: version, Spec: cfg.spec, Minimal: cfg.minimal, Packages: cfg.packages, Leaving: cfg.leaving,
		Plan: func(task string, tools []agentkernel.Tool) (mcpserver.TaskPlan, error) {
			plan, err := template.Make(task, tools)
			return mcpserver.TaskPlan{Program: plan.Program, Mode: "template", Recipe: plan.Recipe}, err
		}}
	if cfg.agent != nil {
		offered.Agent = func(ctx context.Context, namespace, task string) (mcpserver.TaskPlan, error) {
			program, err := cfg.agent(ctx, k, namespace, task)
			return mcpserver.TaskPlan{Program: program, Mode: "model", Budget: agentkernel.Budget{Turns: agent.Turns}}, err
		}
	}
	if cfg.listener == nil {
		return mcpserver.ServeStdio(ctx, offered)
	}
	s, err := mcpserver.New(offered)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.ServeHTTP(ctx, cfg.listener, cfg.over)
}

// door is the API on the kernel's socket.
type door struct {
	close context.CancelFunc
	done  chan struct{}
}

func listen(ctx context.Context, cfg listenConfig) (listener, error) {
	server, err := api.New(api.Config{Kernel: cfg.kernel, Version: version, OSPID: os.Getpid(), Logger: cfg.log, IdleAfter: cfg.idle, Task: cfg.task})
	if err != nil {
		return nil, err
	}
	ln, err := api.ListenUnix(cfg.socket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &door{close: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		if err := server.Serve(ctx, ln); err != nil {
			cfg.log.Error("the socket is not served any more", "error", err)
		}
	}()
	return d, nil
}

func (d *door) Done() <-chan struct{} { return d.done }

// Close returns when the last caller has gone, or was cut off.
func (d *door) Close() error {
	d.close()
	<-d.done
	return nil
}
