package traffic

import "math"

// Content is what a request consists of, in bytes as they are sent.
type Content struct {
	Text, Code, Image int64 // Code is what has many signs: programs, JSON, tables
}

// The kinds of content.
const (
	text = iota
	code
	image
	contents
)

// safeRatios are the tokens of a byte that are assumed of text, code and images before anything is known of a model. English has
// about 0.25 tokens a byte, Chinese 0.35, code and JSON 0.3 to 0.45; a picture of 20 kB costs up to 1,600 tokens, larger ones
// less for each byte.
var safeRatios = [contents]float64{text: 0.5, code: 0.6, image: 0.1}

// SafeOutput is how much of the most that it may answer a model is assumed to answer, and SafeTokens how much, in tokens, where
// there is no such bound.
const (
	SafeOutput = 1.0
	SafeTokens = 4096
)

// enough is how many answers have to be known before their 95th percentile is believed; until then the safe value holds, or
// the largest that was seen.
const enough = 20

// Estimator foresees what calls to one model will use: the 95th percentile of what such calls have used. The zero value knows nothing
// and assumes safe values. It takes 4 kB.
type Estimator struct {
	ratios  [contents]sketch // tokens of a byte
	answers sketch           // part of the most that may be answered
	lengths sketch           // tokens, where there is no bound
}

// added is what a request may have at most beyond its bytes: what a server puts before it, pictures that it names, and what tools of the server have
// found.
const added = 1 << 20

// MostOutput is how many tokens a model answers at most, whatever it is asked for and its server says.
const MostOutput = 1 << 20

// Most is how many tokens a request can have, whatever its server says: no token is shorter than a byte.
func (c Content) Most() int64 { return c.Text + c.Code + c.Image + added }

// fixed is what a request has around its content, in tokens: roles, separators, names.
const fixed = 8

// Input is how many tokens a request will probably have at most.
func (e *Estimator) Input(c Content) int64 {
	sum := 0.0
	for kind, bytes := range c.each() {
		sum += e.ratio(kind) * float64(bytes)
	}
	return fixed + int64(math.Ceil(min(sum, float64(c.Most()))))
}

// Output is how many tokens an answer will probably have at most; most is how many it may have, 0: there is no bound.
func (e *Estimator) Output(most int64) int64 {
	if most <= 0 {
		return int64(math.Ceil(min(e.lengths.p95(SafeTokens), MostOutput)))
	}
	if part := e.answers.p95(SafeOutput); part < 1 {
		return int64(math.Ceil(part * float64(most)))
	}
	return most
}

func (c Content) each() [contents]int64 { return [contents]int64{c.Text, c.Code, c.Image} }

func (e *Estimator) ratio(kind int) float64 { return e.ratios[kind].p95(safeRatios[kind]) }

// Learn notes what a call has used, as far as it can have. Of a request of several kinds of content, the kind that makes most of it learns.
func (e *Estimator) Learn(c Content, most, in, out int64) {
	in, out = min(in, c.Most()), min(out, MostOutput)
	sum, largest, main := 0.0, 0.0, 0
	for kind, bytes := range c.each() {
		part := e.ratio(kind) * float64(bytes)
		sum += part
		if part > largest {
			largest, main = part, kind
		}
	}
	if in > 0 && largest > sum/2 && in > fixed {
		rest := float64(in-fixed) - (sum - largest)
		if bytes := float64(c.each()[main]); rest > 0 {
			e.ratios[main].add(rest / bytes)
		}
	}
	switch {
	case out <= 0:
	case most > 0:
		e.answers.add(float64(out) / float64(most))
	default:
		e.lengths.add(float64(out))
	}
}

// sketch keeps how often values were seen, by their size to 5 %, and forgets old ones by and by: when it has seen 256, all
// counts are halved.
type sketch struct {
	counts [cells]uint16
	count  int
	most   float64
	known  float64 // the percentile, as long as nothing is added; 0: it has to be worked out
}

const (
	cells  = 400
	finest = 1e-3 // the least value that is told from others
	step   = 1.05 // from 0.001 to 280,000
	recent = 256
)

func (s *sketch) add(value float64) {
	s.known = 0
	cell := 0
	if value > finest {
		cell = min(cells-1, int(math.Ceil(math.Log(value/finest)/math.Log(step))))
	}
	s.counts[cell]++
	s.most = max(s.most, value)
	if s.count++; s.count < recent {
		return
	}
	s.count = 0
	for i := range s.counts {
		s.counts[i] /= 2
		s.count += int(s.counts[i])
	}
}

// p95 is the 95th percentile, or something safe as long as too little is known.
func (s *sketch) p95(safe float64) float64 {
	if s.count < enough {
		return max(safe, s.most)
	}
	if s.known > 0 {
		return s.known
	}
	above := s.count / 20
	for i := cells - 1; i > 0; i-- {
		if above -= int(s.counts[i]); above < 0 {
			s.known = finest * math.Pow(step, float64(i))
			return s.known
		}
	}
	return finest
}
