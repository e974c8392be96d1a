package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

const (
	glossaryFile = "docs/glossary.md"
	columns      = "| concept | word | Go identifier | not to use |"
)

// A glossary maps each entry of the column "not to use" to the word that replaces
// it. An entry is "name" for the whole module, or "dir/of/pkg:name" for one
// package; a file name ends in ".go".
type glossary map[string]string

func readGlossary(module fs.FS) (glossary, error) {
	text, err := fs.ReadFile(module, glossaryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: run words at the root of the module; the file has a table %s", glossaryFile, columns)
	}
	if err != nil {
		return nil, err
	}
	return parseGlossary(string(text))
}

// parseGlossary reads the rows of all tables of a Markdown file. In the last
// column the entries are in backticks, and other text is a remark.
func parseGlossary(text string) (glossary, error) {
	g, n := glossary{}, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		row := strings.Split(strings.TrimSuffix(line[1:], "|"), "|")
		if len(row) != 4 {
			return nil, fmt.Errorf("%s:%d: a row of %d columns, want four: %s", glossaryFile, n, len(row), columns)
		}
		parts := strings.Split(row[3], "`")
		if len(parts)%2 == 0 {
			return nil, fmt.Errorf("%s:%d: a backtick without its pair in the column \"not to use\": %s", glossaryFile, n, row[3])
		}
		word := cmp.Or(strings.TrimSpace(strings.ReplaceAll(row[1], "`", "")), "another word")
		for i := 1; i < len(parts); i += 2 {
			if other, twice := g[parts[i]]; twice {
				g[parts[i]] = other + " or " + word
			} else {
				g[parts[i]] = word
			}
		}
	}
	if len(g) == 0 {
		return nil, fmt.Errorf("%s: no entry in the column \"not to use\" of a table %s", glossaryFile, columns)
	}
	return g, nil
}

// replacement is the word to use for a name that the package of a directory must not
// use, and "" for other names.
func (g glossary) replacement(dir, name string) string {
	return cmp.Or(g[dir+":"+name], g[name])
}
