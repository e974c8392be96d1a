package secret

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"sync"
)

// runShapes are tokens without a distinctive beginning. They are matched against long runs
// of characters that tokens consist of; the first group is redacted, else the whole match.
var runShapes = []struct {
	name   string
	form   func() *regexp.Regexp
	min    int    // length of the shortest run
	needs  string // text in the run
	accept func([]byte) bool
}{
	{"airtable-token", lazy(`(?:^|[^a-zA-Z0-9])(pat[a-zA-Z0-9]{14}\.[0-9a-f]{64})$`), 82, "pat", nil},
	{"aws-secret-key", lazy(`(?:^|[=:,])([A-Za-z0-9+/]{40})$`), 40, "", veryRandom},
	{"azure-client-secret", lazy(`(?:^|[=:])([a-zA-Z0-9_~.]{3}\dQ~[a-zA-Z0-9_~.-]{31,34})$`), 37, "Q~", nil},
	{"discord-bot-token", lazy(`(?:^|[=:])([MNO][\w-]{23,27}\.[\w-]{6,7}\.[\w-]{27,45})$`), 58, ".", veryRandom},
	{"facebook-app-token", lazy(`(?:^|[=:])(\d{15,16}[|%][\w-]{27,40})$`), 43, "|", veryRandom},
	{"maxmind-license-key", lazy(`(?:^|[=:])([A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)$`), 40, "_mmk", nil},
	{"paypal-client-secret", lazy(`(?:^|[=:])([AE][\w-]{79})$`), 80, "", veryRandom},
	{"telegram-bot-token", lazy(`(?:^|[^0-9])(\d{8,10}:A[\w-]{34})(?:$|/)`), 44, ":A", nil},
	{"twilio-key", lazy(`(?:^|[^A-Za-z0-9])((?:SK|AC)[0-9a-f]{32})(?:$|[^A-Za-z0-9])`), 34, "", nil},
	{"vault-token", lazy(`(?:^|[=:])(s\.[A-Za-z0-9]{24})$`), 26, "s.", veryRandom},
}

func lazy(form string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(form) })
}

const (
	runStride = 16
	runLook   = 8
	minRun    = 26
	maxRun    = 256
)

// runBytes are the characters of a run.
var runBytes = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_~.:|%-") {
		is[c] = true
	}
	return is
}()

// findRuns finds tokens without a distinctive beginning. A run of minRun characters has
// runLook in a row at a multiple of runStride.
func findRuns(p []byte) []Span {
	var spans []Span
	for i := 0; i+runLook <= len(p); i += runStride {
		w := binary.LittleEndian.Uint64(p[i:])
		if (hasByteBelow(w, '%')|hasByteAbove(w, '~'))&highBits != 0 || !runBytes[p[i]] {
			continue
		}
		start, end := i, i+1
		for start > 0 && i-start < maxRun && runBytes[p[start-1]] {
			start--
		}
		for end < len(p) && end-i <= maxRun && runBytes[p[end]] {
			end++
		}
		if n := end - start; n >= minRun && n <= maxRun {
			spans = append(spans, matchRun(p, start, end)...)
		}
		for i+runStride < end { // the rest of the run
			i += runStride
		}
	}
	return spans
}

// matchRun matches one run. A full stop or a colon at its end belongs to the sentence.
func matchRun(p []byte, start, end int) []Span {
	for end > start && (p[end-1] == '.' || p[end-1] == ':') {
		end--
	}
	run := p[start:end]
	if k := kindsOf(run); k.digits < 2 || k.changes < 10 {
		return nil // a name or a path
	}
	for _, s := range runShapes {
		if len(run) < s.min || s.needs != "" && !bytes.Contains(run, []byte(s.needs)) {
			continue
		}
		m := s.form().FindSubmatchIndex(run)
		if m == nil {
			continue
		}
		if v := run[m[2]:m[3]]; (s.accept == nil || s.accept(v)) && !isExample(v) {
			return []Span{{start + m[2], start + m[3], s.name}}
		}
	}
	return nil
}

// veryRandom reports whether a text without a name is random: one with a name needs less.
func veryRandom(v []byte) bool {
	k := kindsOf(v)
	return k.lower > 0 && k.upper > 0 && k.numbers > 1 && k.others*9 < len(v) && k.changes*20 >= len(v)*7 && entropy(v) >= 3.8
}

// kinds counts the characters of a text by kind.
type kinds struct {
	lower, upper, digits, others int
	numbers                      int // runs of digits
	changes                      int // characters of another kind than the one before
}

func kindsOf(v []byte) kinds {
	var k kinds
	last := 0
	for _, c := range v {
		kind := 4
		switch {
		case c >= 'a' && c <= 'z':
			k.lower++
			kind = 1
		case c >= 'A' && c <= 'Z':
			k.upper++
			kind = 2
		case c >= '0' && c <= '9':
			k.digits++
			if kind = 3; last != kind {
				k.numbers++
			}
		default:
			k.others++
		}
		if kind != last {
			k.changes++
		}
		last = kind
	}
	return k
}
