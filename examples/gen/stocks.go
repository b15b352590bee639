package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// companies whose shares are traded, with their first price.
var companies = []struct {
	symbol string
	price  float64
}{{"ALFA", 120}, {"BETA", 34.5}, {"GAMA", 310}, {"DELT", 8.75}, {"OMEG", 61}}

// writeStocks writes the closing prices of some companies, one row a company and working day.
func writeStocks(w io.Writer, rows int) error {
	if _, err := fmt.Fprintln(w, "date,symbol,open,close,volume"); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(2025, 12))
	cents := make([]int, len(companies))
	for i, c := range companies {
		cents[i] = int(c.price * 100)
	}
	day := time.Date(2018, time.January, 1, 0, 0, 0, 0, time.UTC)
	for written := 0; written < rows; day = day.AddDate(0, 0, 1) {
		if day.Weekday() == time.Saturday || day.Weekday() == time.Sunday {
			continue
		}
		for i, c := range companies {
			open := cents[i]
			// Whole numbers only: a price moves by at most 3 %, a little more often up than down.
			cents[i] = max(100, open+open*(rng.IntN(601)-298)/10_000)
			if _, err := fmt.Fprintf(w, "%s,%s,%d.%02d,%d.%02d,%d\n", day.Format(time.DateOnly), c.symbol,
				open/100, open%100, cents[i]/100, cents[i]%100, 1000+rng.IntN(90_000)); err != nil {
				return err
			}
			written++
		}
	}
	return nil
}
