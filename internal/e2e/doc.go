// Package e2e holds the end-to-end tests: real programs in the real engine, real MCP servers, a real
// database, and kernels that are killed. It has no code of its own besides tests.
package e2e
