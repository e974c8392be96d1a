package secret

// scanDump scans the lines of a hex dump (od, hexdump -C, xxd) around i: an offset, bytes
// as two hexadecimal digits each, alone or in groups, and the characters. It returns the
// index after the dump, or 0 if there is no dump.
func (f *foldedSearch) scanDump(i int) int {
	for floor := max(f.floor, i-maxDump); i > floor && f.p[i-1] != '\n'; i-- {
	}
	f.at, f.pieces = 0, f.pieces[:0]
	from := i
	for i < len(f.p) {
		next, n := f.dumpLine(i)
		if n == 0 {
			break
		}
		if i = next; n < minDump {
			break
		}
	}
	if i == from {
		return 0
	}
	return i
}

const (
	minDump = 8   // minimum bytes of a line, except the last
	maxDump = 400 // maximum characters of a line
)

// dumpLine feeds the bytes of a line to the automaton. It returns the start of the next
// line and the number of bytes.
func (f *foldedSearch) dumpLine(line int) (next, n int) {
	end := f.lineEnd(line, maxDump)
	next = min(end+1, len(f.p))
	groups, rest := f.dumpGroups(line, end)
	tail := 0
	if rest < end {
		tail = end // the characters
	}
	for _, g := range groups {
		f.feedPiece(piece{g[0], g[1], tail})
		n += (g[1] - g[0]) / 2
	}
	return next, n
}

// dumpGroups returns the groups of digits of a line, and the index after them.
func (f *foldedSearch) dumpGroups(i, end int) (groups [][2]int, rest int) {
	i = f.dumpOffset(i, end)
	for width, n := 0, 0; i < end; {
		gap := i
		for i < end && f.p[i] == ' ' {
			i++
		}
		start := i
		for i < end && isHex(f.p[i]) {
			i++
		}
		digits := i - start
		// Two blanks precede the characters, and separate two groups of eight bytes.
		columns := start-gap > 1 && n > 0 && (width != 2 || n != 8)
		if columns || digits < 2 || digits%2 != 0 || width > 0 && digits > width || i < end && f.p[i] != ' ' && f.p[i] != '\r' {
			return groups, start
		}
		groups = append(groups, [2]int{start, i})
		width, n = max(width, digits), n+digits/2
		if i < end && f.p[i] == '\r' {
			break
		}
	}
	return groups, end
}

// dumpOffset returns the index after the line number and the offset, if there are any.
func (f *foldedSearch) dumpOffset(i, end int) int {
	for _, mark := range []byte("\t:") {
		at := i
		for at < end && (isHex(f.p[at]) || f.p[at] == ' ') {
			at++
		}
		if at < end && f.p[at] == mark {
			i = at + 1
		}
	}
	at := i
	for at < end && isHex(f.p[at]) {
		at++
	}
	if at-i > 5 && at < end && f.p[at] == ' ' {
		return at
	}
	return i
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
