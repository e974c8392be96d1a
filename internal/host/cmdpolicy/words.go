package cmdpolicy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A word is an argument as far as it is known before the command runs.
type word struct {
	text  string // all of it, or its beginning
	known bool   // text is all of it
	glob  bool   // it has pattern characters that a shell would expand
	rest  string // if not known: the text after the known beginning, with unknownText for unknown parts
	tilde bool   // a ~ at its beginning, or after a =, stands for a home directory
}

func literalWord(text string) word { return word{text: text, known: true, tilde: true} }

func literalWords(argv []string) []word {
	words := make([]word, len(argv))
	for i, a := range argv {
		words[i] = literalWord(a)
	}
	return words
}

// maxBraces is the number of words that the braces of one word may expand to; with more,
// braces are not expanded.
const maxBraces = 64

// expandWord returns the words that a shell makes of w, without expansions that depend on
// variables and files.
func expandWord(w *syntax.Word) []word {
	if at := slices.IndexFunc(w.Parts, isIFS); at >= 0 {
		before, after := *w, *w
		before.Parts, after.Parts = w.Parts[:at], w.Parts[at+1:]
		words := expandWord(&after)
		if at > 0 {
			words = append(expandWord(&before), words...)
		}
		return slices.DeleteFunc(words, func(w word) bool { return w.known && w.text == "" })
	}
	if !slices.ContainsFunc(w.Parts, hasBrace) {
		return []word{wordOf(w)}
	}
	split := *w
	split.Parts = append([]syntax.WordPart(nil), w.Parts...)
	if !syntax.SplitBraces(&split) || countBraceWords(&split) > maxBraces {
		return []word{wordOf(w)}
	}
	var words []word
	for b, err := range expand.BracesSeq(nil, &split) {
		if err != nil || len(words) > maxBraces {
			return []word{wordOf(w)}
		}
		words = append(words, wordOf(b))
	}
	return words
}

// isIFS reports whether an unquoted part of a word is $IFS, at which a shell splits words.
func isIFS(p syntax.WordPart) bool {
	v, ok := p.(*syntax.ParamExp)
	return ok && v.Param != nil && v.Param.Value == "IFS" && !v.Excl && !v.Length && v.Exp == nil && v.Repl == nil
}

func hasBrace(p syntax.WordPart) bool {
	lit, ok := p.(*syntax.Lit)
	return ok && strings.Contains(lit.Value, "{")
}

// countBraceWords counts the words that w expands to, up to maxBraces+1. A sequence counts
// as too many: its elements are numbers and letters, not names.
func countBraceWords(w *syntax.Word) int {
	n := 1
	for _, p := range w.Parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			continue
		}
		sum := 0
		for _, e := range b.Elems {
			sum += countBraceWords(e)
		}
		if b.Sequence {
			sum = maxBraces + 1
		}
		if n *= sum; n > maxBraces {
			return maxBraces + 1
		}
	}
	return n
}

// unknownText stands in a script for a part that is known only at run time.
const unknownText = "${_}"

// asScript returns the word as a script, as far as it is known.
func (w word) asScript() string { return w.text + w.rest }

func wordOf(w *syntax.Word) word {
	var b wordBuilder
	for i, p := range w.Parts {
		if lit, ok := p.(*syntax.Lit); ok {
			b.tilde = b.tilde || i == 0 && strings.HasPrefix(lit.Value, "~") || strings.Contains(lit.Value, "=~")
			b.glob = b.glob || hasGlob(lit.Value)
		}
		b.addPart(p, false)
	}
	return word{text: b.text.String(), rest: b.rest.String(), known: !b.unknown, glob: b.glob, tilde: b.tilde}
}

type wordBuilder struct {
	text, rest           strings.Builder
	unknown, glob, tilde bool
}

func (b *wordBuilder) addPart(p syntax.WordPart, double bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.add(unescape(p.Value, double))
	case *syntax.SglQuoted:
		if !p.Dollar {
			b.add(p.Value)
		} else if s, err := expand.Literal(nil, &syntax.Word{Parts: []syntax.WordPart{p}}); err == nil {
			b.add(s)
		} else {
			b.addUnknown()
		}
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			b.addPart(q, true)
		}
	case *syntax.ParamExp:
		b.addParam(p)
	default:
		b.addUnknown()
	}
}

// addParam adds a variable. At the beginning of a path, two variables are known: $HOME is
// ~, and $PWD is ".".
func (b *wordBuilder) addParam(p *syntax.ParamExp) {
	begins := !b.unknown && (b.text.Len() == 0 || strings.HasSuffix(b.text.String(), "="))
	simple := p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Exp == nil
	switch {
	case begins && simple && p.Param.Value == "HOME":
		b.tilde = true
		b.add("~")
	case begins && simple && p.Param.Value == "PWD":
		b.add(".")
	case simple:
		b.unknown = true
		b.rest.WriteString("${" + p.Param.Value + "}")
	default:
		b.addUnknown()
	}
}

func (b *wordBuilder) add(s string) {
	if b.unknown {
		b.rest.WriteString(s)
	} else {
		b.text.WriteString(s)
	}
}

func (b *wordBuilder) addUnknown() {
	b.unknown = true
	b.rest.WriteString(unknownText)
}

// unescape removes quoting backslashes, of which there are fewer kinds within double
// quotes.
func unescape(s string, double bool) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) || double && !strings.ContainsRune("$`\"\\\n", rune(s[i+1])) {
			b.WriteByte(s[i])
			continue
		}
		if i++; s[i] != '\n' {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func hasGlob(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}
