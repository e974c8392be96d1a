package isolate

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // what drops types
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace/driver"
)

// stripper is strip.js with Sucrase, compressed; see build.sh.
//
//go:embed typescript.js.gz
var stripper []byte

//go:embed strip_node.js
var stripNode string

// NodeTypeScript returns a program for node with two path arguments: it removes the
// types of the first file, which is TypeScript, writes the second, and runs that.
// With it a workspace with node parses untrusted source inside the sandbox, not in
// Croft.
func NodeTypeScript() (string, error) {
	program, err := decompress(stripper)
	return string(program) + stripNode, err
}

func decompress(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// typesImage returns the image of an isolate that removes types. It is created at the
// first use. Untrusted source can make a TypeScript parser take exponential time
// (backtracking) or recurse without bound; in an isolate both are bounded like any
// script.
func (e *Engine) typesImage(ctx context.Context) (*image, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.types != nil {
		return e.types, nil
	}
	program, err := decompress(stripper)
	if err != nil {
		return nil, err
	}
	img := &image{compiled: e.image.compiled}
	err = e.captureMemory(context.WithoutCancel(ctx), img, func(ctx context.Context, iso *isolate) error {
		fn, err := iso.evalSource(ctx, string(program)+";croft.strip", "croft:typescript", evalScript)
		if err != nil {
			return err
		}
		img.strip = fn
		return iso.exceptionError(ctx, fn)
	})
	if err != nil {
		return nil, fmt.Errorf("isolate: prepare the TypeScript parser: %w: %w", fault.Internal, err)
	}
	e.types = img
	return img, nil
}

// syntaxError is the error of strip.js for invalid source.
type syntaxError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Text    string `json:"text"`
}

// stripTypes removes the types of TypeScript, in an isolate with the bounds of the
// run. An error means that the isolate was stopped.
func (r *scriptRun) stripTypes(ctx context.Context, source, name string) (string, *driver.CodeError, error) {
	img, err := r.engine.typesImage(ctx)
	if err != nil {
		return "", nil, err
	}
	memory := r.newMemory(img)
	defer func() { r.full = r.full || memory.refused }()
	iso, err := img.instantiate(experimental.WithMemoryAllocator(ctx, memory), r.engine.runtime)
	if err != nil {
		return "", nil, err
	}
	defer iso.close(context.WithoutCancel(ctx))
	answer, err := iso.callStrip(withIsolate(ctx, iso), source, name)
	switch {
	case ctx.Err() != nil:
		return "", nil, ctx.Err()
	case err != nil:
		return "", nil, err
	case answer == "":
		return "", nil, errors.New("the TypeScript parser returned no result")
	case answer[0] == '+':
		return answer[1:], nil, nil
	}
	var bad syntaxError
	if err := json.Unmarshal([]byte(answer[1:]), &bad); err != nil {
		return "", nil, err
	}
	e := &driver.CodeError{Name: bad.Name, Value: bad.Message}
	if bad.Line > 0 {
		e.Traceback = []string{fmt.Sprintf("%s:%d:%d: %s", name, bad.Line, bad.Column, bad.Message), "    " + bad.Text}
	}
	return "", e, nil
}

// callStrip calls strip.js.
func (iso *isolate) callStrip(ctx context.Context, source, name string) (string, error) {
	var args []uint64
	for _, s := range []string{source, name} {
		v, err := iso.newText(ctx, s)
		if err != nil {
			return "", err
		}
		args = append(args, v)
	}
	v, err := iso.callFunction(ctx, iso.image.strip, args...)
	if err != nil {
		return "", err
	}
	if err := iso.exceptionError(ctx, v); err != nil {
		return "", err
	}
	return iso.stringOf(ctx, v)
}

var statement = lazyregexp.New(`(?m)^[ \t]*(import[ \t]*["'{*]|import[ \t]+[\w$]+[ \t]*(,|from\b)|export[ \t]+(default|const|let|var|function|class|async|\{|\*)|export[ \t]*\{)`)

// isModule reports whether source has statements that only modules may have. Other
// source runs as a script, whose last value is the result.
func isModule(source string) bool { return statement.MatchString(source) }
