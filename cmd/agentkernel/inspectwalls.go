package main

import "strings"

// walls shows what stands between a process that has a sandbox and the machine; --json says what each wall is made of.
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
	if i.Process.Resident && len(i.Process.Walls) == 0 {
		s.add("no wall", "its sandbox has none: it can do all that the kernel's user can")
	}
}
