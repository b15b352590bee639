package agentkernel

// Wall is one thing that stands between a program and the machine, or does not.
type Wall struct {
	Name string `json:"name"` // "own root", "seccomp"
	On   bool   `json:"on"`
	How  string `json:"how"` // in a few words: what it is made of; or why it is not there
}

// Walled is a sandbox that says what stands between its program and the machine. It gives the same slice each time, also
// when it is closed, and nobody changes it: a store recognises by that what it has kept already.
type Walled interface {
	Walls() []Wall
}
