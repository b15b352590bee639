package confine

import (
	"bytes"
	"unsafe"
)

// StepRunner is machine code for an executor that is not written in a language of machines, as a zygote in Python is:
// a function that makes a list of system calls, and touches no memory but that list and the results. An interpreter
// that does the same in its own words takes ten times as long, and copies two hundred pages of its zygote for it.
// The code can be copied anywhere, and is called as
//
//	long run(struct call *calls, long n, long results[])
//
//	struct call {
//		long nr, args[6];
//		unsigned char late[8]; // per argument: the index in results of what it is, 0: args has it
//		long save;             // the index in results that keeps what it returns; 0: none
//		long stop;             // 1: end here if it returns anything but 0; 2: if it returns 0
//		long ok[3];            // errno values that do no harm
//	};
//
// It returns the index of the call at which it ended, n if it made them all; results[0] is what the last call
// returned, -errno after a failure. A clone(2) among the calls that stops at anything but 0 lets the parent return,
// and the child go on with those behind it.
func StepRunner() []byte {
	start := runStepsAddress()
	n := 0
	for string(unsafe.Slice((*byte)(unsafe.Add(start, n)), len(stepsEnd))) != stepsEnd {
		n++
	}
	return bytes.Clone(unsafe.Slice((*byte)(start), n))
}

// stepsEnd stands behind the function's last instruction.
const stepsEnd = "stepsEnd"

// runSteps is never called here.
func runSteps() //nolint:unused // its address is taken in assembly

func runStepsAddress() unsafe.Pointer
