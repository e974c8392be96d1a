package cmdpolicy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// addSpecial adds the calls of a program that runs other programs in its own way, and
// returns the program's own words.
func (f *analysis) addSpecial(name string, words []word, depth int) []word {
	switch name {
	case "find":
		return f.addFind(words, depth)
	case "fd", "fdfind":
		return f.addFD(words, depth)
	case "eval":
		f.addJoined(words[1:], depth)
		return words[:1]
	case "trap":
		f.addTrap(words[1:], depth)
		return words[:1]
	case "alias":
		f.addAlias(words[1:], depth)
		return words[:1]
	case "watch":
		return f.addWatch(words, depth)
	case "parallel":
		return f.addParallel(words, depth)
	}
	return words
}

// addShell adds the script of sh -c.
func (f *analysis) addShell(words []word, depth int) []word {
	at, _ := shellScript(words)
	if at == 0 {
		return words
	}
	before := len(f.calls)
	f.addNestedScript(words[at], depth)
	rest := words[at+1:]
	unknown := func(c call) bool { return !c.words[0].known }
	if depth < 2 && slices.ContainsFunc(f.calls[before:], unknown) { // perhaps "$@": sh -c '"$@"' name program
		for i := range min(len(rest), 2) {
			f.addCall(rest[i:], depth+1)
		}
	}
	return slices.Concat(words[:at], rest)
}

// shellScript returns the index of the script in the words of a shell, or 0, and whether
// the shell reads its standard input instead.
func shellScript(words []word) (at int, stdin bool) {
	command := false
	i := 1
	for ; i < len(words) && words[i].known; i++ {
		t := words[i].text
		if t == "--" || t == "-" {
			i++
			break
		}
		if len(t) < 2 || t[0] != '-' && t[0] != '+' {
			break
		}
		if strings.HasPrefix(t, "--") {
			if t == "--rcfile" || t == "--init-file" {
				i++
			}
			continue
		}
		command = command || t[0] == '-' && strings.Contains(t, "c")
		stdin = stdin || strings.Contains(t, "s")
		if strings.ContainsAny(t, "oO") {
			i++
		}
	}
	switch {
	case i >= len(words):
		return 0, !command
	case !command:
		return 0, stdin
	}
	return i, false
}

// splitEnvCall is splitInnerCall for env, a wrapper whose option -S splits one word into
// several.
func splitEnvCall(words []word) (own, rest []word, deeper int) {
	for i := 1; i < len(words) && words[i].known; i++ {
		t := words[i].text
		if t == "--" || t == "" || t[0] != '-' && !isAssignment(t) {
			break
		}
		s, after, ok := splitString(t, words[i+1:])
		if ok {
			return words[:i], slices.Concat([]word{literalWord("env")}, splitWords(s), after), 1
		}
		switch t {
		case "-u", "-C", "-a", "--unset", "--chdir", "--argv0":
			i++
		}
	}
	rest, _ = wrappers["env"].splitArgs(words[1:])
	return words[:len(words)-len(rest)], rest, 0
}

// splitString returns the value of env's -S, and the words after it.
func splitString(t string, after []word) (s word, rest []word, ok bool) {
	if v, has := strings.CutPrefix(t, "--split-string"); has {
		if v, has = strings.CutPrefix(v, "="); has {
			return literalWord(v), after, true
		}
	} else if i := strings.IndexByte(t, 'S'); t[0] == '-' && !strings.HasPrefix(t, "--") && i > 0 && !strings.ContainsAny(t[:i], "uCa") {
		if i+1 < len(t) {
			return literalWord(t[i+1:]), after, true
		}
	} else {
		return word{}, nil, false
	}
	if len(after) == 0 {
		return word{}, nil, false
	}
	return after[0], after[1:], true
}

// splitWords splits at blanks outside quotes, or at every blank if quotes do not match.
func splitWords(s word) []word {
	if !s.known {
		return []word{s}
	}
	var words []word
	for w, err := range syntax.NewParser().WordsSeq(strings.NewReader(s.text)) {
		if err != nil {
			return literalWords(strings.Fields(s.text))
		}
		words = append(words, wordOf(w))
	}
	return words
}

// addFind adds the commands of -exec and similar actions.
func (f *analysis) addFind(words []word, depth int) (own []word) {
	for i := 0; i < len(words); i++ {
		own = append(own, words[i])
		switch words[i].text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		end := i + 1
		for end < len(words) && words[end].text != ";" && words[end].text != "+" {
			end++
		}
		f.addCall(words[i+1:end], depth+1)
		i = end
	}
	return own
}

// addFD adds the command of -x or -X.
func (f *analysis) addFD(words []word, depth int) (own []word) {
	for i, w := range words {
		switch w.text {
		case "-x", "-X", "--exec", "--exec-batch":
			f.addCall(words[i+1:], depth+1)
			return words[:i]
		}
	}
	return words
}

// addJoined adds words that are joined to a script.
func (f *analysis) addJoined(words []word, depth int) {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w.asScript())
		b.WriteByte(' ')
	}
	if b.Len() > 0 {
		f.addScript(b.String(), depth+1)
	}
}

// addTrap adds the script of a trap.
func (f *analysis) addTrap(args []word, depth int) {
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) > 1 && !strings.HasPrefix(args[0].text, "-") {
		f.addNestedScript(args[0], depth)
	}
}

// addAlias adds the values of aliases as scripts.
func (f *analysis) addAlias(args []word, depth int) {
	for _, w := range args {
		if _, value, ok := strings.Cut(w.asScript(), "="); ok {
			f.addScript(value, depth+1)
		}
	}
}

// addWatch adds the script of watch, or its command with -x.
func (f *analysis) addWatch(words []word, depth int) (own []word) {
	w := wrapper{short: "nqs", long: "interval equexit shotsdir"}
	rest, _ := w.splitArgs(words[1:])
	own = words[:len(words)-len(rest)]
	if slices.ContainsFunc(own, func(o word) bool { return o.text == "-x" || o.text == "--exec" }) {
		f.addCall(rest, depth+1)
	} else {
		f.addJoined(rest, depth)
	}
	return own
}

// addParallel adds the script that parallel runs for each argument.
func (f *analysis) addParallel(words []word, depth int) (own []word) {
	w := wrapper{
		short: "aCdEIjlLnNPsSU",
		long: "arg-file colsep delimiter jobs load max-args max-procs max-lines max-chars joblog results retries " +
			"sshlogin tagstring timeout workdir tmpdir halt",
	}
	rest, _ := w.splitArgs(words[1:])
	own = words[:len(words)-len(rest)]
	end := slices.IndexFunc(rest, func(r word) bool { return strings.HasPrefix(r.text, ":::") })
	if end < 0 {
		end = len(rest)
	}
	f.addJoined(rest[:end], depth)
	return slices.Concat(own, rest[end:])
}
