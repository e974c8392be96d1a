// Package grammar parses source text into syntax trees with tree-sitter grammars compiled
// to WebAssembly.
//
// The grammars are compiled together with tree-sitter's library and a little glue
// (build.sh, src/croft.c), one module per language, and run by wazero. So there is no cgo,
// and a text that crashes a parser affects only a WebAssembly instance with bounded memory.
// A language is compiled at its first use.
//
//	var set grammar.Set
//	defer set.Close(ctx)
//	tree, err := set.Parse(ctx, grammar.Python, src)
//
// A [Tree] is a flat list of nodes, parents before children. Tree-sitter always returns a
// tree; [Tree.Errors] returns the nodes with syntax errors.
package grammar

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/croft-run/croft/fault"
)

//go:embed *.wasm.gz
var modules embed.FS

// A Language names a grammar.
type Language string

// The supported languages.
const (
	Python     Language = "python"
	JavaScript Language = "javascript"
	TypeScript Language = "typescript"
	TSX        Language = "tsx"
	Rust       Language = "rust"
	Java       Language = "java"
	C          Language = "c"
	CPP        Language = "cpp"
)

// MaxSource bounds a text, in bytes.
const MaxSource = 8 << 20

// maxPages bounds the memory of one parser, in pages of 64 KiB.
const maxPages = 8192

// A Set parses texts. The zero value is ready to use. It is safe for concurrent use, and
// parses one text of a language at a time.
type Set struct {
	mu      sync.Mutex
	runtime wazero.Runtime
	parsers map[Language]*parser
}

// A parser is the module of one grammar.
type parser struct {
	mu       sync.Mutex
	compiled wazero.CompiledModule
	live     api.Module // nil before the first use, and after an error
	symbols  []string
	fields   []string
}

// Close frees all modules. The Set can be used again.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runtime == nil {
		return nil
	}
	err := s.runtime.Close(ctx)
	s.runtime, s.parsers = nil, nil
	return err
}

// Parse returns the tree of src. It stops when ctx ends.
func (s *Set) Parse(ctx context.Context, lang Language, src []byte) (*Tree, error) {
	if len(src) > MaxSource {
		return nil, fmt.Errorf("grammar: parse %d bytes of %s: %w: at most %d are parsed", len(src), lang, fault.ResourceExhausted, MaxSource)
	}
	p, run, err := s.parserFor(ctx, lang)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	tree, err := p.parse(ctx, run, src)
	if err != nil {
		if p.live != nil {
			_ = p.live.Close(context.WithoutCancel(ctx)) // unusable after an error; the next call instantiates another
			p.live = nil
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("grammar: parse %s: %w", lang, err)
	}
	tree.Language = lang
	return tree, nil
}

// parserFor returns the compiled grammar; it is compiled at its first use.
func (s *Set) parserFor(ctx context.Context, lang Language) (*parser, wazero.Runtime, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.parsers[lang]; p != nil {
		return p, s.runtime, nil
	}
	code, err := loadModule(lang)
	if err != nil {
		return nil, nil, err
	}
	if s.runtime == nil {
		ctx := context.WithoutCancel(ctx)
		s.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(maxPages))
		s.parsers = map[Language]*parser{}
		if _, err := wasi_snapshot_preview1.Instantiate(ctx, s.runtime); err != nil {
			return nil, nil, fmt.Errorf("grammar: %w: %w", fault.Internal, err)
		}
		// Calling a host function now and then costs little; wazero's own
		// context check makes parsing five times as slow.
		stop := func(ctx context.Context) int32 {
			if ctx.Err() != nil {
				return 1
			}
			return 0
		}
		if _, err := s.runtime.NewHostModuleBuilder("croft").NewFunctionBuilder().WithFunc(stop).Export("stop").Instantiate(ctx); err != nil {
			return nil, nil, fmt.Errorf("grammar: %w: %w", fault.Internal, err)
		}
	}
	compiled, err := s.runtime.CompileModule(ctx, code)
	if err != nil {
		return nil, nil, fmt.Errorf("grammar: compile %s: %w: %w", lang, fault.Internal, err)
	}
	p := &parser{compiled: compiled}
	s.parsers[lang] = p
	return p, s.runtime, nil
}

func loadModule(lang Language) ([]byte, error) {
	packed, err := modules.ReadFile(string(lang) + ".wasm.gz")
	if err != nil {
		return nil, fmt.Errorf("grammar: language %q: %w: no grammar for this language", lang, fault.Unsupported)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("grammar: unpack %s: %w: %w", lang, fault.Internal, err)
	}
	code, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("grammar: unpack %s: %w: %w", lang, fault.Internal, err)
	}
	return code, nil
}

// parse runs the module, which must not be used after an error.
func (p *parser) parse(ctx context.Context, run wazero.Runtime, src []byte) (*Tree, error) {
	if p.live == nil {
		config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize")
		live, err := run.InstantiateModule(ctx, p.compiled, config)
		if err != nil {
			return nil, fmt.Errorf("start: %w: %w", fault.Internal, err)
		}
		p.live = live
		if err := p.loadNames(ctx); err != nil {
			return nil, err
		}
	}
	at, err := p.call(ctx, "croft_text", uint64(len(src)))
	if err != nil {
		return nil, err
	}
	if at == 0 || !p.live.Memory().Write(at, src) {
		return nil, fmt.Errorf("%w: the parser can't allocate %d bytes", fault.ResourceExhausted, len(src))
	}
	count, err := p.call(ctx, "croft_parse", uint64(len(src)))
	if err != nil {
		return nil, err
	}
	if int32(count) < 0 {
		return nil, fmt.Errorf("%w: the parser gave up", fault.ResourceExhausted)
	}
	at, err = p.call(ctx, "croft_nodes")
	if err != nil {
		return nil, err
	}
	const size = 20
	raw, ok := p.live.Memory().Read(at, count*size)
	if !ok {
		return nil, fmt.Errorf("%w: the parser's answer is out of bounds", fault.Internal)
	}
	return p.decodeTree(raw, src), nil
}

// decodeTree copies the nodes out of the module's memory.
func (p *parser) decodeTree(raw, src []byte) *Tree {
	const size = 20
	t := &Tree{Source: src, Nodes: make([]Node, len(raw)/size)}
	for i := range t.Nodes {
		rec := raw[i*size:]
		word := func(n int) uint32 { return binary.LittleEndian.Uint32(rec[4*n:]) }
		n := &t.Nodes[i]
		n.flags = uint8(word(0) >> 16)
		n.Kind = nameOf(p.symbols, word(0)&0xffff)
		n.Field = nameOf(p.fields, word(1))
		n.Start, n.End, n.Parent = int(word(2)), int(word(3)), int(word(4))
	}
	return t
}

func nameOf(names []string, id uint32) string {
	if int(id) < len(names) {
		return names[id]
	}
	return "ERROR" // the largest id
}

// loadNames reads the names of kinds and fields from the module.
func (p *parser) loadNames(ctx context.Context) (err error) {
	if p.symbols, err = p.listNames(ctx, "croft_symbols", "croft_symbol", 0); err != nil {
		return err
	}
	p.fields, err = p.listNames(ctx, "croft_fields", "croft_field", 1)
	return err
}

// listNames reads names by id. Field ids begin with 1, and the count excludes 0.
func (p *parser) listNames(ctx context.Context, count, name string, first uint32) ([]string, error) {
	n, err := p.call(ctx, count)
	if err != nil {
		return nil, err
	}
	names := make([]string, n+first)
	for id := first; id < n+first; id++ {
		at, err := p.call(ctx, name, uint64(id))
		if err != nil {
			return nil, err
		}
		names[id] = p.readString(at)
	}
	return names, nil
}

// readString reads a NUL-terminated string.
func (p *parser) readString(at uint32) string {
	const longest = 128
	mem := p.live.Memory()
	raw, ok := mem.Read(at, min(longest, max(mem.Size(), at)-at))
	if !ok {
		return ""
	}
	if end := bytes.IndexByte(raw, 0); end >= 0 {
		raw = raw[:end]
	}
	return string(raw)
}

func (p *parser) call(ctx context.Context, name string, args ...uint64) (uint32, error) {
	res, err := p.live.ExportedFunction(name).Call(ctx, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w", name, fault.ResourceExhausted, err)
	}
	return uint32(res[0]), nil
}
