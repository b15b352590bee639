// Package agentkernel is the contract of AgentKernel: the words, types and interfaces that every other
// package of the module speaks, and nothing else. It imports the standard library only, and no package
// of this module, so that everything may import it (arch_test.go holds that rule).
//
// An agent program runs in a [Sandbox] that a [Backend] started for it. The sandbox has no way out but
// one: it issues system calls ([Call]), the [Kernel] answers each with a [Reply], and every call that has
// an effect is an [Entry] in the journal that a [Store] keeps before the effect happens. A process can
// therefore be replayed, parked, moved and recovered.
//
// The package must never hold behaviour that depends on a database, a network, an operating system or a
// concrete backend.
package agentkernel
