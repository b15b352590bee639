package history

import "agentkernel"

// window is for how many rows each reader of Ahead may be ahead of take.
const window = 8

// Ahead reads something for each row, with a few readers at once, and calls take with what they have read: one after the other, in
// the order of the rows. It begins to read in that order too. With one reader a row is taken before the next is read.
func Ahead[R any](readers int, rows []agentkernel.ProcessRecord, read func(*agentkernel.ProcessRecord) R, take func(R)) {
	if readers <= 1 {
		for i := range rows {
			take(read(&rows[i]))
		}
		return
	}
	type reading struct {
		row  *agentkernel.ProcessRecord
		done chan R
	}
	asked, begun := make(chan reading), make(chan reading, readers*window)
	for range readers {
		go func() {
			for r := range asked {
				r.done <- read(r.row)
			}
		}()
	}
	go func() {
		defer close(begun)
		defer close(asked)
		for i := range rows {
			r := reading{&rows[i], make(chan R, 1)}
			begun <- r
			asked <- r
		}
	}()
	for r := range begun {
		take(<-r.done)
	}
}
