package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// A component is a module that a program links, or Go's standard library.
type component struct {
	path, version string
	sum           string   // of the module, as in go.sum
	files         []string // with its licence
	license       string   // SPDX identifier
}

// components lists what a program links, as Go's linker recorded it, and finds the
// licences in the module cache. One without a licence is an error.
func components(ctx context.Context, tree, program string) ([]component, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	goroot, err := command(ctx, tree, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	list := []component{{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}}
	dirs := []string{goroot}
	args := []string{"go", "mod", "download", "-json"}
	for _, dep := range info.Deps {
		list = append(list, component{path: dep.Path, version: dep.Version, sum: dep.Sum})
		args = append(args, dep.Path+"@"+dep.Version)
	}
	out, err := command(ctx, tree, goEnv(), args...)
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var m struct{ Dir string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		dirs = append(dirs, m.Dir)
	}
	if len(dirs) != len(list) {
		return nil, fmt.Errorf("go mod download answers for %d of %d modules", len(dirs), len(list))
	}
	for i := range list {
		if err := list[i].findLicense(dirs[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

var licenseName = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|unlicense|patents)`)

func (c *component) findLicense(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenseName.MatchString(e.Name()) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		c.files = append(c.files, name)
		if c.license == "" {
			c.license = licenseID(string(text))
		}
	}
	if c.license == "" {
		return fmt.Errorf("module %s: no known licence in %s (%v)", c.path, dir, c.files)
	}
	return nil
}

// licenseID returns the SPDX identifier of a licence by a sentence that only it has; "" if
// it is not known.
func licenseID(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, known := range []struct{ sentence, id string }{
		{"Apache License", "Apache-2.0"},
		{"Mozilla Public License Version 2.0", "MPL-2.0"},
		{"Mozilla Public License, version 2.0", "MPL-2.0"},
		{"Permission is hereby granted, free of charge", "MIT"},
		{"Permission to use, copy, modify, and", "ISC"},
		{"Neither the name of", "BSD-3-Clause"},
		{"Redistribution and use in source and binary forms", "BSD-2-Clause"},
		{"CC0 1.0 Universal", "CC0-1.0"},
		{"This is free and unencumbered software", "Unlicense"},
	} {
		if strings.Contains(text, known.sentence) {
			return known.id
		}
	}
	return ""
}

// writeLicenses copies the licences of all components to dir, and those of the files from
// other projects in Croft's own tree.
func writeLicenses(dir, tree string, parts []component) error {
	for _, c := range parts {
		for _, name := range c.files {
			if err := copyFile(filepath.Join(dir, c.path+"@"+c.version, filepath.Base(name)), name); err != nil {
				return err
			}
		}
	}
	names, err := readDir(tree)
	if err != nil {
		return err
	}
	for _, name := range names {
		if filepath.Base(name) == "LICENSES" && !strings.Contains(name, "testdata/") {
			if err := copyFile(filepath.Join(dir, "github.com/croft-run/croft", name), filepath.Join(tree, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeSBOM writes the components of a program as CycloneDX 1.6.
func writeSBOM(file string, b *build, platform string, parts []component) error {
	type object = map[string]any
	library := func(kind, path, version, license string) object {
		purl := "pkg:golang/" + path + "@" + version
		return object{"type": kind, "bom-ref": purl, "name": path, "version": version, "purl": purl,
			"licenses": []object{{"license": object{"id": license}}}}
	}
	main := library("application", "github.com/croft-run/croft", b.version, "Apache-2.0")
	main["properties"] = []object{{"name": "croft:platform", "value": platform}, {"name": "croft:commit", "value": b.source.commit}}
	var list []object
	var refs []any
	for _, c := range parts {
		o := library("library", c.path, c.version, c.license)
		if c.sum != "" {
			o["properties"] = []object{{"name": "go:sum", "value": c.sum}}
		}
		list, refs = append(list, o), append(refs, o["bom-ref"])
	}
	slices.SortFunc(list, func(a, b object) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	data, err := json.MarshalIndent(object{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": object{
			"timestamp": b.source.date, "component": main,
			"tools": object{"components": []object{{"type": "application", "name": "go", "version": runtime.Version()}}},
		},
		"components":   list,
		"dependencies": []object{{"ref": main["bom-ref"], "dependsOn": refs}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
