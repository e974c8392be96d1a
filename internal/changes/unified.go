package changes

import (
	"fmt"
	"io"
	"strings"

	"github.com/croft-run/croft/workspace/driver"
)

// WriteUnified writes a comparison with hunks as a git diff,
// which patch(1) reads, too.
func (c *Comparison) WriteUnified(w io.Writer) error {
	var b strings.Builder
	for i := range c.Changes {
		b.Reset()
		c.Changes[i].writeUnified(&b)
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}

func (c *FileChange) writeUnified(b *strings.Builder) {
	if c.IsDir() { // as in git, a directory shows only by its entries
		if c.Kind == ModeOnly { // git and patch(1) skip other lines between patches
			fmt.Fprintf(b, "directory %s: mode %04o -> %04o\n", gitQuote(c.Path), c.Old.Mode, c.New.Mode)
		}
		return
	}
	from := c.Path
	if c.From != "" {
		from = c.From
	}
	fmt.Fprintf(b, "diff --git %s %s\n", gitQuote("a/"+from), gitQuote("b/"+c.Path))
	switch c.Kind {
	case Added:
		fmt.Fprintf(b, "new file mode %s\n", gitMode(c.New))
	case Removed:
		fmt.Fprintf(b, "deleted file mode %s\n", gitMode(c.Old))
	case Renamed:
		c.writeModes(b)
		fmt.Fprintf(b, "similarity index 100%%\nrename from %s\nrename to %s\n", gitQuote(from), gitQuote(c.Path))
		return
	default:
		c.writeModes(b)
	}
	if c.Patch != "" {
		b.WriteString(c.Patch)
		return
	}
	if c.Binary || c.TooBig {
		fmt.Fprintf(b, "Binary files %s and %s differ\n", c.headerName("a/", from, c.Old), c.headerName("b/", c.Path, c.New))
		return
	}
	if len(c.Hunks) == 0 {
		return
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n", tabAfterSpace(c.headerName("a/", from, c.Old)), tabAfterSpace(c.headerName("b/", c.Path, c.New)))
	for _, h := range c.Hunks {
		b.WriteString(h.String())
	}
}

func (c *FileChange) writeModes(b *strings.Builder) {
	if c.Old.Mode != c.New.Mode && c.Old.Type != driver.TypeSymlink {
		fmt.Fprintf(b, "old mode %s\nnew mode %s\n", gitMode(c.Old), gitMode(c.New))
	}
}

func (c *FileChange) headerName(prefix, path string, s *Side) string {
	if s == nil {
		return "/dev/null"
	}
	return gitQuote(prefix + path)
}

// tabAfterSpace adds a tab to a name with a space, as git does: patch(1) would take
// the text after the space for a time.
func tabAfterSpace(name string) string {
	if strings.Contains(name, " ") {
		return name + "\t"
	}
	return name
}

func gitMode(s *Side) string {
	switch s.Type {
	case driver.TypeSymlink:
		return "120000"
	}
	return fmt.Sprintf("10%04o", s.Mode)
}

// gitQuote writes a path as git does: in quotes if it has a special character, or
// if an element ends in a space, after which git looks for another name in a
// header.
func gitQuote(path string) string {
	if !strings.Contains(path+"/", " /") && !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f || r > 0x7e }) {
		return path
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(path) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// WriteStat writes one line per change and a total, as git diff --stat does.
func (c *Comparison) WriteStat(w io.Writer) error {
	width, files := 0, c.Files()
	for _, ch := range files {
		width = max(width, len(ch.displayName()))
	}
	for _, ch := range files {
		what := fmt.Sprintf("%d %s", ch.LinesAdded+ch.LinesRemoved, changeBar(ch.LinesAdded, ch.LinesRemoved))
		switch {
		case ch.Binary || ch.TooBig:
			what = fmt.Sprintf("Bin %d -> %d bytes", sideSize(ch.Old), sideSize(ch.New))
		case ch.IsDir() && ch.Kind != ModeOnly:
			what = "directory"
		case ch.Kind == ModeOnly:
			what = fmt.Sprintf("mode %04o -> %04o", ch.Old.Mode, ch.New.Mode)
		}
		if _, err := fmt.Fprintf(w, " %-*s | %s\n", width, ch.displayName(), strings.TrimRight(what, " ")); err != nil {
			return err
		}
	}
	s := c.Stats
	_, err := fmt.Fprintf(w, " %d changed: %d added, %d removed, %d modified, %d renamed, %d mode; %d lines added(+), %d lines removed(-)\n",
		s.Files(), s.Added, s.Removed, s.Modified, s.Renamed, s.Mode, s.LinesAdded, s.LinesRemoved)
	return err
}

func (c *FileChange) displayName() string {
	if c.From != "" {
		return gitQuote(c.From) + " => " + gitQuote(c.Path)
	}
	return gitQuote(c.Path)
}

func sideSize(s *Side) int64 {
	if s == nil {
		return 0
	}
	return s.Size
}

// changeBar draws pluses and minuses, at most forty.
func changeBar(added, removed int) string {
	const most = 40
	if sum := added + removed; sum > most {
		scaled := added * most / sum
		if added > 0 {
			scaled = max(scaled, 1)
		}
		added, removed = scaled, min(removed, most-scaled)
	}
	return strings.Repeat("+", added) + strings.Repeat("-", removed)
}
