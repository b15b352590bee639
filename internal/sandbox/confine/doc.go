// Package confine is the operating system's walls around a program: namespaces, an own root, seccomp,
// Landlock, limits. It must never run a program behind fewer walls than asked for: what cannot be built is an
// error that says why and what mends it.
//
// # Decide, then carry out
//
// Policy is in one place: [Machine.Decide] turns a [Config] into a [Plan], plain data down to the arguments of
// system calls. Two small executors carry plans out: the spawner of this package, for any program, and a
// Python zygote for a child that it forks. The [Spawner] is the kernel's side of all that:
//
//	cell, _ := spawner.Prepare(config)               // decides; makes cgroups
//	process, _ := spawner.Start(ctx, cell, files)    // a whole sandbox
//	exit, _ := process.Wait(ctx)                     // everything in it is dead, and cleaned away
//
//	zygote, _ := spawner.Prepare(zygoteConfig)       // started like any other; then for each program:
//	cell, _ := zygote.Child(config)
//	trees, _ := spawner.Trees(ctx, cell.Plan)        // to the zygote, with cell.Plan
//	process, _ := cell.Adopt(pidfd)                  // of the child, before it is let go
//
// The spawner is this same executable, started again with a hidden argument ([Main]) and a small heap, because
// a big process that clones a user namespace copies its page tables: 15 ms at 500 MiB. It does not exec a
// second time to build a sandbox (the start of the executable alone takes 10 ms) but clones, and the child
// makes the plan's calls in a few functions that touch neither allocator nor scheduler, as package syscall's
// own fork does. The child becomes the sandbox's init; the program is its child.
//
// # The walls, from outside to inside
//
//   - Namespaces: user, pid, mount, ipc, uts, cgroup, and net with nothing in it.
//   - An own root on a small tmpfs, read-only, with the runtime's directories mounted read-only, nosuid and
//     nodev, five devices, own /tmp with caps on size and number of files, own /proc, read-only. The machine's
//     root is unmounted. The data directory is covered wherever a mount would show it.
//   - No capabilities in any set, no_new_privs, so that setuid files mean nothing. Files with setuid or setgid
//     bits cannot be made either: a workspace is the host's, where they would count.
//   - A seccomp allow-list. There is no socket(2): a program has what it inherited and pairs of streams. clone3
//     and openat2, whose flags a filter cannot see, answer ENOSYS; the libraries then use what it can see.
//   - Landlock, where the kernel has it, repeats what the mounts say: writing only where writing is meant.
//   - Limits: cgroups of version 1 or 2 where they can be made, entered before the first instruction of the
//     program; else rlimits (processes, per user namespace) and a watchdog that looks at memory every 50 ms.
//     Without a memory cgroup the calls that take memory which no process is seen to have are not allowed.
//     [Plan.Walls] says which.
//
// A program that only computes and speaks over what it was given (Kind Bare) has fewer things and so more walls: a root
// with its runtime alone, no /proc and no devices, some sixty calls, one thread; no cgroup, since one address space
// has a limit of its own.
//
// # Who a sandbox is
//
// Inside, every program is user 1000, whoever it is outside. An ordinary user's sandbox is that user outside,
// so it reads and writes a workspace with that user's rights; the user's supplementary groups stay in force,
// since only root could drop them. The kernel of root gives each sandbox a user of its own from a range that
// nobody has (never user 0: without capabilities it would still own /proc/sys). A workspace is shown to it
// by an idmapped mount, in which the files of the workspace's owner appear as the sandbox's own, and new files
// become the owner's. On a file system that cannot do that the workspace is refused.
//
// # How it ends
//
// The init is pid 1 of its namespace: when it ends, everything in there is killed by Linux. It ends with the
// program, when it is killed ([Process.Kill]), when the kernel drops its control socket, and by the
// parent-death signal when the spawner ends, which itself ends with the kernel. Mounts and tmpfs go with the
// last process. Cgroups that a killed kernel has left are cleared by the next one with the same name
// ([NewSpawner]); scratch directories are their owner's ([RemoveScratch]).
//
// # What is not stopped here
//
// A defect of Linux itself that is reachable through the allowed calls; what a program learns from the time
// that things take; load on disk and processor within the limits. Linux 5.12 or later is needed.
package confine
