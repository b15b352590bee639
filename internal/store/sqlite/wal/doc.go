// Package wal looks at the write-ahead log of an SQLite database before SQLite does. SQLite takes the first
// frame that is not as it was written for the end of the log, and forgets what follows. That is right for
// the end of a log whose writer died in the middle of a commit, and wrong for a log that was damaged: then
// durable transactions are gone without a word. [Check] tells the two apart, and [SetAside] keeps a damaged log
// and leaves what is whole of it.
//
// The evidence is the log itself (a frame that continues the checksum of a committed one proves that the
// commit was durable before it was written) and the index beside it (-shm), in which SQLite notes
// after each commit, and after its sync, how far the log goes. Whatever state of the index reaches the disk, the log
// reached at least as far. The formats: https://www.sqlite.org/fileformat2.html#walformat and
// https://www.sqlite.org/walformat.html.
//
// [OpenView] reads a database together with the whole transactions of its log, and writes nothing: SQLite would rewrite the index,
// and with it the evidence.
//
// The package must never open a file that SQLite has open in this process: closing it would release SQLite's locks. It
// changes nothing but in SetAside.
package wal
