package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// printAnswer prints v as JSON with --json, and else calls text.
func (a *command) printAnswer(v any, text func(w io.Writer) error) error {
	if !a.json {
		return text(a.Out)
	}
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printJSONOnly prints v with --json, and else nothing.
func (a *command) printJSONOnly(v any) error {
	return a.printAnswer(v, func(io.Writer) error { return nil })
}

// printRemoved prints the name of a removed thing. The key deleted is an older name of
// the key removed.
func (a *command) printRemoved(name string) error {
	return a.printAnswer(map[string]string{"removed": name, "deleted": name}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "removed", printable(name))
		return err
	})
}

// note prints a line to standard error, except with --json, where standard error has
// only an error as JSON.
func (a *command) note(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.Err, format+"\n", args...)
	}
}

// writeTable prints rows in columns. Texts of users and workloads, such as labels and
// paths, are among the cells, so a cell that a terminal could interpret is quoted.
func writeTable(w io.Writer, rows [][]string) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	return out.Flush()
}

// printable returns a name, quoted if it has control characters or invalid UTF-8,
// which a terminal could interpret.
func printable(name string) string {
	plain := utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	if plain {
		return name
	}
	return strconv.QuoteToASCII(name)
}

// printableText returns a text of several lines with its control characters escaped.
func printableText(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

func labelText(labels map[string]string) string {
	var pairs []string
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
