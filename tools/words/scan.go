package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	// everydayWords say nothing about what a package-level function does. The
	// whole name must be equal, so no exported function is found.
	everydayWords = "place settle hold plain ours cut take keep tell within ended bring land board reach turn look " +
		"news said told left still apart thing share cover same blank lift leave gone known fed rest whole beside " +
		"aside ahead once again light meet greet"

	// commonTypes are good names of unexported types in any number of packages.
	commonTypes = "handle options session entry config state result request response server client"

	commentWords = "who|whoever|whom|somebody|nobody|told|hears|is none"
)

var (
	oneWord   = regexp.MustCompile(`^[a-z]+$`)
	inComment = regexp.MustCompile(`(?i)\b(` + commentWords + `)\b`)

	// personFirst matches a doc comment that begins with a person, or with one
	// word, the documented name, and a person. Between the two "is", "are", "is
	// for" or "are for" may stand. It knows no other forms.
	personFirst = regexp.MustCompile(`(?i)^((package )?\w+ ((is|are) (for )?)?)?(who|whoever|somebody|nobody|those who)\b`)

	// fileSuffix is the part of a file name that tests and platforms have.
	fileSuffix = regexp.MustCompile(`(_(linux|darwin|unix|other|amd64|arm64|test))*\.go$`)
)

// The kinds of findings, in the order in which they are printed.
const (
	notToUse = iota
	person
	everyday
	sharedType
	unread
)

var titles = [...]string{
	notToUse:   "words not to use, by " + glossaryFile,
	person:     "doc comments with a person as the subject of the first sentence",
	everyday:   "everyday words as whole names of functions",
	sharedType: "unexported types of one name in more than two packages",
	unread:     "files that can't be read",
}

type finding struct {
	file string
	line int
	text string
}

type share struct{ some, all int }

func (s *share) count(hit bool) {
	s.all++
	if hit {
		s.some++
	}
}

func (s share) percent() float64 { return 100 * float64(s.some) / float64(max(s.all, 1)) }

// shares are the functions whose name is oneWord and the comment lines with one
// of commentWords.
type shares struct{ functions, comments share }

// A scan collects the findings and counts of the files of a module.
type scan struct {
	glossary glossary
	fset     *token.FileSet
	findings [len(titles)][]finding
	types    map[string]map[string]token.Pos // unexported type, package directory
	counts   map[string]*shares              // package directory
}

func scanModule(module fs.FS, g glossary) *scan {
	s := &scan{glossary: g, fset: token.NewFileSet(), types: map[string]map[string]token.Pos{}, counts: map[string]*shares{}}
	_ = fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		skip := base == "testdata" || base == "node_modules" || name == "bin" || name != "." && base[0] == '.'
		switch {
		case err != nil:
		case d.IsDir() && skip:
			return fs.SkipDir
		case !d.IsDir() && path.Ext(name) == ".go":
			err = s.scanFile(module, name)
		}
		if err != nil {
			s.findings[unread] = append(s.findings[unread], finding{name, 1, err.Error()})
		}
		return nil
	})
	for name, byDir := range s.types {
		for _, pos := range byDir {
			if len(byDir) > 2 {
				s.addFinding(sharedType, pos, fmt.Sprintf("type %s, in %d packages", name, len(byDir)))
			}
		}
	}
	return s
}

func (s *scan) addFinding(kind int, pos token.Pos, text string) {
	p := s.fset.Position(pos)
	s.findings[kind] = append(s.findings[kind], finding{p.Filename, p.Line, text})
}

func (s *scan) scanFile(module fs.FS, name string) error {
	src, err := fs.ReadFile(module, name)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(s.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(f) {
		return err
	}
	dir := path.Dir(name)
	s.checkName(dir, f.FileStart, fileSuffix.ReplaceAllString(path.Base(name), ".go"))
	if strings.HasSuffix(name, "_test.go") {
		return nil
	}
	if s.counts[dir] == nil {
		s.counts[dir] = &shares{}
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			for line := range strings.Lines(c.Text) {
				s.counts[dir].comments.count(inComment.MatchString(line))
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool { return s.scanNode(dir, n) })
	return nil
}

// scanNode looks at a declaration and reports whether to look inside it: not at the
// parameters and bodies of functions, whose names are local.
func (s *scan) scanNode(dir string, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit, *ast.FuncType:
		return false
	case *ast.FuncDecl:
		s.checkDoc(n.Doc)
		s.checkName(dir, n.Name.Pos(), n.Name.Name)
		s.counts[dir].functions.count(oneWord.MatchString(n.Name.Name))
		if n.Recv == nil && slices.Contains(strings.Fields(everydayWords), n.Name.Name) {
			s.addFinding(everyday, n.Name.Pos(), n.Name.Name)
		}
		return false
	case *ast.File:
		s.checkDoc(n.Doc)
	case *ast.GenDecl:
		s.checkDoc(n.Doc)
	case *ast.TypeSpec:
		s.checkDoc(n.Doc)
		s.checkName(dir, n.Name.Pos(), n.Name.Name)
		s.addType(dir, n.Name)
	case *ast.ValueSpec:
		s.checkDoc(n.Doc)
		s.checkNames(dir, n.Names)
	case *ast.Field: // of a struct or an interface
		s.checkDoc(n.Doc)
		s.checkNames(dir, n.Names)
	}
	return true
}

func (s *scan) checkNames(dir string, names []*ast.Ident) {
	for _, id := range names {
		s.checkName(dir, id.Pos(), id.Name)
	}
}

func (s *scan) checkName(dir string, pos token.Pos, name string) {
	if word := s.glossary.replacement(dir, name); word != "" {
		s.addFinding(notToUse, pos, name+": use "+word)
	}
}

func (s *scan) checkDoc(comment *ast.CommentGroup) {
	words := strings.Fields(comment.Text())
	begin := strings.Join(words[:min(len(words), 8)], " ")
	if personFirst.MatchString(begin) {
		s.addFinding(person, comment.Pos(), begin)
	}
}

// addType notes the first declaration of an unexported type in a package.
func (s *scan) addType(dir string, id *ast.Ident) {
	if id.IsExported() || slices.Contains(strings.Fields(commonTypes), id.Name) {
		return
	}
	if s.types[id.Name] == nil {
		s.types[id.Name] = map[string]token.Pos{}
	}
	if _, ok := s.types[id.Name][dir]; !ok {
		s.types[id.Name][dir] = id.Pos()
	}
}
