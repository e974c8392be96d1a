package console

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// checkedOutput is a standard stream. It names the stream in errors, and keeps the first one:
// a command whose output was lost did not succeed.
type checkedOutput struct {
	io.Writer
	name string

	mu  sync.Mutex
	err error // the first
}

// Write writes to the stream.
func (o *checkedOutput) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err == nil {
		return n, nil
	}
	if inner := new(fs.PathError); errors.As(err, &inner) {
		err = inner.Err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	err = fmt.Errorf("write %s: %w", o.name, err)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// lost returns the error of the first write that failed.
func (o *checkedOutput) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// PrintAnswer prints v as JSON with --json, and else calls text.
func (a *Console) PrintAnswer(v any, text func(w io.Writer) error) error {
	if !a.JSON {
		return text(a.Out)
	}
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// PrintJSONOnly prints v with --json, and else nothing.
func (a *Console) PrintJSONOnly(v any) error {
	return a.PrintAnswer(v, func(io.Writer) error { return nil })
}

// Note prints a line to standard error, except with --json, where standard error has
// JSON only: see ReportError and NoteRecovered. Beside a log in JSON it is a record.
func (a *Console) Note(format string, args ...any) {
	text := fmt.Sprintf(format+"\n", args...)
	switch {
	case a.JSON:
	case a.Notes != nil:
		a.Notes.Info(strings.TrimPrefix(strings.TrimSuffix(text, "\n"), "croft: "))
	case a.view != nil:
		a.view.Print(text)
	default:
		fmt.Fprint(a.Err, text)
	}
}

// WriteTable prints rows in columns. Texts of users and workloads, such as labels and
// paths, are among the cells, so a cell that a terminal could interpret is quoted. drop has
// titles of columns, the least important first: a terminal that is too narrow for all
// columns shows the others.
func WriteTable(w io.Writer, rows [][]string, drop ...string) error {
	width := tableWidth(w, rows)
	cells := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			cells[i] = append(cells[i], Printable(cell))
		}
	}
	if width > 0 {
		cells = fitTable(cells, width, drop)
	}
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 8, columnGap, ' ', 0)
	for _, row := range cells {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(out, cutLine(strings.TrimRight(line, " \n"), width))
	}
	return out.Flush()
}

const (
	columnGap = 2
	minColumn = 8 // characters that a cut column has at least
)

// fitTable drops columns of a list until the rest fits into a width, except for the last
// column, which is cut. If that is not enough, it cuts the widest of the other columns.
func fitTable(rows [][]string, width int, drop []string) [][]string {
	for {
		widths := columnWidths(rows)
		last := len(widths) - 1
		need, widest := min(widths[last], minColumn), 0
		for i, n := range widths[:last] {
			need += n + columnGap
			if n > widths[widest] {
				widest = i
			}
		}
		switch {
		case need <= width || last == 0:
			return rows
		case len(drop) > 0:
			rows, drop = dropColumn(rows, drop[0]), drop[1:]
		default:
			to := max(widths[widest]-(need-width), minColumn)
			for _, row := range rows {
				if widest < len(row) {
					row[widest] = cutLine(row[widest], to)
				}
			}
			return rows
		}
	}
}

func columnWidths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// dropColumn removes the column with a title. An ID takes the place of a missing NAME.
func dropColumn(rows [][]string, title string) [][]string {
	at := slices.Index(rows[0], title)
	if at < 0 {
		return rows
	}
	name := slices.Index(rows[0], "NAME")
	left := make([][]string, len(rows))
	for i, row := range rows {
		if title == "ID" && name >= 0 && row[name] == "-" {
			row[name] = row[at]
		}
		left[i] = slices.Delete(row, at, at+1)
	}
	return left
}

// tableWidth returns the width of the lines of a list, one with a line of titles, on a
// terminal. Other tables are not cut: 0.
func tableWidth(w io.Writer, rows [][]string) int {
	if len(rows) == 0 || len(rows[0]) == 0 || rows[0][0] != strings.ToUpper(rows[0][0]) {
		return 0
	}
	f, ok := TerminalFile(w)
	if !ok {
		return 0
	}
	cols, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return cols
}

// cutLine cuts a line to a width, 0 for any, so that the terminal does not wrap it.
func cutLine(line string, width int) string {
	if r := []rune(line); width > 1 && len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return line
}

// isShown reports whether a terminal shows a character and does nothing else with it.
func isShown(r rune) bool {
	return unicode.IsPrint(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) // Hangul fillers are letters that nobody sees
}

// Printable returns a name, quoted if it has control characters, invisible ones or invalid
// UTF-8, which a terminal could interpret.
func Printable(name string) string {
	plain := utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !isShown(r) })
	if plain {
		return name
	}
	return strconv.QuoteToASCII(name)
}

// PrintableText returns a text of several lines with its control characters escaped.
func PrintableText(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || isShown(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// LabelText formats labels, sorted by name.
func LabelText(labels map[string]string) string {
	var pairs []string
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// TimeText formats a time, or "-" for none.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// OrDash returns s, or "-" for "".
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// UseColour reports whether w is a terminal with colours, and NO_COLOR is not set.
func UseColour(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, ok := TerminalFile(w)
	return ok
}
