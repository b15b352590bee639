// Command tokens measures what programs save an assistant's model: the same task once by direct MCP calls, once by a
// program behind `agentkernel mcp`, on the same real servers; then it compares what was done. `make bench-tokens` prints
// a Markdown table.
//
// A token is counted each time that something new reaches the model or leaves it: the schemas and instructions of the tools,
// each call with its arguments, each answer; on the side of programs also the searches, the signatures that they bring,
// and the programs themselves. What a client sends again with every turn is counted once, which favours direct calls: they
// have more turns. The drivers make the fewest and shortest calls that do the task; neither makes mistakes.
//
// It must never count a task whose end states differ, nor a program that calls a function which no search had shown.
package main
