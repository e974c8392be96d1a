package verify

import (
	"fmt"
	"strings"
)

// diffOf shows how two values differ, line by line.
func diffOf(want, got string) string {
	if want == got {
		return ""
	}
	var b strings.Builder
	for _, e := range edits(splitLines(want), splitLines(got)) {
		b.WriteByte(e.op)
		b.WriteString(e.line)
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// unified is a unified diff of a file's text before and after, with three lines
// of context; it is empty where nothing changed.
func unified(name, before, after string) string {
	if before == after {
		return ""
	}
	list := edits(splitLines(before), splitLines(after))
	var b strings.Builder
	fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", name, name)
	const context = 3
	from, to := 1, 1 // line numbers at i
	for i := 0; i < len(list); {
		if list[i].op == ' ' {
			i, from, to = i+1, from+1, to+1
			continue
		}
		start := max(0, i-context)
		end, quiet := i, 0
		for j := i; j < len(list) && quiet <= 2*context; j++ {
			if list[j].op == ' ' {
				quiet++
			} else {
				quiet, end = 0, j+1
			}
		}
		end = min(len(list), end+context)
		lead := i - start
		hunk(&b, list[start:end], from-lead, to-lead)
		for _, e := range list[i:end] {
			if e.op != '+' {
				from++
			}
			if e.op != '-' {
				to++
			}
		}
		i = end
	}
	return b.String()
}

func hunk(b *strings.Builder, list []edit, from, to int) {
	var removed, added int
	for _, e := range list {
		if e.op != '+' {
			removed++
		}
		if e.op != '-' {
			added++
		}
	}
	if removed == 0 {
		from--
	}
	if added == 0 {
		to--
	}
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", from, removed, to, added)
	for _, e := range list {
		b.WriteByte(e.op)
		b.WriteString(e.line)
		b.WriteByte('\n')
	}
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

type edit struct {
	op   byte // ' ', '-' or '+'
	line string
}

// maxTable bounds the work of finding the longest common part; beyond it what
// lies between the common head and tail is shown as replaced.
const maxTable = 4 << 20

// edits turns a into b: the common head and tail, and between them the longest
// common subsequence.
func edits(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []edit
	for _, line := range a[:head] {
		out = append(out, edit{' ', line})
	}
	out = append(out, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, line := range a[len(a)-tail:] {
		out = append(out, edit{' ', line})
	}
	return out
}

func middle(a, b []string) []edit {
	var out []edit
	if len(a)*len(b) > maxTable {
		for _, line := range a {
			out = append(out, edit{'-', line})
		}
		for _, line := range b {
			out = append(out, edit{'+', line})
		}
		return out
	}
	table := make([][]int32, len(a)+1)
	for i := range table {
		table[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && table[i+1][j] >= table[i][j+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}
