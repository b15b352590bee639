package intrinsic

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/big"
)

// item is one value of a struct format.
type item struct {
	kind  byte
	size  int // bytes of one value
	count int // repeat, or the length of 's'
}

// maxStruct bounds a format's repeat counts, which are short text for long results.
const maxStruct = 1 << 20

// layout reads a format of Python's struct. Native alignment is not offered: '@' is read as '='.
func layout(format string) (order binary.ByteOrder, items []item, size int, err error) {
	order = binary.LittleEndian
	if format != "" {
		switch format[0] {
		case '>', '!':
			order = binary.BigEndian
			format = format[1:]
		case '<', '=', '@':
			format = format[1:]
		}
	}
	count, given := 0, false
	for i := range len(format) {
		c := format[i]
		switch {
		case c >= '0' && c <= '9':
			count, given = count*10+int(c-'0'), true
			if count > maxStruct {
				return nil, nil, 0, structError("total struct size too long")
			}
			continue
		case c == ' ' || c == '\n' || c == '\t':
			continue
		}
		it := item{kind: c, size: structSize(c), count: 1}
		if it.size == 0 {
			return nil, nil, 0, structError("bad char in struct format")
		}
		if given {
			it.count = count
		}
		count, given = 0, false
		if items = append(items, it); len(items) > maxStruct {
			return nil, nil, 0, structError("total struct size too long")
		}
		if size += it.size * it.count; size > maxStruct {
			return nil, nil, 0, structError("total struct size too long")
		}
	}
	if given {
		return nil, nil, 0, structError("repeat count given without format specifier")
	}
	return order, items, size, nil
}

func structError(text string) error { return &pyError{"ValueError", text} }

func structSize(c byte) int {
	switch c {
	case 'x', 'c', 'b', 'B', '?', 's':
		return 1
	case 'h', 'H':
		return 2
	case 'i', 'I', 'l', 'L', 'f':
		return 4
	case 'q', 'Q', 'd':
		return 8
	}
	return 0
}

// structPack(format, values) -> bytes.
func structPack(a arguments) (json.RawMessage, error) {
	format, err := a.text(0)
	if err != nil {
		return nil, err
	}
	values, err := a.items(1)
	if err != nil {
		return nil, err
	}
	order, items, size, err := layout(format)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, size)
	for _, it := range items {
		n := it.count
		switch it.kind {
		case 'x':
			out = append(out, make([]byte, n)...)
			continue
		case 's':
			n = 1
		}
		for range n {
			if len(values) == 0 {
				return nil, structError("pack expected more items for packing")
			}
			if out, err = appendItem(out, order, it, values[0]); err != nil {
				return nil, err
			}
			values = values[1:]
		}
	}
	if len(values) > 0 {
		return nil, structError("pack got too many items for packing")
	}
	return bytesResult(out), nil
}

func appendItem(out []byte, order binary.ByteOrder, it item, raw json.RawMessage) ([]byte, error) {
	switch it.kind {
	case 's', 'c':
		b, err := arguments{"pack", []json.RawMessage{raw}}.bytes(0)
		if err != nil || it.kind == 'c' && len(b) != 1 {
			return nil, structError("argument for '" + string(it.kind) + "' must be a bytes object")
		}
		n := it.count
		if it.kind == 'c' {
			n = 1
		}
		b = append(b, make([]byte, max(0, n-len(b)))...)
		return append(out, b[:n]...), nil
	case '?':
		if s := string(raw); s == "false" || s == "0" || s == "null" {
			return append(out, 0), nil
		}
		return append(out, 1), nil
	}
	v, err := parseNumber(raw)
	if err != nil {
		return nil, structError("required argument is not a number")
	}
	if it.kind == 'f' || it.kind == 'd' {
		f := v.float
		if !v.isFloat {
			f, _ = new(big.Float).SetInt(v.int).Float64()
		}
		if it.kind == 'd' {
			return appendUint(out, order, math.Float64bits(f), 8), nil
		}
		return appendUint(out, order, uint64(math.Float32bits(float32(f))), 4), nil
	}
	if v.isFloat {
		return nil, structError("required argument is not an integer")
	}
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(8*it.size))
	if it.kind >= 'a' { // signed
		high.Rsh(high, 1)
		low.Neg(high)
	}
	if v.int.Cmp(low) < 0 || v.int.Cmp(high) >= 0 {
		return nil, structError("'" + string(it.kind) + "' format requires " + low.String() + " <= number <= " +
			high.Sub(high, big.NewInt(1)).String())
	}
	n := v.int.Uint64()
	if v.int.Sign() < 0 {
		n = uint64(v.int.Int64())
	}
	return appendUint(out, order, n, it.size), nil
}

func appendUint(out []byte, order binary.ByteOrder, n uint64, size int) []byte {
	var b [8]byte
	if order == binary.BigEndian {
		binary.BigEndian.PutUint64(b[:], n)
		return append(out, b[8-size:]...)
	}
	binary.LittleEndian.PutUint64(b[:], n)
	return append(out, b[:size]...)
}

func readUint(order binary.ByteOrder, b []byte) uint64 {
	var full [8]byte
	if order == binary.BigEndian {
		copy(full[8-len(b):], b)
		return binary.BigEndian.Uint64(full[:])
	}
	copy(full[:], b)
	return binary.LittleEndian.Uint64(full[:])
}

// structUnpack(format, bytes) -> list of values; with None for the bytes, the size.
func structUnpack(a arguments) (json.RawMessage, error) {
	format, err := a.text(0)
	if err != nil {
		return nil, err
	}
	order, items, size, err := layout(format)
	if err != nil {
		return nil, err
	}
	if string(a.raw(1)) == "null" {
		return json.Marshal(size)
	}
	data, err := a.bytes(1)
	if err != nil {
		return nil, err
	}
	if len(data) != size {
		b, _ := json.Marshal(size) // an int always marshals
		return nil, structError("unpack requires a buffer of " + string(b) + " bytes")
	}
	out := []byte{'['}
	for _, it := range items {
		n := it.count
		if it.kind == 's' {
			n = 1
			it.size = it.count
		}
		for range n {
			part := data[:it.size]
			data = data[it.size:]
			if it.kind == 'x' {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = appendUnpacked(out, order, it.kind, part)
		}
	}
	return append(out, ']'), nil
}

func appendUnpacked(out []byte, order binary.ByteOrder, kind byte, part []byte) []byte {
	switch kind {
	case 's', 'c':
		return appendBytes(out, part)
	case '?':
		if part[0] != 0 {
			return append(out, "true"...)
		}
		return append(out, "false"...)
	case 'd':
		return appendFloat(out, math.Float64frombits(readUint(order, part)))
	case 'f':
		return appendFloat(out, float64(math.Float32frombits(uint32(readUint(order, part)))))
	}
	n := readUint(order, part)
	if kind >= 'a' { // signed
		shift := uint(64 - 8*len(part))
		return new(big.Int).SetInt64(int64(n<<shift)>>shift).Append(out, 10)
	}
	return new(big.Int).SetUint64(n).Append(out, 10)
}
