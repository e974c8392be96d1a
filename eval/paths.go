package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// ResultsName is the file with the results, in the directory of a run.
const ResultsName = "results.json"

// DefaultOutputDir is where runs go, below the directory of the process.
const DefaultOutputDir = ".skillgym-results"

var unsafeInPath = lazyregexp.New(`[^a-zA-Z0-9._-]`)

// maxKey bounds a key, so that a file system takes it, with what caseKeys adds, as a name.
const maxKey = 200

// CaseKey returns the id of a case as part of a path. Different ids may have the same
// key: see caseKeys. Of a long id it is the beginning and a digest.
func CaseKey(id string) string {
	key := unsafeInPath.ReplaceAllString(id, "-")
	if len(key) > maxKey {
		key = key[:maxKey] + idDigest(id)
	}
	switch key {
	case "":
		return "case"
	case ".", "..":
		return strings.ReplaceAll(key, ".", "-") // would lead elsewhere
	default:
		return key
	}
}

// reserved are names in the directory of a run that no case key may have.
var reserved = map[string]bool{"workspaces": true, ResultsName: true, journalName: true, reportName: true}

// caseKeys returns distinct keys for the cases of a run: for a second id with the same
// key a part of its digest is added, and for equal ids a number.
func caseKeys(ids []string) []string {
	keys, taken := make([]string, len(ids)), map[string]bool{}
	for i, id := range ids {
		key := CaseKey(id)
		if taken[key] || reserved[key] {
			key += idDigest(id)
		}
		for n := 2; taken[key]; n++ {
			key = fmt.Sprintf("%s--%d", CaseKey(id), n)
		}
		taken[key], keys[i] = true, key
	}
	return keys
}

// idDigest is the end of a key that its beginning does not make distinct.
func idDigest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "--" + hex.EncodeToString(sum[:4])
}

// newRunDir makes the directory of a run, named by the time. A directory that exists
// belongs to another run of the same millisecond.
func newRunDir(outputDir string, now time.Time) (string, error) {
	if err := os.MkdirAll(outputDir, 0o755); err != nil {
		return "", fmt.Errorf("eval: make the output directory: %w: %w", fault.Of(err), err)
	}
	// Paths are compared, and mounted in sandboxes: they have no symlinks.
	real, err := filepath.EvalSymlinks(outputDir)
	if err != nil {
		return "", fmt.Errorf("eval: output directory %s: %w: %w", outputDir, fault.Of(err), err)
	}
	for {
		name := strings.NewReplacer(":", "-", ".", "-").Replace(now.UTC().Format("2006-01-02T15:04:05.000Z"))
		dir := filepath.Join(real, name)
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("eval: make the directory of the run: %w: %w", fault.Of(err), err)
		}
		now = now.Add(time.Millisecond)
	}
}

// sessionDir returns the artifact directory of a session.
func sessionDir(executionDir string, repetition, session int) string {
	dir := filepath.Join(executionDir, fmt.Sprintf("repeat-%d", repetition))
	if session > 1 {
		dir = filepath.Join(dir, fmt.Sprintf("session-%d", session))
	}
	return dir
}
