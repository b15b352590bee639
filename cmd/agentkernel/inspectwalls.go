package main

import "strings"

// walls shows what stands between a process and the machine, or stood around the last sandbox that it had; --json says
// what each wall is made of.
func (i *inspection) walls(s *sheet) {
	var standing []string
	for _, w := range i.Process.Walls {
		if w.On {
			standing = append(standing, w.Name)
		}
	}
	s.add("walls", "%s", strings.Join(standing, ", "))
	for _, w := range i.Process.Walls {
		if !w.On {
			s.add("no wall", "%s: %s", w.Name, firstLine(w.How))
		}
	}
	switch none := len(i.Process.Walls) == 0; {
	case none && i.Process.Resident:
		s.add("no wall", "its sandbox has none: it can do all that the kernel's user can")
	case none && i.Process.Backend == "unconfined":
		s.add("no wall", "its backend builds none: it could do all that the kernel's user can")
	}
}
