package intrinsic

import (
	"encoding/binary"
	"encoding/json"
	"math/big"
	"strconv"
)

// The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998) as CPython's random seeds and runs it. The
// generator lives in the program: its state is 2,496 bytes, and a call gives the next 624 numbers.

const (
	mtSize  = 624
	mtShift = 397
)

// mtSeed(number) -> state: init_by_array over the 32-bit digits of abs(number).
func mtSeed(a arguments) (json.RawMessage, error) {
	n, err := parseNumber(a.raw(0))
	if err != nil || n.isFloat {
		return nil, typeError("a seed must be an int")
	}
	var key []uint32
	digits := new(big.Int).Abs(n.int).Bytes()
	for end := len(digits); end > 0; end -= 4 {
		word := uint32(0)
		for _, b := range digits[max(0, end-4):end] {
			word = word<<8 | uint32(b)
		}
		key = append(key, word)
	}
	if len(key) == 0 {
		key = []uint32{0}
	}
	state := mtInit(key)
	return bytesResult(mtBytes(&state)), nil
}

func mtInit(key []uint32) (mt [mtSize]uint32) {
	mt[0] = 19650218
	for i := 1; i < mtSize; i++ {
		mt[i] = 1812433253*(mt[i-1]^mt[i-1]>>30) + uint32(i)
	}
	i, j := 1, 0
	step := func(n int, mix func()) {
		for range n {
			mix()
			if i++; i >= mtSize {
				mt[0], i = mt[mtSize-1], 1
			}
		}
	}
	step(max(mtSize, len(key)), func() {
		mt[i] = (mt[i] ^ (mt[i-1]^mt[i-1]>>30)*1664525) + key[j] + uint32(j)
		if j++; j >= len(key) {
			j = 0
		}
	})
	step(mtSize-1, func() { mt[i] = (mt[i] ^ (mt[i-1]^mt[i-1]>>30)*1566083941) - uint32(i) })
	mt[0] = 1 << 31
	return mt
}

func mtBytes(mt *[mtSize]uint32) []byte {
	out := make([]byte, 0, 4*mtSize)
	for _, w := range mt {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return out
}

// mtBlock(state) -> (state, [624 numbers]).
func mtBlock(a arguments) (json.RawMessage, error) {
	raw, err := a.bytes(0)
	if err != nil || len(raw) != 4*mtSize {
		return nil, valueError("not a state of the generator")
	}
	var mt [mtSize]uint32
	for i := range mt {
		mt[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	for i := range mt {
		y := mt[i]&0x80000000 | mt[(i+1)%mtSize]&0x7fffffff
		next := mt[(i+mtShift)%mtSize] ^ y>>1
		if y&1 != 0 {
			next ^= 0x9908b0df
		}
		mt[i] = next
	}
	out := append(make([]byte, 0, 12_000), `{"$tuple":[`...)
	out = append(appendBytes(out, mtBytes(&mt)), ",["...)
	for i, y := range mt {
		if i > 0 {
			out = append(out, ',')
		}
		y ^= y >> 11
		y ^= y << 7 & 0x9d2c5680
		y ^= y << 15 & 0xefc60000
		y ^= y >> 18
		out = strconv.AppendUint(out, uint64(y), 10)
	}
	return append(out, "]]}"...), nil
}
