package tool

import "fmt"

// Tools can be functions of a program that serves them itself, as long as it runs: the SDKs write a tools file for it, in which
// "program" is its os process. Nobody can start such a server again but the program's user.

// runAgain is what to do where such a server is gone.
const runAgain = "run the program again: it makes functions of the same names for the processes that it starts then. This process cannot call them any more"

// programGone says that the functions of a server cannot be called.
func (e *entry) programGone() string {
	return fmt.Sprintf("the tools of server %q are functions of the program that started this process, and it has ended or has closed its agent", e.name)
}

// programEnded is the same of a program that is known.
func (e *entry) programEnded() string {
	return fmt.Sprintf("%s (os process %d), or it runs on another machine than the kernel", e.programGone(), e.program)
}

// succeeds lets go of the servers of programs that had the tools file of an entry before: they have ended, and there may be one for each
// task of a program that runs for long. h.mu is held.
func (h *Hub) succeeds(e *entry) {
	if e.program == 0 {
		return
	}
	for key, s := range h.servers {
		if key.file != e.file || key.name != e.name || key.hash == e.hash || s.entry.program == 0 {
			continue
		}
		delete(h.servers, key)
		if inst := s.current.Load(); inst != nil {
			inst.drop()
		}
	}
}
