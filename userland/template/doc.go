// Package template writes programs for tasks in plain language without a model: a task that one of a small
// set of recipes covers in full becomes a Python program, any other is refused with what can be done. It is
// what `agentkernel task`, the Python SDK and execute_task over MCP use where no model is configured.
//
//	plan.go               Make: recipes in order, the refusal
//	arithmetic.go expression.go numbers.go        sums, percentages, Fibonacci, primes
//	data.go               CSV and JSON: summary, grouping, totals
//	files.go roles.go     listing and searching through whatever file tools there are
//	toolcall.go tokens.go arguments.go phrases.go schema.go   one call of one tool, arguments from the text by schema
//	render.go programs/   the programs' texts; everything from a task goes into them as a Python literal
//
// Two rules keep it honest. A recipe must account for every word of the task: what is left over ("... and
// mail it to Bob") is a refusal, never a part that is dropped. And a recipe that needs no tool goes before
// those that do, so a task that is planned without knowing the tools is planned the same with them.
//
// It must never run, read or call anything: Make is a pure function of the text and the list of tools. What
// the program may do is the kernel's to decide, like that of any other program.
package template
