// Command gen writes the files that the examples read: sales and stock prices, the same bytes on every machine.
// It must never depend on the clock or on the platform, because tests compare what is computed from it.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

const year = 2025

var regions = []string{"north", "south", "east", "west"}

// products with their price in cents.
var products = []struct {
	name  string
	cents int
}{
	{"keyboard", 4990}, {"mouse", 2450}, {"monitor", 18900}, {"laptop", 99900},
	{"headset", 7995}, {"webcam", 5925}, {"dock", 14950}, {"cable", 895},
}

func main() {
	out := flag.String("o", "examples/data/sales.csv", "file to write")
	rows := flag.Int("rows", 50_000, "number of rows")
	stocks := flag.Bool("stocks", false, "write stock prices instead of sales")
	flag.Parse()
	kind := write
	if *stocks {
		kind = writeStocks
	}
	if err := writeFile(*out, *rows, kind); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// writeFile writes beside the target and renames, so that a broken run leaves no half file for make to trust.
func writeFile(path string, rows int, write func(io.Writer, int) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".gen-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	w := bufio.NewWriter(tmp)
	if err := write(w, rows); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func write(w io.Writer, rows int) error {
	if _, err := fmt.Fprintln(w, "date,order,region,product,quantity,unit_price"); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(2025, 11))
	first := time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC)
	for i := range rows {
		// Sales come in the order of the year, and thicken towards its end.
		share := float64(i) / float64(rows)
		day := int(365 * share * (1.25 - 0.25*share))
		product := products[rng.IntN(len(products))]
		cents := product.cents * (90 + rng.IntN(21)) / 100
		_, err := fmt.Fprintf(w, "%s,%d,%s,%s,%d,%d.%02d\n", first.AddDate(0, 0, day).Format(time.DateOnly),
			100_001+i, regions[rng.IntN(len(regions))], product.name, 1+rng.IntN(5), cents/100, cents%100)
		if err != nil {
			return err
		}
	}
	return nil
}
