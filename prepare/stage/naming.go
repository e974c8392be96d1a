package stage

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/croft-run/croft/fault"
)

// A Naming creates the names of saved outputs. It is a text/template with the fields
// of OutputName and the functions lower, upper and slug. Text without "{{" is a
// prefix of the path.
type Naming struct {
	prefix string
	tmpl   *template.Template
}

// OutputName has the fields of a name template.
type OutputName struct {
	Name  string // the path in the workspace: out/plots/a.png
	Dir   string // out/plots
	Base  string // a.png
	Stem  string // a
	Ext   string // .png
	Index int    // 0 for the first collected file
	ID    string // id of the workspace
}

const maxNaming = 1024

var namingFuncs = template.FuncMap{"lower": strings.ToLower, "upper": strings.ToUpper, "slug": slug}

// ParseNaming parses a template. Only text, fields and the functions are allowed,
// because a template comes from a model and must terminate.
func ParseNaming(text string) (*Naming, error) {
	bad := func(why any) error {
		return fmt.Errorf("stage: name template %.80q: %w: %v", text, fault.InvalidArgument, why)
	}
	if len(text) > maxNaming {
		return nil, bad(fmt.Sprintf("it has %d bytes; at most %d are allowed", len(text), maxNaming))
	}
	if !strings.Contains(text, "{{") {
		n := &Naming{prefix: text}
		_, err := n.Name(OutputName{Name: "a"})
		return n, err
	}
	t, err := template.New("name").Option("missingkey=error").Funcs(namingFuncs).Parse(text)
	if err != nil {
		return nil, bad(err)
	}
	if len(t.Templates()) > 1 || t.Tree == nil {
		return nil, bad("it defines another template")
	}
	for _, node := range t.Root.Nodes {
		if err := checkTemplateNode(node); err != nil {
			return nil, bad(err)
		}
	}
	n := &Naming{tmpl: t}
	if _, err := n.Name(OutputName{Name: "out/a.b", Dir: "out", Base: "a.b", Stem: "a", Ext: ".b", ID: "i"}); err != nil {
		return nil, err
	}
	return n, nil
}

// checkTemplateNode refuses template nodes except text, fields and our functions.
func checkTemplateNode(node parse.Node) error {
	switch n := node.(type) {
	case *parse.TextNode, *parse.FieldNode, *parse.StringNode, *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		return checkTemplateNode(n.Pipe)
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			return fmt.Errorf("variables are not allowed")
		}
		for _, c := range n.Cmds {
			for _, arg := range c.Args {
				if err := checkTemplateNode(arg); err != nil {
					return err
				}
			}
		}
		return nil
	case *parse.IdentifierNode:
		if _, ok := namingFuncs[n.Ident]; ok {
			return nil
		}
		return fmt.Errorf("function %s is not allowed; lower, upper and slug are", n.Ident)
	}
	return fmt.Errorf("%s is not allowed; text, fields and the functions lower, upper and slug are", node)
}

// Name returns the name of an output. Characters that are not valid in artifact names
// become "_". A name with ".." is refused, because the result would differ from the
// intention.
func (n *Naming) Name(o OutputName) (string, error) {
	if n == nil {
		return SafeName(o.Name), nil
	}
	name := n.prefix + o.Name
	if n.tmpl != nil {
		var b strings.Builder
		if err := n.tmpl.Execute(&b, o); err != nil {
			return "", fmt.Errorf("stage: name template: %w: the fields are Name, Dir, Base, Stem, Ext, Index and ID: %w", fault.InvalidArgument, err)
		}
		name = b.String()
	}
	elems := strings.Split(name, "/")
	if slices.Contains(elems, "..") {
		return "", fmt.Errorf("stage: name template: %w: the result %.80q has an element \"..\", which is not allowed", fault.InvalidArgument, name)
	}
	elems = slices.DeleteFunc(elems, func(e string) bool { return e == "." }) // such as Dir of a file in the root
	name = SafeName(strings.Join(elems, "/"))
	return name, CheckName(name)
}

// outputName returns the template fields of an output.
func outputName(name string, index int, id string) OutputName {
	base := path.Base(name)
	ext := path.Ext(base)
	return OutputName{Name: name, Dir: path.Dir(name), Base: base, Stem: strings.TrimSuffix(base, ext), Ext: ext, Index: index, ID: id}
}

// slug keeps letters and digits, and replaces every other sequence by one dash.
func slug(s string) string {
	return strings.Trim(strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < '0' || '9' < r)
	}), "-"), "-")
}
