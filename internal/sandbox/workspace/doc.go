// Package workspace keeps what processes do to folders of the host. Each process that sees a folder has a layer in the
// data directory, which takes what the process writes; the folder stays as it is until somebody applies the layer.
//
//	store_linux.go    Store: one directory for each process; create, begin
//	record_linux.go   what is kept of a process: record.json
//	base_linux.go     what a folder held when the process was created: names, sizes, times
//	tree_linux.go     looking at directories that others write, without following links
//	layer_linux.go    what a layer says: overlayfs' upper directory, or a copy
//	choose_linux.go   which changes are applied; withheld.go names.go: those that the host acts on
//	links_linux.go    where symbolic links will lead
//	apply_linux.go conflict_linux.go place_linux.go sweep_linux.go   writing changes into the folder
//	discard_linux.go  throwing them away
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
//
// # How an apply survives a crash
//
// An apply looks, stages, decides and commits, in this order:
//
//  1. It looks at all that it would change, and stops at the first conflict.
//  2. It stages: each new file and link is written beside its place under a name of its own, ".agentkernel-TOKEN-N.tmp";
//     a new directory is built whole under such a name. One syncfs(2) brings all of that to the disk, where an fsync for
//     each file would take as long as the files are many. Then it looks once more.
//  3. It decides: record.json, which is replaced and synced as one, says that all is staged (record.Decided).
//  4. It commits: each step is a rename or a removal, which the file system does at once. A second syncfs follows.
//  5. It settles: record.json says what was applied, and the layer goes.
//
// Before the decision nothing that has a name of its own in the folder is touched, so whatever comes next removes what
// was staged, and the apply never was. After it the apply is finished: the layer is still there, what is in place is
// recognized by its content, and the rest is staged and committed again. So every apply and every discard begins by
// removing what is staged, and finishes what is decided. Only a folder that somebody has changed in between can keep an
// apply from being finished; then it is said what is in the folder, and the user chooses.
package workspace
