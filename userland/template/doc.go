// Package template writes programs for a few kinds of tasks in plain language without a model: a task of which a recipe understands every
// word becomes a Python program, any other is refused. It is what `agentkernel task`, the Python SDK and execute_task over MCP use
// where no model is configured.
//
//	plan.go               Make: recipes in order, the refusal
//	arithmetic.go expression.go      sums, averages, expressions, Fibonacci numbers
//	data.go reader.go     CSV and JSON files: summary, totals by column, through a tool that reads files
//	render.go programs/   the programs, as texts with places to fill in
//
// A recipe stays only if it is right each time: what may mean two things is refused. The package must never run anything, or let a piece of a
// task into a program as anything but a literal.
package template
