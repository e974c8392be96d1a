package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// packageDir matches the directory of a package in the path of one of its files.
var packageDir = regexp.MustCompile(`^node_modules/(?:@[^/]+/)?[^/]+`)

// writeLicenses writes the licences of the packages that are in the bundle.
func writeLicenses(out, metafile string) error {
	var meta struct {
		Inputs map[string]json.RawMessage `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return fmt.Errorf("metafile: %w", err)
	}
	dirs := map[string]bool{}
	for file := range meta.Inputs {
		if dir := packageDir.FindString(file); dir != "" {
			dirs[dir] = true
		}
	}
	var text strings.Builder
	text.WriteString("The page of Croft has these packages inside.\n")
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		files, err := filepath.Glob(filepath.Join(dir, "LICENSE*"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("%s: it has no LICENSE: %w", dir, err)
		}
		license, err := os.ReadFile(files[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n== %s\n\n%s\n", strings.TrimPrefix(dir, "node_modules/"), strings.TrimSpace(string(license)))
	}
	return os.WriteFile(out, []byte(text.String()), 0o644)
}
