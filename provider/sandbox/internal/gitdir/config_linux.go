package gitdir

import (
	"slices"
	"strings"
)

// Config is the part of a Git configuration that names further files: hooks and
// included configuration. Values are as they are written.
type Config struct {
	Hooks    []string // core.hooksPath
	Includes []string // include.path, includeIf.*.path
	Worktree string   // core.worktree
	Runs     bool     // it names a program, hooks or further configuration
	PerTree  bool     // extensions.worktreeConfig: worktrees have their own config.worktree
}

// ParseConfig parses a configuration. It skips syntax errors, so that nothing after
// them is missed.
func ParseConfig(text string) Config {
	var c Config
	section := ""
	for {
		text = strings.TrimLeft(text, " \t\r\n\ufeff")
		switch {
		case text == "":
			return c
		case text[0] == '[':
			section, text = parseSection(text[1:])
			continue
		case text[0] == '#', text[0] == ';':
			_, text, _ = strings.Cut(text, "\n")
			continue
		}
		end := strings.IndexAny(text, "=\n#;")
		if end < 0 {
			end = len(text)
		}
		key, value := strings.ToLower(strings.TrimSpace(text[:end])), ""
		if text = text[end:]; strings.HasPrefix(text, "=") {
			value, text = parseValue(text[1:])
		} else if text != "" {
			_, text, _ = strings.Cut(text, "\n")
		}
		c.set(section, key, value)
	}
}

func (c *Config) set(section, key, value string) {
	ownDaemon := section == "core" && key == "fsmonitor" && (value == "true" || value == "false") // Git's
	keys := programs[section]
	c.Runs = c.Runs || value != "" && !ownDaemon && (slices.Contains(keys, key) || slices.Contains(keys, "*"))
	switch {
	case section == "extensions" && key == "worktreeconfig":
		c.PerTree = true
	case value == "":
	case section == "core" && key == "hookspath":
		c.Hooks = append(c.Hooks, value)
	case section == "core" && key == "worktree":
		c.Worktree = value
	case (section == "include" || section == "includeif") && key == "path":
		c.Includes = append(c.Includes, value)
	}
}

// programs are the keys whose value Git runs, or reads as further configuration; "*" is
// for all keys of a section.
var programs = map[string][]string{
	"core":        {"fsmonitor", "hookspath", "sshcommand", "editor", "pager", "askpass", "gitproxy", "alternaterefscommand"},
	"alias":       {"*"},
	"browser":     {"cmd", "path"},
	"credential":  {"helper"},
	"diff":        {"external", "command", "textconv"},
	"difftool":    {"cmd", "path"},
	"filter":      {"clean", "smudge", "process"},
	"gpg":         {"program", "defaultkeycommand"},
	"include":     {"path"},
	"includeif":   {"path"},
	"interactive": {"difffilter"},
	"man":         {"cmd", "path"},
	"merge":       {"driver"},
	"mergetool":   {"cmd", "path"},
	"pager":       {"*"},
	"remote":      {"uploadpack", "receivepack", "vcs"},
	"sendemail":   {"*"},
	"sequence":    {"editor"},
	"submodule":   {"update"},
	"tar":         {"command"},
	"trailer":     {"command", "cmd"},
	"uploadpack":  {"packobjectshook"},
	"web":         {"browser"},
}

// parseSection parses a section header after its bracket. It returns the name in lower
// case, without the quoted subsection, and the text after the header.
func parseSection(text string) (name, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch ch := text[i]; {
		case ch == '\n':
			return "", text[i:]
		case ch == '\\' && quoted:
			i++
		case ch == '"':
			quoted = !quoted
		case ch == ']' && !quoted:
			name = strings.ToLower(strings.TrimSpace(text[:i]))
			if at := strings.IndexAny(name, " \t.\""); at >= 0 {
				name = name[:at]
			}
			return name, text[i+1:]
		}
	}
	return "", ""
}

// parseValue parses a value with Git's quotes, escapes, comments and continuation lines.
func parseValue(text string) (value, rest string) {
	var b strings.Builder
	quoted, kept := false, 0 // kept is the length of b without trailing blanks
	text = strings.TrimLeft(text, " \t")
	for i := 0; i < len(text); i++ {
		ch := text[i]
		switch {
		case ch == '\n':
			return b.String()[:kept], text[i+1:]
		case (ch == '#' || ch == ';') && !quoted:
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:kept], rest
		case ch == '"':
			quoted = !quoted
			continue
		case ch == '\\' && i+1 < len(text):
			if i++; text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
				i++
			}
			if text[i] == '\n' {
				continue
			}
			ch = text[i]
			if at := strings.IndexByte("ntb", ch); at >= 0 {
				ch = "\n\t\b"[at]
			}
			b.WriteByte(ch)
			kept = b.Len()
			continue
		}
		b.WriteByte(ch)
		if quoted || ch != ' ' && ch != '\t' && ch != '\r' {
			kept = b.Len()
		}
	}
	return b.String()[:kept], ""
}
