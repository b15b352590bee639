package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"agentkernel/internal/devllm"
)

// answered is a request that the provider has answered, as the chart shows it.
type answered struct {
	at      time.Duration // since the agents began
	refused bool          // with 429
}

// timeline is what became of all requests, in the order in which they were answered.
func timeline(log []devllm.Entry, begun time.Time) []answered {
	var all []answered
	for _, e := range log {
		if e.Status == http.StatusOK || e.Status == http.StatusTooManyRequests {
			all = append(all, answered{e.Time.Sub(begun), e.Status == http.StatusTooManyRequests})
		}
	}
	slices.SortStableFunc(all, func(a, b answered) int { return int(a.at - b.at) })
	return all
}

// Sizes of the chart, in pixels.
const (
	chartWidth, chartHeight = 760, 380
	chartLeft, chartRight   = 60, 20
	chartTop, chartBottom   = 64, 56
	plotWidth, plotHeight   = chartWidth - chartLeft - chartRight, chartHeight - chartTop - chartBottom
	markHeight              = 10
)

// chart draws how many answers the agents of both sides had by when, and each refusal.
func (x *experiment) chart(raw, ours trial) []byte {
	last := max(raw.took, ours.took, time.Second)
	most := max(x.agents*(x.steps+1), 1)
	across := func(at time.Duration) float64 { return chartLeft + plotWidth*float64(at)/float64(last) }
	up := func(n int) float64 { return chartTop + plotHeight*(1-float64(n)/float64(most)) }
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="16">%d agents and one key: answers, and refusals with 429</text>`+"\n", chartLeft, x.agents)
	for i := range 6 {
		n := most * i / 5
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end" fill="#555">%d</text>`+"\n", chartLeft, up(n), chartWidth-chartRight, chartLeft-8, up(n)+4, n)
		at := last * time.Duration(i) / 5
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%.0f s</text>`+"\n", across(at), chartHeight-chartBottom+20, at.Seconds())
	}
	for i, side := range []struct {
		name, colour string
		of           trial
	}{{"clients that retry", "#d1495b", raw}, {"with the kernel", "#2e6f95", ours}} {
		n := 0
		fmt.Fprintf(&b, `<path fill="none" stroke="%s" stroke-width="2" d="M%d %.1f`, side.colour, chartLeft, up(0))
		for _, a := range side.of.timeline {
			if !a.refused {
				n++
				fmt.Fprintf(&b, "H%.1fV%.1f", across(a.at), up(n))
			}
		}
		b.WriteString(`"/>` + "\n")
		for _, a := range side.of.timeline {
			if a.refused {
				fmt.Fprintf(&b, `<path stroke="%s" stroke-opacity="0.6" d="M%.1f %dv%d"/>`, side.colour, across(a.at), chartHeight-chartBottom-markHeight, markHeight)
			}
		}
		fmt.Fprintf(&b, "\n"+`<rect x="%d" y="%d" width="12" height="3" fill="%s"/><text x="%d" y="%d">%s: %d answers, %d refusals, %d agents failed, %s</text>`+"\n",
			chartLeft, 36+16*i, side.colour, chartLeft+18, 41+16*i, side.name, n, len(side.of.timeline)-n, side.of.failed, span(side.of.took))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#555">time since all agents began; a mark at the bottom is a request that was refused</text>`+"\n</svg>\n", chartLeft, chartHeight-14)
	return b.Bytes()
}

// draw writes the chart to the file that was asked for, if one was.
func (b *bench) draw(svg []byte) error {
	if b.chart == "" {
		return nil
	}
	return os.WriteFile(b.chart, svg, 0o644) //nolint:gosec // a picture for everybody
}
