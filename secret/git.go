package secret

import (
	"bytes"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// MaxGitFile bounds the files of which GitFile returns a clean form: larger ones are left out.
const MaxGitFile = 16 << 20

// GitFile says what of a file of a Git directory may be a credential: clean returns the
// content without credentials, and is nil if the file holds none; leaveOut is for a file of
// nothing else. The path is slash-separated, and relative to the Git directory; below it may
// be those of submodules and worktrees.
func GitFile(path string) (clean func([]byte) []byte, leaveOut bool) {
	names := strings.Split(path, "/")
	last := len(names) - 1
	name := names[last]
	before := func(dir string) bool { return slices.Contains(names[:last], dir) }
	for i, dir := range names[:last] {
		if dir == "logs" && (names[i+1] == "refs" || i+1 == last && strings.HasSuffix(name, "HEAD")) {
			return stripURLs, false // a reflog: Git writes the arguments of clone, fetch and pull
		}
	}
	switch {
	case IsGitConfigName(name), name == ".metadata" && before("svn"):
		return StripGitConfig, false
	case before("refs"), before("objects"):
	case slices.Contains([]string{"credentials", ".git-credentials", "git-credentials"}, name), before("annex") && before("creds"):
		return nil, true
	case name == "FETCH_HEAD", before("remotes"), before("branches"):
		return stripURLs, false
	}
	return nil, false
}

var (
	urlUser = lazyregexp.New(`(?i)\b(https?|ftps?)://(?:[^/?#\s"'@\\]|@|\\.)*@`)
	// textURLUser is urlUser for a value without quotes and escapes of the file.
	textURLUser = lazyregexp.New(`(?i)\b(https?|ftps?)://[^/?#\s]*@`)
	// otherPassword is the password of a URL whose user name is no credential, such as ssh.
	otherPassword = lazyregexp.New(`(?i)\b([a-z][a-z0-9+.-]*://[^/?#\s:@"']*):[^/?#\s]*@`)
	// urlToken is a credential in the query of a URL.
	urlToken = lazyregexp.New(`(?i)([?&][a-z_-]*(?:token|password|secret|api[_-]?key)=)[^&#\s"']+`)

	// inlineSecret is a credential in a command: password=x, --token x, sshpass -p x. A
	// variable or the output of a command is none.
	inlineSecret = lazyregexp.New("(?i)(?:(?:pass|passwd|password|passphrase|token|secret|api[_-]?key)[\"']?(?:=|:[ \t]*)|" +
		"--(?:pass|passwd|password|passphrase|token|api-key)[ \t]+|sshpass[ \t]+-p[ \t]*|authorization[\"']?(?:=|:)[ \t]*)[\"']?[^\\s\"'$`;&|<>()]")
	// proxyUser are user and password of a proxy without a scheme.
	proxyUser = lazyregexp.New(`^[^/@\s]*@`)

	// gitKey is the beginning of a line up to the value: section headers and a key.
	gitKey = lazyregexp.New(`^(?:\xef\xbb\xbf)?[ \t]*(?:\[(?:[^\]"\n]|"(?:[^"\\\n]|\\.)*")*\][ \t]*)*([A-Za-z][A-Za-z0-9-]*)[ \t]*=`)
	// gitComment is the beginning of a comment.
	gitComment = lazyregexp.New(`^[ \t]*[#;][#; \t]*`)
)

// gitSecretWords are parts of keys of a Git configuration whose values are credentials:
// http.extraHeader, http.proxyAuthHeader, github.token, x.apiKey.
var gitSecretWords = []string{"extraheader", "authheader", "authorization",
	"passwd", "password", "passphrase", "token", "secret", "apikey", "accesskey", "privatekey"}

// isGitSecret reports whether the value of a key of a Git configuration is a credential.
func isGitSecret(key, value string) bool {
	key = withoutSeparators.Replace(strings.ToLower(key))
	switch strings.ToLower(value) {
	case "true", "false", "yes", "no", "on", "off", "0", "1": // http.sslCertPasswordProtected
		return false
	}
	return strings.HasSuffix(key, "pass") || slices.ContainsFunc(gitSecretWords, func(word string) bool { return strings.Contains(key, word) })
}

// stripURLs removes user names and passwords from the URLs of a text. The user name stays
// where it alone is no credential, as in ssh://git@host.
func stripURLs(text []byte) []byte {
	return stripOtherURLs(textURLUser.ReplaceAll(text, []byte("$1://")))
}

func stripOtherURLs(text []byte) []byte {
	return urlToken.ReplaceAll(otherPassword.ReplaceAll(text, []byte("$1@")), []byte("$1"))
}

// StripGitConfig removes user names and passwords of URLs, values of keys that denote
// credentials, and values that contain one, from a Git configuration.
func StripGitConfig(config []byte) []byte {
	var out []byte
	for len(config) > 0 {
		m := gitKey.FindSubmatchIndex(config)
		if m == nil { // a header alone, a comment, or no configuration
			n := bytes.IndexByte(config, '\n') + 1
			if n == 0 {
				n = len(config)
			}
			line := config[:n]
			config = config[n:]
			if at := gitComment.FindIndex(line); at != nil { // it may have been a line
				out = append(out, line[:at[1]]...)
				line = line[at[1]:]
				if gitKey.Match(line) {
					out = append(out, StripGitConfig(line)...)
					continue
				}
			}
			out = append(out, stripOtherURLs(urlUser.ReplaceAll(line, []byte("$1://")))...)
			continue
		}
		key := string(config[m[2]:m[3]])
		out = append(out, stripOtherURLs(urlUser.ReplaceAll(config[:m[1]], []byte("$1://")))...)
		raw, value := cutGitValue(config[m[1]:])
		config = config[m[1]+len(raw):]
		stripped := string(stripURLs([]byte(value)))
		if isGitSecret(key, value) || inlineSecret.MatchString(stripped) {
			continue
		}
		if strings.EqualFold(key, "proxy") && !strings.Contains(stripped, "://") {
			stripped = proxyUser.ReplaceAllString(stripped, "")
		}
		if stripped != value && bytes.ContainsAny(raw, "\"\\") || inlineSecret.Match(stripURLs(raw)) { // or a comment has one
			out = append(out, ` "`+gitEscape.Replace(stripped)+`"`...)
			continue
		}
		if stripped != value {
			raw = bytes.Replace(raw, []byte(value), []byte(stripped), 1)
		}
		out = append(out, stripURLs(raw)...)
	}
	return out
}

// IsGitConfigName reports whether a file of that name in a Git directory is a
// configuration, or a copy of one that an editor or a user made.
func IsGitConfigName(name string) bool {
	return name == "config" || strings.HasPrefix(name, "config.") || strings.HasPrefix(name, "config~")
}

var gitEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)

// cutGitValue returns the value at the beginning of a text, as the file has it and as Git
// reads it. It ends before a line feed that is not escaped.
func cutGitValue(text []byte) (raw []byte, value string) {
	var b strings.Builder
	quoted, comment := false, false
	i := 0
	for ; i < len(text) && text[i] != '\n'; i++ {
		c := text[i]
		switch {
		case comment:
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
				i++
			}
			switch text[i] {
			case '\n':
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(text[i])
			}
		case c == '"':
			quoted = !quoted
		case (c == '#' || c == ';') && !quoted:
			comment = true
		default:
			b.WriteByte(c)
		}
	}
	return text[:i], strings.TrimSpace(b.String())
}
