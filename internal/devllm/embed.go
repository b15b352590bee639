package devllm

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"strings"
)

// embed is a vector of a text: each word and each pair of neighbours counts in a place that its hash says. Texts with the
// same words are near one another, and that is all: it knows nothing of meaning. The same text has the same vector.
func embed(text string, dims int) []float32 {
	v := make([]float64, dims)
	add := func(gram string) {
		h := fnv.New64a()
		h.Write([]byte(gram))
		sum := h.Sum64()
		sign := 1.0
		if sum>>63 == 1 {
			sign = -1
		}
		v[sum%uint64(dims)] += sign
	}
	words := strings.Fields(strings.ToLower(text))
	for i, w := range words {
		add(w)
		if i > 0 {
			add(words[i-1] + " " + w)
		}
	}
	if len(words) == 0 {
		add("")
	}
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	if sum == 0 { // two hashes met
		v[0], sum = 1, 1
	}
	out := make([]float32, dims)
	for i, x := range v {
		out[i] = float32(x / math.Sqrt(sum))
	}
	return out
}

// inBase64 is a vector as OpenAI packs it: 32-bit floats, little-endian.
func inBase64(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}
