package suite

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// A parsedCommand is a parsed command line, as skillgym's matchers see it: quotes and
// backslashes, without shell syntax.
type parsedCommand struct {
	Executable   string         `json:"executable,omitempty"`
	Positionals  []string       `json:"positionals"`
	Options      []parsedOption `json:"options"` // by the first time a name occurs
	EndOfOptions bool           `json:"endOfOptions"`
	FromShell    bool           `json:"fromShell"` // it was the script of sh -c
}

// A parsedOption is an option with its values: a text, or true for an option without a
// value.
type parsedOption struct {
	Name   string
	Values []any
}

// MarshalJSON writes the option as an entry of a Map of JavaScript.
func (o parsedOption) MarshalJSON() ([]byte, error) { return json.Marshal([]any{o.Name, o.Values}) }

var shells = []string{"bash", "sh", "zsh", "fish", "dash"}

// parseCommand parses a command line. For a shell with -c its script is parsed instead,
// once.
func parseCommand(line string) parsedCommand {
	tokens := tokenize(line)
	script, wrapped := shellScript(tokens)
	if wrapped {
		tokens = tokenize(script)
	}
	p := parseTokens(tokens)
	p.FromShell = wrapped
	return p
}

// tokenize splits a line at white space that is not quoted. An unclosed quote runs to the
// end.
func tokenize(line string) []string {
	var (
		tokens  []string
		current strings.Builder
		quote   rune
	)
	flush := func() {
		if current.Len() > 0 {
			tokens = append(tokens, current.String())
			current.Reset()
		}
	}
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		c := runes[i]
		switch {
		case quote == 0 && isSpace(c):
			flush()
		case c == '\\' && quote != '\'' && i+1 < len(runes):
			i++
			current.WriteRune(runes[i])
		case c == '\'' || c == '"':
			switch quote {
			case c:
				quote = 0
			case 0:
				quote = c
			default:
				current.WriteRune(c)
			}
		default:
			current.WriteRune(c)
		}
	}
	flush()
	return tokens
}

// isSpace matches like \s of JavaScript.
func isSpace(c rune) bool {
	switch c {
	case '\t', '\n', '\v', '\f', '\r', ' ', 0xa0, 0xfeff, 0x2028, 0x2029:
		return true
	}
	return unicode.Is(unicode.Zs, c)
}

// shellScript returns the script of a shell: the word after the first option with a c, if
// the first or second word is a shell.
func shellScript(tokens []string) (string, bool) {
	at := -1
	for i := range min(len(tokens), 2) {
		name := tokens[i][strings.LastIndexAny(tokens[i], `\/`)+1:]
		if name != "env" && slices.Contains(shells, name) {
			at = i
			break
		}
	}
	if at < 0 {
		return "", false
	}
	for i := at + 1; i+1 < len(tokens); i++ {
		if strings.HasPrefix(tokens[i], "-") && strings.Contains(tokens[i], "c") {
			return tokens[i+1], true
		}
	}
	return "", false
}

// parseTokens separates options and positionals. A word after an option counts as its
// value, because the program's options are not known.
func parseTokens(tokens []string) parsedCommand {
	p := parsedCommand{Positionals: []string{}, Options: []parsedOption{}}
	if len(tokens) == 0 {
		return p
	}
	p.Executable = tokens[0]
	for i := 1; i < len(tokens); i++ {
		word := tokens[i]
		switch {
		case p.EndOfOptions || len(word) < 2 || word[0] != '-':
			p.Positionals = append(p.Positionals, word)
		case word == "--":
			p.EndOfOptions = true
		default:
			i += p.addOptionWord(word, tokens[i+1:])
		}
	}
	return p
}

// addOptionWord adds the options of a word that begins with a dash. It returns how many
// of the following words belong to it.
func (p *parsedCommand) addOptionWord(word string, rest []string) int {
	long := strings.HasPrefix(word, "--")
	if name, value, ok := strings.Cut(word, "="); long && ok {
		p.addOption(name, value)
		return 0
	}
	runes := []rune(word)
	if !long && len(runes) > 2 {
		if isLetters(word[1:]) {
			for _, c := range runes[1:] {
				p.addOption("-"+string(c), true)
			}
			return 0
		}
		p.addOption(string(runes[:2]), string(runes[2:]))
		return 0
	}
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		p.addOption(word, rest[0])
		return 1
	}
	p.addOption(word, true)
	return 0
}

func isLetters(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') })
}

func (p *parsedCommand) addOption(name string, value any) {
	i := slices.IndexFunc(p.Options, func(o parsedOption) bool { return o.Name == name })
	if i < 0 {
		i = len(p.Options)
		p.Options = append(p.Options, parsedOption{Name: name})
	}
	p.Options[i].Values = append(p.Options[i].Values, value)
}
