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
//	long run(struct call *calls, long n, long results[], long first)
//
//	struct call {
//		long nr, args[6];
//		unsigned char late[8]; // per argument: where in results it is, in units of 4 bytes, 0: args has it
//		long save;             // the index in results that keeps what it returns; 0: none
//		long stop;             // 1: turn if it returns anything but 0; 2: if it returns 0; n > 2: anything but n
//		long ok[3];            // errno values that do no harm
//		long turn;             // the index of the call to go on with at a turn; 0: end here
//	};
//
// It begins with the call first, and returns the index of the one at which it ended, n if it came to the end;
// results[0] is what the last call returned, -errno after a failure. A clone(2) among the calls that turns at 0 lets
// the parent go on with those behind it, and the child elsewhere.
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
