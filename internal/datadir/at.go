package datadir

// At names the files of a data directory without looking at it, for those who only read and must create
// nothing. Its Socket is empty; whoever needs that, or writes, uses Open.
func At(path string) *Dir { return &Dir{path: path} }
