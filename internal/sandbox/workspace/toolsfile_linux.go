package workspace

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// toolsFile says whether a change makes a file one of tools, or is one to such a file: its removal or replacement, too.
func (l *layer) toolsFile(it *item) (bool, error) {
	if it.kind != agentkernel.FileDeleted && it.typ == agentkernel.TypeFile && it.size <= maxToolsFile {
		is, err := l.top.toolsFile(it.path)
		switch {
		case is:
			return true, nil
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), agentkernel.CodeOf(err) == agentkernel.CodeInvalid: // the program has just changed it
		case err != nil:
			return false, err
		}
	}
	if it.before == nil || typeOf(it.before.mode) != agentkernel.TypeFile {
		return false, nil
	}
	is, err := l.root.toolsFile(it.path)
	return is && err == nil, nil // one that cannot be read, or has changed meanwhile, is found elsewhere
}

func (d dir) toolsFile(p string) (bool, error) {
	f, st, err := d.file(p)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if st.Size > maxToolsFile {
		return false, nil
	}
	if !mayBeToolsFile(head(f)) {
		return false, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToolsFile+1))
	return err == nil && isToolsFile(text), err
}
