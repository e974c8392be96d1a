// Command binsize prints what a Go program for Linux is made of: its sections, and
// the machine code of each module it links. It fails where the file is more than
// 2 MB larger than a recorded size.
//
//	binsize [-recorded MB] [-most N] FILE
package main

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"debug/gosym"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

const (
	mb     = 1e6
	margin = 2 * mb // how much a file may exceed the recorded size
)

func main() {
	recorded := flag.Float64("recorded", 0, "recorded size in MB; 0 is none")
	most := flag.Int("most", 20, "how many modules to print")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, flag.Arg(0), *recorded, *most); err != nil {
		fmt.Fprintln(os.Stderr, "binsize:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, path string, recorded float64, most int) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	modules, err := codeByModule(f, path)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS && s.FileSize >= mb/10 {
			fmt.Fprintf(w, "%.1f MB\t section %s\n", float64(s.FileSize)/mb, s.Name)
		}
	}
	for i, m := range modules {
		if i == most {
			break
		}
		fmt.Fprintf(w, "%.1f MB\t code of %s\n", float64(m.size)/mb, m.name)
	}
	fmt.Fprintf(w, "%.1f MB\t %s\n", float64(info.Size())/mb, path)
	if err := w.Flush(); err != nil {
		return err
	}
	if recorded > 0 && float64(info.Size()) > recorded*mb+margin {
		return fmt.Errorf("%s has %.1f MB, more than 2 MB above the recorded %.1f MB: make it smaller, or raise the recorded size in a commit that says why", path, float64(info.Size())/mb, recorded)
	}
	return nil
}

type module struct {
	name string
	size uint64
}

// codeByModule adds up the functions of each module, largest first. It reads the table
// that the runtime keeps for stack traces, which a stripped program has, too.
func codeByModule(f *elf.File, path string) ([]module, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text, table := f.Section(".text"), f.Section(".gopclntab")
	if text == nil || table == nil {
		return nil, fmt.Errorf("%s has no .text or no .gopclntab: it is not a Go program", path)
	}
	data, err := table.Data()
	if err != nil {
		return nil, err
	}
	symbols, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil, err
	}
	names := []string{info.Main.Path}
	for _, d := range info.Deps {
		names = append(names, d.Path)
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) }) // the longest prefix first
	sizes := map[string]uint64{}
	for _, fn := range symbols.Funcs {
		sizes[moduleOf(fn.Name, names)] += fn.End - fn.Entry
	}
	var list []module
	for name, size := range sizes {
		list = append(list, module{name, size})
	}
	slices.SortFunc(list, func(a, b module) int { return cmp.Or(cmp.Compare(b.size, a.size), strings.Compare(a.name, b.name)) })
	return list, nil
}

// moduleOf returns the module that a function belongs to; names are sorted with the
// longest first.
func moduleOf(function string, names []string) string {
	function = strings.ReplaceAll(function, "%2e", ".") // how the linker writes a dot in the last element of a path
	for _, name := range names {
		if rest, ok := strings.CutPrefix(function, name); ok && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, ".")) {
			return name
		}
	}
	return "the standard library"
}
