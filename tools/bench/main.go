// Command bench measures Croft beside what people would use without it, in one
// run, and prints ratios. Absolute times prove nothing on a noisy machine; a
// ratio of medians taken in turns does.
//
// A family is a file of this package: it prepares its files once and adds
// rows. A row has a reference, named, and ours; the harness runs the two in
// turns, as often as the time allows, and takes the medians.
//
//	bin/tools/bench                  all families
//	bin/tools/bench -family grep     one
//	bin/tools/bench -row 'first'     only the rows that have this in their names
//	bin/tools/bench -o FILE          write the rows as JSON, too
//	bin/tools/bench -large=false     without what takes minutes
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Row is one comparison, as it is printed and written.
type Row struct {
	Family string  `json:"family"`
	Name   string  `json:"name"`
	OursNS int64   `json:"ours_ns"` // median
	Ref    string  `json:"ref"`     // what it is compared with
	RefNS  int64   `json:"ref_ns"`  // median
	Ratio  float64 `json:"ratio"`   // ours / ref: below 1 we are faster
	N      int     `json:"n"`       // repetitions of each
	Bound  float64 `json:"bound,omitempty"`

	Most int64  `json:"most,omitempty"` // what ours may be at most, in the unit of the row; 0 is no such bound
	Fine int64  `json:"fine,omitempty"` // up to this, in the unit of the row, ours is within Bound whatever the ratio; 0 is no such value
	Unit string `json:"unit,omitempty"` // "" is nanoseconds; "bytes" where ours and the reference are memory
}

// missesBound reports whether the row exceeds its bounds.
func (r Row) missesBound() bool {
	return r.Bound > 0 && r.Ratio > r.Bound && r.OursNS > r.Fine || r.Most > 0 && r.OursNS > r.Most
}

// formatValue formats a value of the row.
func (r Row) formatValue(value int64) string {
	if r.Unit == bytesUnit {
		return fmt.Sprintf("%.1f MiB", float64(value)/(1<<20))
	}
	return roundDuration(value).String()
}

const bytesUnit = "bytes"

// A family measures one subject.
type family struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

var families = []family{
	{"grep", benchGrep},
	{"glob", benchGlob},
	{"search_code", benchSearchCode},
	{"scrub", benchScrub},
	{"files", benchFiles},
	{"registry", benchRegistry},
	{"exec", benchExec},
	{"open", benchOpen},
	{"parallel", benchParallel},
	{"memory", benchMemory},
	{"snapshot", benchSnapshot},
	{"mcp", benchMCP},
	{"eval", benchEval},
	{"docker", benchDocker},
	{"server", benchServer},
	{"cli", benchCLI},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	which := flags.String("family", "all", "all, or one of "+strings.Join(familyNames(), ", "))
	file := flags.String("o", "", "write the rows as JSON to this file")
	budget := flags.Duration("time", 4*time.Second, "time for each row")
	large := flags.Bool("large", true, "also what takes minutes: snapshots of 100,000 files")
	row := flags.String("row", "", "only the rows that have this in their names")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *which != "all" && !slices.Contains(familyNames(), *which) {
		return fmt.Errorf("unknown family %q; the families are %s", *which, strings.Join(familyNames(), ", "))
	}
	b := &bench{budget: *budget, large: *large, row: *row, log: os.Stderr}
	for _, f := range families {
		if *which != "all" && *which != f.name {
			continue
		}
		b.family = f.name
		if err := b.runFamily(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	printTable(out, b.rows)
	if *file == "" {
		return nil
	}
	data, err := json.MarshalIndent(b.rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*file, append(data, '\n'), 0o644)
}

func familyNames() []string {
	var list []string
	for _, f := range families {
		list = append(list, f.name)
	}
	return list
}

func printTable(out io.Writer, rows []Row) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "family\tname\tours\tref\tref time\tratio\tbound\tn")
	for _, r := range rows {
		bound := ""
		if r.Bound > 0 {
			bound = fmt.Sprintf("<= %.2f", r.Bound)
		}
		if r.Fine > 0 {
			bound += " or " + r.formatValue(r.Fine)
		}
		if r.Most > 0 {
			bound = "<= " + r.formatValue(r.Most)
		}
		if r.missesBound() {
			bound += " MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.2f\t%s\t%d\n", r.Family, r.Name,
			r.formatValue(r.OursNS), r.Ref, r.formatValue(r.RefNS), r.Ratio, bound, r.N)
	}
	w.Flush()
}

func roundDuration(ns int64) time.Duration {
	d := time.Duration(ns)
	switch {
	case d > 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	case d > 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond)
	}
	return d
}
