package suite

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/croft-run/croft/fault"
)

// A bundleInput is what is bundled: a file, or generated text that replaces it.
type bundleInput struct {
	path string // absolute
	text string // generated module with the same lines, if the file is not JavaScript
	plan *yamlPlan
}

// bundleSource bundles a source with all its imports into a module of Node, with a source map
// inside. It exports an async function of (require, exported): require returns built-in modules, and
// exported is called with the namespace of the source.
func bundleSource(src bundleInput) ([]byte, error) {
	files, err := buildBundle(src)
	if err != nil {
		return nil, err
	}
	var code, mapped []byte
	for _, f := range files {
		if strings.HasSuffix(f.Path, ".map") {
			mapped = absoluteSources(f.Contents, filepath.Dir(src.path))
		} else {
			code = f.Contents
		}
	}
	code = append(code, "\n//# sourceMappingURL=data:application/json;base64,"...)
	return append(base64.StdEncoding.AppendEncode(code, mapped), '\n'), nil
}

func buildBundle(src bundleInput) ([]api.OutputFile, error) {
	entry := src.path
	if src.text != "" {
		entry = "croft:text"
	}
	quoted, err := json.Marshal(entry)
	if err != nil {
		return nil, fmt.Errorf("suite: load %s: %w: %w", src.path, fault.Internal, err)
	}
	dir := filepath.Dir(src.path)
	res := api.Build(api.BuildOptions{
		Stdin: &api.StdinOptions{
			Contents:   "import * as ns from " + string(quoted) + "; __croft_exported(ns);",
			ResolveDir: dir, Sourcefile: entryName, Loader: api.LoaderJS,
		},
		Bundle: true, Write: false, AbsWorkingDir: dir, Outfile: filepath.Join(dir, "croft-bundle.js"),
		Format: api.FormatESModule, Platform: api.PlatformNeutral, Target: api.ESNext,
		MainFields: []string{"module", "main"}, Conditions: []string{"node", "module"},
		ResolveExtensions: []string{".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json"},
		Loader:            map[string]api.Loader{".md": api.LoaderText, ".txt": api.LoaderText},
		Charset:           api.CharsetUTF8, LegalComments: api.LegalCommentsNone, LogLevel: api.LogLevelSilent, LogLimit: 10,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude,
		Banner:  map[string]string{"js": "module.exports = (async (__croft_require, __croft_exported) => {"},
		Footer:  map[string]string{"js": "})"},
		Plugins: []api.Plugin{modulePlugin(src)},
	})
	if len(res.Errors) > 0 {
		return nil, bundleError(src.path, res.Errors)
	}
	return res.OutputFiles, nil
}

// absoluteSources makes the names in a source map absolute paths. Those of generated text
// are the path of the file.
func absoluteSources(raw []byte, dir string) []byte {
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return raw
	}
	sources, _ := m["sources"].([]any)
	for i, s := range sources {
		name, _ := s.(string)
		if _, rest, ok := strings.Cut(name, textNamespace+":"); ok {
			sources[i] = rest
		} else if _, rest, ok := strings.Cut(name, builtinNamespace+":"); ok {
			sources[i] = "croft:" + rest
		} else if !strings.Contains(name, "croft:") && !filepath.IsAbs(name) {
			sources[i] = filepath.Join(dir, name)
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return raw
	}
	return out
}

const (
	entryName        = "croft:entry" // the line that imports the source
	builtinNamespace = "croft-builtin"
	textNamespace    = "croft-text"
)

// modulePlugin resolves imports: built-in modules by name, files as esbuild does. Any
// other import is an error with its name.
func modulePlugin(src bundleInput) api.Plugin {
	return api.Plugin{Name: "croft", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: `^croft:`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			if name, ok := strings.CutPrefix(a.Path, "croft:builtin/"); ok && a.Namespace == textNamespace {
				return api.OnResolveResult{Path: name, Namespace: builtinNamespace}, nil
			}
			if a.Path == "croft:text" && src.text != "" {
				return api.OnResolveResult{Path: src.path, Namespace: textNamespace}, nil
			}
			return api.OnResolveResult{}, fmt.Errorf("import %q: a suite has %s", a.Path, availableModules)
		})
		b.OnResolve(api.OnResolveOptions{Filter: `^[a-z@]`}, resolveBare)
		b.OnResolve(api.OnResolveOptions{Filter: `^\.\.?/`}, resolveOwnSource)
		b.OnLoad(api.OnLoadOptions{Filter: `.*`, Namespace: builtinNamespace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			text := fmt.Sprintf("module.exports = __croft_require(%q)", a.Path)
			if a.Path == "skillgym" { // so that a missing export is an error at load time
				text = fmt.Sprintf("const m = __croft_require(%q); export default m; export const {%s} = m;", a.Path, strings.Join(skillgymNames, ", "))
			}
			return api.OnLoadResult{Contents: &text, Loader: api.LoaderJS}, nil
		})
		b.OnLoad(api.OnLoadOptions{Filter: `.*`, Namespace: textNamespace}, func(api.OnLoadArgs) (api.OnLoadResult, error) {
			return api.OnLoadResult{Contents: &src.text, Loader: api.LoaderTS, ResolveDir: filepath.Dir(src.path)}, nil
		})
		b.OnLoad(api.OnLoadOptions{Filter: `\.[cm]?[jt]sx?$`, Namespace: "file"}, loadFile)
	}}
}

// skillgymNames are the exports of the module skillgym, without types.
var skillgymNames = []string{"assert", "commandMatcher", "CommandMatcherBuilder", "BUILT_IN_REPORTER_NAMES"}

// resolveOwnSource resolves the entry file of skillgym's sources to the built-in module:
// in a checkout of skillgym its suites import it by path.
func resolveOwnSource(a api.OnResolveArgs) (api.OnResolveResult, error) {
	target := filepath.Join(a.ResolveDir, a.Path)
	if target = strings.TrimSuffix(target, filepath.Ext(target)); filepath.Base(target) != "index" {
		return api.OnResolveResult{}, nil
	}
	root := filepath.Dir(target)
	if base := filepath.Base(root); base == "src" || base == "dist" {
		root = filepath.Dir(root)
	}
	var pkg struct{ Name string }
	data, err := os.ReadFile(filepath.Join(root, "package.json"))
	if err != nil || json.Unmarshal(data, &pkg) != nil || pkg.Name != "skillgym" {
		return api.OnResolveResult{}, nil // it is some other file
	}
	return api.OnResolveResult{Path: "skillgym", Namespace: builtinNamespace}, nil
}

// resolveBare resolves a bare name: skillgym, a module of Node, or a package that is installed
// beside the suite.
func resolveBare(a api.OnResolveArgs) (api.OnResolveResult, error) {
	name, prefixed := strings.CutPrefix(a.Path, "node:")
	switch {
	case prefixed || slices.Contains(nodeModules, name):
		return api.OnResolveResult{Path: "node:" + name, Namespace: builtinNamespace}, nil
	case name == "skillgym":
		return api.OnResolveResult{Path: name, Namespace: builtinNamespace}, nil
	}
	return api.OnResolveResult{}, nil // esbuild looks for it in node_modules and in the paths of a tsconfig
}

// nodeModules are the modules of Node that can be imported without node:.
var nodeModules = []string{
	"assert", "assert/strict", "async_hooks", "buffer", "child_process", "cluster", "console", "constants", "crypto", "dgram",
	"diagnostics_channel", "dns", "dns/promises", "domain", "events", "fs", "fs/promises", "http", "http2", "https", "inspector",
	"inspector/promises", "module", "net", "os", "path", "path/posix", "path/win32", "perf_hooks", "process", "punycode", "querystring",
	"readline", "readline/promises", "repl", "stream", "stream/consumers", "stream/promises", "stream/web", "string_decoder", "sys",
	"timers", "timers/promises", "tls", "trace_events", "tty", "url", "util", "util/types", "v8", "vm", "wasi", "worker_threads", "zlib",
}

// availableModules is what can be imported, for messages.
const availableModules = "skillgym, the modules of Node, files beside it, and what is installed in node_modules"

// loadFile reads a file. import.meta, __dirname and __filename are replaced by constants,
// because a bundle has only one location.
func loadFile(a api.OnLoadArgs) (api.OnLoadResult, error) {
	raw, err := os.ReadFile(a.Path)
	if err != nil {
		return api.OnLoadResult{}, fmt.Errorf("%s: %w", a.Path, fault.Of(err))
	}
	text, loader := string(raw), loaderOf(a.Path)
	if !strings.Contains(text, "import.meta") && !strings.Contains(text, "__dirname") && !strings.Contains(text, "__filename") {
		return api.OnLoadResult{Contents: &text, Loader: loader}, nil
	}
	quote := func(s string) string { q, _ := json.Marshal(s); return string(q) }
	at, name, dir := quote(fileURL(a.Path)), quote(a.Path), quote(filepath.Dir(a.Path))
	res := api.Transform(text, api.TransformOptions{
		Loader: loader, Sourcefile: filepath.Base(a.Path), Sourcemap: api.SourceMapInline, SourcesContent: api.SourcesContentExclude,
		Target: api.ESNext, LogLevel: api.LogLevelSilent,
		Define: map[string]string{
			"import.meta.url": at, "import.meta.filename": name, "import.meta.dirname": dir,
			"import.meta": fmt.Sprintf(`{"url":%s,"filename":%s,"dirname":%s}`, at, name, dir),
			"__filename":  name, "__dirname": dir,
		},
	})
	if len(res.Errors) > 0 {
		return api.OnLoadResult{Contents: &text, Loader: loader}, nil // the build reports the error, with its position
	}
	out := string(res.Code)
	js := api.LoaderJS
	if strings.HasSuffix(a.Path, "x") {
		js = api.LoaderJSX
	}
	return api.OnLoadResult{Contents: &out, Loader: js}, nil
}

func loaderOf(path string) api.Loader {
	switch filepath.Ext(path) {
	case ".ts", ".mts", ".cts":
		return api.LoaderTS
	case ".tsx":
		return api.LoaderTSX
	case ".jsx":
		return api.LoaderJSX
	}
	return api.LoaderJS
}

// bundleError converts an error of esbuild.
func bundleError(path string, messages []api.Message) error {
	m := messages[0]
	text := strings.ReplaceAll(strings.TrimPrefix(m.Text, "[plugin: croft] "), builtinNamespace+":", "")
	if m.Location != nil {
		text = fmt.Sprintf("%s:%d:%d: %s", strings.TrimPrefix(m.Location.File, textNamespace+":"), m.Location.Line, m.Location.Column+1, text)
	}
	if strings.HasPrefix(m.Text, "Could not resolve \"") {
		text += "; a suite has " + availableModules
	}
	code := fault.InvalidArgument
	if (m.Location == nil || m.Location.File == entryName) && strings.HasPrefix(m.Text, "Could not resolve \""+path) {
		code, text = fault.NotFound, "the file does not exist"
	}
	return &Error{Verb: "load", File: path, Code: code, Message: text}
}

// fileURL is the URL of an absolute path.
func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }
