package main

import (
	"math"
	"slices"
	"time"
)

// series is what one contender measured: its samples, block by block, in the order of the rounds.
type series [][]time.Duration

// all gives the samples of all blocks, sorted.
func (s series) all() []time.Duration {
	all := slices.Concat(s...)
	slices.Sort(all)
	return all
}

// p50 and p99 are over the samples of all blocks.
func (s series) p50() time.Duration { return percentile(s.all(), 50) }
func (s series) p99() time.Duration { return percentile(s.all(), 99) }

// percentile is the smallest sample that at least p per cent of the samples do not exceed (nearest rank);
// 0 if there are none. sorted is in ascending order.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// ratio compares s with the sum of the floors: the p50 of each block of s by the sum of the p50s of the
// floors' blocks in the same round, and of these quotients the median. Rounds in which one is missing do not
// count; 0 if none is left.
func (s series) ratio(floors ...series) float64 {
	var quotients []float64
	for i := range s {
		sum := time.Duration(0)
		complete := len(s[i]) > 0
		for _, f := range floors {
			complete = complete && i < len(f) && len(f[i]) > 0
			if complete {
				sum += blockP50(f[i])
			}
		}
		if complete && sum > 0 {
			quotients = append(quotients, float64(blockP50(s[i]))/float64(sum))
		}
	}
	return median(quotients)
}

func blockP50(block []time.Duration) time.Duration {
	sorted := slices.Clone(block)
	slices.Sort(sorted)
	return percentile(sorted, 50)
}

// median of an even number of values is the mean of the two in the middle; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
