package process

import "debug/elf"

// machines are the architectures of executables that run here, this machine's own first.
var machines = []elf.Machine{elf.EM_AARCH64}
