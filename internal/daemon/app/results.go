package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/tool"
)

// Limits of the texts that outlive a process.
const (
	resultAge  = 24 * time.Hour
	maxResults = 100
)

var resultID = lazyregexp.New(`^result-[A-Z2-7]{26}$`)

// A resultDir keeps the long texts of answers in files, so that the next process reads what
// this one's answer refers to: croft tool ends after one answer.
type resultDir string

// ResultDir returns the store of long answers in the data directory.
func (s *System) ResultDir() tool.Results { return resultDir(filepath.Join(s.Dir, "results")) }

// Put stores a text and removes those that are too old or too many.
func (d resultDir) Put(id, text string) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	d.prune()
	return atomicfile.Write(filepath.Join(string(d), id), []byte(text), atomicfile.Options{})
}

// Get returns a text.
func (d resultDir) Get(id string) (string, error) {
	if !resultID.MatchString(id) {
		return "", fmt.Errorf("app: result %.80q: %w", id, fault.NotFound)
	}
	data, err := os.ReadFile(filepath.Join(string(d), id))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("app: result %s: %w", id, fault.NotFound)
	}
	return string(data), err
}

// prune removes old texts. One that another process removes meanwhile is no error.
func (d resultDir) prune() {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return
	}
	modTime := func(e fs.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return modTime(a).Compare(modTime(b)) })
	for i, e := range entries {
		if len(entries)-i >= maxResults || time.Since(modTime(e)) > resultAge {
			_ = os.Remove(filepath.Join(string(d), e.Name()))
		}
	}
}
