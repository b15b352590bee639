// Package workspace keeps what processes do to folders of the host. Each process that sees a folder has a layer in the
// data directory, which takes what the process writes; the folder stays as it is until somebody applies the layer.
//
//	store_linux.go    Store: one directory for each process; create, begin, discard
//	record_linux.go   what is kept of a process: record.json
//	base_linux.go     what a folder held when the process was created: names, sizes, times
//	tree_linux.go     looking at directories that others write, without following links
//	layer_linux.go    what a layer says: overlayfs' upper directory, or a copy
//	apply_linux.go place_linux.go   writing changes into the folder, file by file
//	open_linux.go     one file, as it is or as it was
//	import_linux.go   what came with a recording
//
// A folder is shown to the sandbox (package confine) as an overlay: the folder itself below, read-only, the layer above. Where the data
// directory lies on a file system that cannot be the upper part of an overlay, the layer is a copy of the folder.
// Either way nothing but Apply ever writes to a folder.
//
// The base is not a copy of the files but of what stat(2) says of them, the time of the last change of the inode
// included, which no program can set. So a folder that was changed from outside is noticed, whatever was changed.
//
// Layers hold what hostile programs made: names of any bytes, links to anywhere, directories that their owner may not
// enter, pipes. Folders may be written by others while they are looked at. So the package never opens a path that was
// put together, but goes from directory to directory and follows no link, or has openat2(2) do so.
package workspace
