// Package montypb holds the Go form of monty.proto: the messages that travel between a Monty worker and
// its parent. It must never hold behaviour.
package montypb

//go:generate go -C ../../../../tools run ./genproto -import agentkernel/internal/sandbox/monty/montypb -proto ../internal/sandbox/monty/montypb/monty.proto
