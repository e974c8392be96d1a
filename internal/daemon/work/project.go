// Package work gives an agent a project of the user: a workspace that starts as a copy of
// the project's directory, with the agent's program, its login by egress credentials, and
// the network of its model.
package work

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/strictjson"
)

// Labels of a work's workspace.
const (
	ProjectLabel = "croft.work"       // Project.Key
	AgentLabel   = "croft.work.agent" // name of the agent, or of the program of a command
	LoginLabel   = "croft.work.login" // "shared" if the login itself is inside
	SubLabel     = "croft.work.sub"   // Project.Sub, quoted as by strconv.QuoteToASCII
	YoloLabel    = "croft.work.yolo"  // "true" if the agent asks for no permissions
	ArgsLabel    = "croft.work.args"  // number of arguments of the agent; it has none where the label is missing
)

// A Project is a directory that agents work on.
type Project struct {
	Dir        string // without symlinks
	Sub        string // directory in Dir that it was found by, in which agents start; "" is Dir
	Repository bool   // Dir is the root of a git repository
	LinkedGit  string // the git directory elsewhere that .git leads to, "" if .git is a directory
}

// FindProject returns the project of a directory: the root of its git repository or,
// without one, the directory itself.
func FindProject(dir, home string) (Project, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return Project{}, fmt.Errorf("work: directory %s: %w: %w", dir, fault.Of(err), err)
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	p := Project{Dir: abs}
	for at := abs; at != home || at == abs; at = filepath.Dir(at) { // a repository of the whole home has other things in it
		if info, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			p = Project{Dir: at, Repository: true, LinkedGit: linkedGit(filepath.Join(at, ".git"), info)}
			if rel, err := filepath.Rel(at, abs); err == nil && rel != "." && utf8.ValidString(rel) && !isBelow(abs, filepath.Join(at, ".git")) {
				p.Sub = rel
			}
			break
		}
		if isGitDir(at) {
			return p, fmt.Errorf("work: directory %s: %w: %s is a bare repository, which has no files to work on; clone it, and change to the clone", abs, fault.InvalidArgument, at)
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if p.Dir == "/" || p.Dir == home {
		return p, fmt.Errorf("work: directory %s: %w: it contains more than a project; change to the directory of the project", p.Dir, fault.InvalidArgument)
	}
	if !utf8.ValidString(p.Dir) { // records are JSON
		return p, fmt.Errorf("work: directory %q: %w: its path is not valid UTF-8; rename it", p.Dir, fault.InvalidArgument)
	}
	return p, nil
}

// linkedGit returns where a .git leads that is no directory.
func linkedGit(file string, info fs.FileInfo) string {
	if info.IsDir() {
		return ""
	}
	if target, err := os.Readlink(file); err == nil {
		return target
	}
	text, _ := os.ReadFile(file) // what can't be read leads nowhere
	return strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:"))
}

// isGitDir reports whether a directory is that of a git repository, other than the .git of a
// work tree.
func isGitDir(dir string) bool {
	if filepath.Base(dir) == ".git" {
		return false
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() != (name != "HEAD") {
			return false
		}
	}
	return true
}

// Key identifies the project in labels and file names.
func (p Project) Key() string {
	sum := sha256.Sum256([]byte(p.Dir))
	return hex.EncodeToString(sum[:8])
}

var notInNames = lazyregexp.New(`[^a-z0-9]+`)

// Name returns the name of the project's nth work with an agent: "app-claude", and from the
// second on "app-claude-2".
func (p Project) Name(agent string, n int) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(filepath.Base(p.Dir)+"-"+agent), "-"), "-")
	suffix := ""
	if n > 1 {
		suffix = fmt.Sprintf("-%d", n)
	}
	const longest = 63
	if name == "" {
		name = "work"
	}
	return strings.TrimRight(name[:min(len(name), longest-len(suffix))], "-") + suffix
}

// Settings are what is remembered of a project.
type Settings struct {
	Dir   string   `json:"dir"`
	Allow []string `json:"allow,omitempty"` // hosts that its works may reach
	Asked []string `json:"asked,omitempty"` // registries that the user was asked about
}

// SettingsFile is the file of a project's settings in a data directory. It is never in the
// project's directory, which agents write.
func (p Project) SettingsFile(data string) string {
	return filepath.Join(data, "work", p.Key()+".json")
}

// LoadSettings reads the settings of a project.
func (p Project) LoadSettings(data string) (Settings, error) {
	s := Settings{Dir: p.Dir}
	text, err := os.ReadFile(p.SettingsFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = strictjson.Decode("", text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("work: settings of %s: %w: %w; remove %s", p.Dir, fault.InvalidArgument, err, p.SettingsFile(data))
	}
	return s, nil
}

// Save writes the settings of a project.
func (p Project) Save(data string, s Settings) error {
	s.Dir = p.Dir
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	file := p.SettingsFile(data)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("work: settings of %s: %w", p.Dir, err)
	}
	return atomicfile.Write(file, text, atomicfile.Options{Mode: 0o600})
}

// ProjectOf returns the directory of a project by its key, "" if it is not known.
func ProjectOf(data, key string) string {
	s := Settings{}
	text, err := os.ReadFile(filepath.Join(data, "work", filepath.Base(key)+".json"))
	if err != nil || strictjson.Decode("", text, &s) != nil {
		return ""
	}
	return s.Dir
}

// Add returns list with the texts that it lacks.
func Add(list []string, texts ...string) []string {
	for _, t := range texts {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}
