package redact

import (
	"strconv"
	"strings"
)

// Numbers are the masks of secrets that JSON may spell as numbers. The zero value cannot be added to; Numbers{} can.
type Numbers map[string]string

// minDigits is how many a number has at least that is a secret: 86400000 is a span, and in many results.
const minDigits = 8

// Add adds a secret, if it is a number, and what stands in its place. Of equal ones the first counts.
func (n Numbers) Add(value, mask string) {
	if strings.Trim(value, "0123456789+-.eE") != "" || len(strings.Trim(value, "+-0.")) < minDigits {
		return
	}
	if key := numberKey(value); n[key] == "" {
		n[key] = mask
	}
}

// Mask is what stands in the place of a number of JSON; "": it is no secret.
func (n Numbers) Mask(number string) string { return n[numberKey(number)] }

// numberKey is the same for all spellings of a number, whatever its sign. Short numbers keep theirs: 1 is not 00000001.
func numberKey(text string) string {
	text = strings.TrimLeft(text, "+-")
	if strings.Trim(text, "0123456789") == "" && text != "" && text[0] != '0' && len(text) > 15 {
		return text // float64 has the same for neighbours
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 1e7 && len(strconv.FormatFloat(f, 'f', -1, 64)) < minDigits {
		return text
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
