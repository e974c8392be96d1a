package lsp

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/workspace"
)

// A server says how a language's servers are started. The first command that is
// found runs.
type server struct {
	name     string // of the language
	commands [][]string
	env      []string
	options  any // for initialize
	settings any // for workspace/configuration
	install  string

	announces bool     // it tells when it begins to load a project
	projects  []string // or does so where there is one of these files
}

var servers = []server{
	{
		name: "go", commands: [][]string{{"gopls", "serve"}},
		env:     []string{"GOTOOLCHAIN=local", "GOPROXY=off", "GOTELEMETRY=off"},
		install: "GOBIN=/usr/local/bin go install golang.org/x/tools/gopls@latest", announces: true,
		options: map[string]any{"pullDiagnostics": true},
	},
	{
		name: "python", commands: [][]string{{"pyright-langserver", "--stdio"}, {"basedpyright-langserver", "--stdio"}, {"pylsp"}},
		settings: map[string]any{"pylsp": map[string]any{}, "python": map[string]any{"analysis": map[string]any{"autoSearchPaths": true}}},
		install:  "npm install -g pyright, or the package python3-pylsp",
	},
	{
		name: "typescript", commands: [][]string{{"typescript-language-server", "--stdio"}},
		options: map[string]any{
			"disableAutomaticTypingAcquisition": true,
			// Its second server answers before the project is loaded, and wrongly.
			"tsserver": map[string]any{"useSyntaxServer": "never"},
			// A rename of what is imported renames it where it is exported.
			"preferences": map[string]any{"providePrefixAndSuffixTextForRename": false},
		},
		install: "npm install -g typescript typescript-language-server",
	},
	{name: "rust", commands: [][]string{{"rust-analyzer"}}, install: "rustup component add rust-analyzer", announces: true},
	{
		name: "c", commands: [][]string{{"clangd", "--background-index"}, {"clangd-19"}, {"clangd-16"}, {"clangd-14"}}, install: "the package clangd",
		projects: []string{"compile_commands.json", "build/compile_commands.json"},
	},
}

// languages are the languages by file name extension: the server's, and the
// protocol's name for the text.
var languages = map[string]struct{ server, id string }{
	".go": {"go", "go"},
	".py": {"python", "python"}, ".pyi": {"python", "python"},
	".ts": {"typescript", "typescript"}, ".mts": {"typescript", "typescript"}, ".cts": {"typescript", "typescript"},
	".tsx": {"typescript", "typescriptreact"},
	".js":  {"typescript", "javascript"}, ".mjs": {"typescript", "javascript"}, ".cjs": {"typescript", "javascript"},
	".jsx": {"typescript", "javascriptreact"},
	".rs":  {"rust", "rust"},
	".c":   {"c", "c"}, ".h": {"c", "cpp"},
	".cc": {"c", "cpp"}, ".cpp": {"c", "cpp"}, ".cxx": {"c", "cpp"}, ".hh": {"c", "cpp"}, ".hpp": {"c", "cpp"}, ".hxx": {"c", "cpp"},
}

// languageOf returns the server for a file, nil for none.
func languageOf(name string) (*server, string) {
	l, ok := languages[strings.ToLower(path.Ext(name))]
	if !ok {
		return nil, ""
	}
	return serverOf(l.server), l.id
}

func serverOf(name string) *server {
	for i := range servers {
		if servers[i].name == name {
			return &servers[i]
		}
	}
	return nil
}

// paths are where servers, and what they call, are found besides PATH.
var paths = []string{
	"/usr/local/go/bin", "/usr/lib/go/bin", "$HOME/go/bin", "$HOME/.cargo/bin", "$HOME/.local/bin", "/opt/go/bin", "/opt/node/bin",
}

// notFound is the status of a script that found no server.
const notFound = 127

// startScript starts the first of the commands that there is. It is a script because
// only the inside of the workspace knows its PATH.
func (s *server) startScript() string {
	var b strings.Builder
	fmt.Fprintf(&b, "export PATH=\"$PATH:%s\"\n", strings.Join(paths, ":"))
	for _, c := range s.commands {
		fmt.Fprintf(&b, "if command -v %s >/dev/null; then exec %s; fi\n", c[0], strings.Join(c, " "))
	}
	fmt.Fprintf(&b, "exit %d\n", notFound)
	return b.String()
}

// announcesLoading reports whether the server tells when it begins to load the project of
// a workspace.
func (s *server) announcesLoading(ctx context.Context, ws *workspace.Workspace) bool {
	return s.announces || slices.ContainsFunc(s.projects, func(name string) bool {
		info, err := ws.Stat(ctx, name, nil)
		return err == nil && info.Size > int64(len("[]\r\n")) // more than an empty list
	})
}

// missingText says which program there is not.
func (s *server) missingText() string {
	var names []string
	for _, c := range s.commands {
		names = append(names, c[0])
	}
	return fmt.Sprintf("%s not found on PATH in the workspace; to install: %s (in a sandbox, below /usr or /opt)", strings.Join(names, " or "), s.install)
}

// Times of servers.
const (
	initTimeout  = 60 * time.Second       // to initialize
	loadTimeout  = 60 * time.Second       // to load the project, before the first answer
	announceTime = 10 * time.Second       // to begin loading, where it says so
	beginTime    = 500 * time.Millisecond // and where it may not
	calmTime     = 100 * time.Millisecond // between two parts of loading
	versionTime  = 100 * time.Millisecond // after diagnostics of a version, for what other files do to them
	quietTime    = time.Second            // after diagnostics that do not say of what version they are
	startPoll    = 10 * time.Millisecond  // how often who waits for a start looks
	stopTime     = 5 * time.Second        // to end by itself
	idleTime     = 10 * time.Minute       // without a question
	firstPause   = time.Second            // after a server died early; doubled each time
	maxPause     = time.Minute
	hungPause    = 30 * time.Second // after a server that did not answer
	healthy      = 30 * time.Second // a server that lived so long did not die early
)
