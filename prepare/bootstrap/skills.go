package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/strictyaml"
	"github.com/croft-run/croft/prepare/stage"
)

// SkillFile is the file that marks a directory as a skill.
const SkillFile = "SKILL.md"

// maxDoc bounds the size of one document of a skill.
const maxDoc = 1 << 20

// Skills are the skills in directories of the host: each directory below one of the
// roots that has a SKILL.md.
type Skills struct {
	Roots []string // of skills with the same name, the one in the first root is used
}

// SkillInfo describes a skill.
type SkillInfo struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Dir         string `json:"-"`
}

// List lists the skills, sorted by name. A missing root has no skills.
func (s *Skills) List(ctx context.Context) ([]SkillInfo, error) {
	found := map[string]SkillInfo{}
	for _, root := range s.Roots {
		entries, err := os.ReadDir(root)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("bootstrap: skills in %s: %w: %w", root, fault.Of(err), err)
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			info, ok := readSkill(filepath.Join(root, e.Name()))
			if _, dup := found[info.Name]; ok && !dup {
				found[info.Name] = info
			}
		}
	}
	list := make([]SkillInfo, 0, len(found))
	for _, info := range found {
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b SkillInfo) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Find returns a skill by its name. The error lists the existing skills.
func (s *Skills) Find(ctx context.Context, name string) (SkillInfo, error) {
	list, err := s.List(ctx)
	if err != nil {
		return SkillInfo{}, err
	}
	var names []string
	for _, info := range list {
		if info.Name == name {
			return info, nil
		}
		names = append(names, info.Name)
	}
	if len(names) == 0 {
		return SkillInfo{}, fault.WithHint(fmt.Errorf("bootstrap: skill %.80q: %w: no skill was found", name, fault.NotFound), fault.HintSetting, "skills")
	}
	return SkillInfo{}, fault.Advise(fmt.Errorf("bootstrap: skill %.80q: %w", name, fault.NotFound), "the skills are %s", strings.Join(names, ", "))
}

// readSkill describes the skill in a directory; false if there is no skill. Its name
// is that of the front matter, or of the directory.
func readSkill(dir string) (SkillInfo, bool) {
	data, err := readDoc(dir, SkillFile)
	if err != nil {
		return SkillInfo{}, false
	}
	info := SkillInfo{Name: filepath.Base(dir), Dir: dir}
	var head struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	}
	if front, _ := frontMatter(data); decodeFront(front, &head) == nil {
		info.Description = oneLine(head.Description)
		if stage.CheckSkillName(head.Name) == nil {
			info.Name = head.Name
		}
	}
	return info, stage.CheckSkillName(info.Name) == nil
}

// decodeFront decodes the front matter of a skill as strictly as a spec. It prevents
// YAML expansion, where a few lines become gigabytes.
func decodeFront(front string, v any) error {
	n, err := strictyaml.Parse([]byte(front), maxDoc)
	if err != nil {
		return err
	}
	return yaml.NodeToValue(n, v)
}

// oneLine joins the lines of a text, and truncates it to the length of a description
// in a list.
func oneLine(text string) string {
	const most = 1024
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// frontMatter splits the text between two lines of dashes from the rest.
func frontMatter(text string) (front, rest string) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	after, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text
	}
	front, rest, ok = strings.Cut(after, "\n---")
	if !ok {
		return "", text
	}
	return front, strings.TrimLeft(strings.TrimLeft(rest, "-"), "\n")
}

// Body returns the instructions of a skill: SKILL.md without the front matter.
func (i SkillInfo) Body() (string, error) {
	data, err := readDoc(i.Dir, SkillFile)
	if err != nil {
		return "", err
	}
	_, body := frontMatter(data)
	return body, nil
}

// Docs lists the documents of a skill except SKILL.md: Markdown and text files, by
// their paths in the skill.
func (i SkillInfo) Docs() ([]string, error) {
	root, err := os.OpenRoot(i.Dir)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: skill %s: %w: %w", i.Name, fault.Of(err), err)
	}
	defer root.Close() //nolint:errcheck // read only
	docs := []string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		ext := strings.ToLower(filepath.Ext(name))
		if d.Type().IsRegular() && (ext == ".md" || ext == ".txt" || ext == ".rst") && name != SkillFile {
			docs = append(docs, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("bootstrap: skill %s: %w: %w", i.Name, fault.Of(err), err)
	}
	return docs, nil
}

// Doc returns a document of a skill.
func (i SkillInfo) Doc(name string) (string, error) { return readDoc(i.Dir, name) }

// readDoc reads a document below a directory. os.Root prevents that a symlink leads
// to a file outside.
func readDoc(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("bootstrap: read %s: %w: %w", dir, fault.Of(err), err)
	}
	defer root.Close() //nolint:errcheck // read only
	info, err := root.Stat(name)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxDoc) {
		return "", fmt.Errorf("bootstrap: read %q: %w: a document is a file of at most %d bytes", name, fault.InvalidArgument, maxDoc)
	}
	var data []byte
	if err == nil {
		data, err = root.ReadFile(name)
	}
	if err != nil {
		code := fault.Of(err)
		if code == fault.Internal { // os.Root has no sentinel error for a path that escapes
			code = fault.SandboxViolation
		}
		return "", fmt.Errorf("bootstrap: read %q: %w: %w", name, code, err)
	}
	return string(data), nil
}

// Skill returns the entry of a Spec for a skill.
func (i SkillInfo) Skill() Skill { return Skill{Name: i.Name, Dir: i.Dir} }
