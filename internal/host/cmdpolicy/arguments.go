package cmdpolicy

import (
	"path"
	"slices"
	"strings"
)

// maxDirs is the number of directories that a script may change to before its relative
// paths are no longer checked.
const maxDirs = 16

// possibleDirs returns the directories in which the commands of an analysis may run: dir,
// and the target of each cd in a script. certain is false if a target is not known.
func (f *pathChecker) possibleDirs(found *analysis, dir string) (dirs []string, certain bool) {
	dirs = []string{dir}
	for _, c := range found.calls {
		if name := c.words[0].text; name != "cd" && name != "pushd" {
			continue
		}
		args := slices.DeleteFunc(slices.Clone(c.words[1:]), func(w word) bool {
			return w.known && len(w.text) > 1 && w.text[0] == '-'
		})
		if len(args) == 0 || args[0].text == "-" || args[0].text == "" && args[0].known {
			continue
		}
		to := args[0]
		if !to.known || to.glob || to.tilde && to.text[0] == '~' || len(dirs) > maxDirs/2 {
			return dirs, false
		}
		for _, d := range slices.Clone(dirs) {
			rel, ok := f.relativeToRoot(to.text)
			if ok {
				d = "."
			} else if strings.HasPrefix(to.text, "/") {
				continue // the argument of cd is refused by its own check
			}
			if next := path.Join(d, rel); next != ".." && !strings.HasPrefix(next, "../") && !slices.Contains(dirs, next) {
				dirs = append(dirs, next)
			}
		}
	}
	return dirs, true
}

// nonFileBuiltins are builtins of a shell that open none of their arguments.
var nonFileBuiltins = wordSet("echo printf : true false test [ type hash kill wait exit return set shift read let")

// patternPrograms take a pattern or a program before files. The value lists the options
// that give the pattern; without such an option the first argument is the pattern.
var patternPrograms = map[string]string{
	"grep": "-e --regexp", "egrep": "-e --regexp", "fgrep": "-e --regexp", "rg": "-e --regexp", "ag": "", "ack": "",
	"sed": "-e --expression", "gsed": "-e --expression", "awk": "-e --source", "gawk": "-e --source", "mawk": "", "nawk": "",
	"jq": "", "yq": "", "perl": "-e -E", "tr": "", "sd": "",
}

// gitTextOptions are options of git whose value is text.
var gitTextOptions = wordSet("-m --message --grep --author --committer --format --pretty -S -G -L --date")

// fileArguments returns the words of a call that may name files, without patterns, programs
// and messages.
func fileArguments(c call) []word {
	name, args := programName(c.words[0].text), c.words[1:]
	if c.script && nonFileBuiltins[name] {
		return nil
	}
	if name == "git" {
		return withoutValues(args, func(o string) bool { return gitTextOptions[o] })
	}
	options, ok := patternPrograms[name]
	if !ok {
		return args
	}
	given := strings.Fields(options)
	has := func(o string) bool { return slices.Contains(given, o) }
	if slices.ContainsFunc(args, func(w word) bool { return has(w.text) || w.text == "-f" || w.text == "--file" || w.text == "--files" }) {
		return withoutValues(args, has)
	}
	for i, w := range args {
		if w.text == "" || w.text[0] != '-' {
			return slices.Concat(args[:i], args[i+1:])
		}
	}
	return args
}

// withoutValues removes each option for which match is true, with its value in the next
// word or after "=".
func withoutValues(args []word, match func(string) bool) []word {
	var out []word
	for i := 0; i < len(args); i++ {
		option, _, joined := strings.Cut(args[i].text, "=")
		if !match(option) {
			out = append(out, args[i])
		} else if !joined {
			i++
		}
	}
	return out
}

// attachedOptions are options of compilers whose value is the rest of the word.
const attachedOptions = "ILDUWfmOl"

// maxValues is the number of "=" in an argument after which a path is looked for.
const maxValues = 64

// pathCandidates returns the parts of an argument that may be paths: all of it, the text
// after each "=", the text after the letters of an option, and the text after an @, with
// which curl and compilers name a file to read. A URL is checked as the relative path that
// it also is, with "https:" as a directory; a file URL is checked as its path, too.
func pathCandidates(w word) []word {
	text := w.text
	var out []word
	add := func(s string) {
		out = append(out, word{text: s, known: w.known, glob: w.glob, tilde: w.tilde})
		if len(s) > 7 && strings.EqualFold(s[:7], "file://") {
			if i := strings.IndexByte(s[7:], '/'); i >= 0 {
				out = append(out, word{text: s[7+i:], known: w.known})
			}
		}
		if rest, ok := strings.CutPrefix(s, "@"); ok {
			out = append(out, word{text: rest, known: w.known, glob: w.glob, tilde: w.tilde})
		}
	}
	switch {
	case isURL(text):
		add(text)
		return out
	case strings.HasPrefix(text, "-"):
		for _, s := range optionValues(text) {
			add(s)
		}
	case !strings.HasPrefix(text, "="):
		add(text)
	}
	key, rest, ok := strings.Cut(text, "=")
	if strings.ContainsAny(key, " \t\n") {
		return out // text with blanks, not NAME=VALUE
	}
	for n := 0; ok && n < maxValues; n++ {
		add(rest)
		if isURL(rest) {
			break
		}
		_, rest, ok = strings.Cut(rest, "=")
	}
	return out
}

// optionValues returns the paths that may be attached to a short option: -I/abs, -xzf/abs,
// -C../up, -o~/x.
func optionValues(text string) []string {
	if strings.HasPrefix(text, "--") || len(text) < 3 {
		return nil
	}
	values := []string{text[2:]}
	if strings.IndexByte(attachedOptions, text[1]) >= 0 {
		return values
	}
	end := 2
	for end < len(text) && end < 6 && isLetter(text[end]) {
		end++
	}
	if end > 2 && end < len(text) && (text[end] == '/' || text[end] == '~' || strings.HasPrefix(text[end:], "../")) {
		values = append(values, text[end:])
	}
	return values
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// isURL reports whether s starts with a scheme and "://".
func isURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && scheme != "" && isLetter(scheme[0]) && strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz0123456789+-.") == ""
}
