package agentkernel

// WithoutHost returns s without the fields that name something of the machine on which it was written: paths that are
// shown to the program or read for it, and tools files, whose servers run as the user. It is for a Spec that comes from
// elsewhere (a recording), or goes there. This is the one list of such fields; a test fails when Spec has a field that
// it does not know.
func (s Spec) WithoutHost() Spec {
	s.Program.Host = ""
	s.Tools, s.ToolDigests = nil, nil
	s.Workspace, s.Volumes = nil, nil
	s.Stdin = ""
	s.Models = nil // they name servers, which this machine would ask
	return s
}
