// Command manuals writes croft's manual pages and shell completions to a directory:
//
//	manuals DIR VERSION DATE
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/croft-run/croft/internal/daemon/cli"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: manuals DIR VERSION DATE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "manuals:", err)
		os.Exit(1)
	}
}

func write(dir, version, date string) error {
	when, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	root := cli.Commands()
	root.DisableAutoGenTag = true
	man, completions := filepath.Join(dir, "man", "man1"), filepath.Join(dir, "completions")
	if err := errors.Join(os.MkdirAll(man, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	return errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "croft " + version, Manual: "Croft", Date: &when}, man),
		root.GenBashCompletionFileV2(filepath.Join(completions, "croft.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_croft")),
		root.GenFishCompletionFile(filepath.Join(completions, "croft.fish"), true),
	)
}
