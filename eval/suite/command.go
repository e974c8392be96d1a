package suite

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// A parsedCommand is a command line taken apart, as skillgym's matchers see it: no
// shell, only quotes and backslashes.
type parsedCommand struct {
	Executable   string         `json:"executable,omitempty"`
	Positionals  []string       `json:"positionals"`
	Options      []parsedOption `json:"options"` // by the first time a name occurs
	EndOfOptions bool           `json:"endOfOptions"`
	FromShell    bool           `json:"fromShell"` // it was the script of sh -c
}

// A parsedOption is an option with its values: a text, or true for one without a value.
type parsedOption struct {
	Name   string
	Values []any
}

// MarshalJSON writes the option as an entry of a Map of JavaScript.
func (o parsedOption) MarshalJSON() ([]byte, error) { return json.Marshal([]any{o.Name, o.Values}) }

var shells = []string{"bash", "sh", "zsh", "fish", "dash"}

// parseCommand takes a command line apart. The script of a shell that is started with
// -c is taken for the command, once.
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

// tokenize splits a line at white space that is not quoted. A quote that is not
// closed runs to the end.
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

// isSpace is \s of JavaScript.
func isSpace(c rune) bool {
	switch c {
	case '\t', '\n', '\v', '\f', '\r', ' ', 0xa0, 0xfeff, 0x2028, 0x2029:
		return true
	}
	return unicode.Is(unicode.Zs, c)
}

// shellScript returns what a shell is asked to run: the word after the first option
// with a c in it, where the first word or the second is a shell.
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

// parseTokens tells options from positionals. A word after an option is its value:
// without knowing the program there is no telling that it is not.
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

// addOptionWord adds what a word with a dash says. It returns how many of the words behind
// it are part of it.
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
