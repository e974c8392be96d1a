// Command words prints how the names and comments of the module differ from
// docs/glossary.md and from the style of comparable Go projects. It is a mirror,
// not a gate: it fails only where it can't read the glossary.
//
//	words [-by-package] [DIR | DIR/...]...
//
// It is run at the root of the module. It reads all Go files there and in nested
// modules except tests, testdata and generated files; of a test it looks at the
// file name alone. Directories select what is printed. With -by-package the two
// percentages of each package are printed instead of the findings.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	byPackage := flag.Bool("by-package", false, "print the two percentages of each package, worst first")
	flag.Parse()
	if err := run(os.Stdout, os.DirFS("."), *byPackage, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
}

// run prints what needs no glossary even where the glossary can't be read.
func run(out io.Writer, module fs.FS, byPackage bool, dirs []string) error {
	glossary, glossaryErr := readGlossary(module)
	s := scanModule(module, glossary)
	if byPackage {
		printPackages(out, s, dirs)
	} else {
		printFindings(out, s, dirs)
	}
	printTotals(out, s, dirs)
	return glossaryErr
}

func printFindings(out io.Writer, s *scan, dirs []string) {
	for kind, title := range titles {
		list := slices.DeleteFunc(s.findings[kind], func(f finding) bool { return !isSelected(path.Dir(f.file), dirs) })
		slices.SortFunc(list, func(a, b finding) int {
			return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
		})
		fmt.Fprintf(out, "%s: %d\n", title, len(list))
		for _, f := range list {
			fmt.Fprintf(out, "%s:%d: %s\n", f.file, f.line, f.text)
		}
		fmt.Fprintln(out)
	}
}

// printPackages prints the package with the highest sum of percentages first.
func printPackages(out io.Writer, s *scan, dirs []string) {
	var list []string
	for dir := range s.counts {
		if isSelected(dir, dirs) {
			list = append(list, dir)
		}
	}
	sum := func(dir string) float64 { return s.counts[dir].functions.percent() + s.counts[dir].comments.percent() }
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(sum(b), sum(a)), strings.Compare(a, b))
	})
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "functions\tof\tcomments\tof\t package")
	for _, dir := range list {
		f, c := s.counts[dir].functions, s.counts[dir].comments
		fmt.Fprintf(w, "%.0f %%\t%d\t%.1f %%\t%d\t %s\n", f.percent(), f.all, c.percent(), c.all, dir)
	}
	w.Flush() //nolint:errcheck // as for every other line that is printed
	fmt.Fprintln(out)
}

func printTotals(out io.Writer, s *scan, dirs []string) {
	var f, c share
	for dir, n := range s.counts {
		if isSelected(dir, dirs) {
			f = share{f.some + n.functions.some, f.all + n.functions.all}
			c = share{c.some + n.comments.some, c.all + n.comments.all}
		}
	}
	fmt.Fprintf(out, "functions and methods with a name of one lower-case word: %.0f %% (%d of %d)\n", f.percent(), f.some, f.all)
	fmt.Fprintln(out, "\trestic 6 %, go-cloud 6 %, go-sdk 9 %, runc 12 %")
	fmt.Fprintf(out, "comment lines with %s: %.1f %% (%d of %d)\n", strings.ReplaceAll(commentWords, "|", ", "), c.percent(), c.some, c.all)
	fmt.Fprintln(out, "\trestic 0.1 %, go-cloud 0.1 %, go-sdk 0.2 %, runc 0.3 %")
}

// isSelected reports whether a directory is one of dirs, or in one that ends in
// "/...". Without dirs all are.
func isSelected(dir string, dirs []string) bool {
	return len(dirs) == 0 || slices.ContainsFunc(dirs, func(d string) bool {
		d = path.Clean(d)
		parent, tree := strings.CutSuffix("/"+d, "/...")
		return d == dir || tree && strings.HasPrefix("/"+dir+"/", parent+"/")
	})
}
