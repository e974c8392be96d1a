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

// A server describes the language server of one language. The first installed command is
// used.
type server struct {
	name     string // the language
	commands [][]string
	env      []string
	options  any // for initialize
	settings any // for workspace/configuration
	install  string

	// loadedOnly is set if the server answers from the projects of its open files, or from a
	// part of the files that a configuration names.
	loadedOnly bool

	// renamesConfigured is set if a rename leaves out open files that the configuration of the
	// server does not include. Other servers keep a variable that an import sets, which the
	// definition of its uses does not tell.
	renamesConfigured bool

	// leavesUses is set if a rename may leave uses of the symbol, which then have no definition.
	leavesUses bool

	announces bool     // reports when it begins to load a project
	projects  []string // or reports so if one of these files exists
}

var servers = []server{
	{
		name: "go", commands: [][]string{{"gopls", "serve"}},
		env:     []string{"GOTOOLCHAIN=local", "GOPROXY=off", "GOTELEMETRY=off"},
		install: "GOBIN=/usr/local/bin go install golang.org/x/tools/gopls@latest", announces: true,
		options: map[string]any{"pullDiagnostics": true},
	},
	{
		name: "python", loadedOnly: true, renamesConfigured: true, commands: [][]string{{"pyright-langserver", "--stdio"}, {"basedpyright-langserver", "--stdio"}, {"pylsp"}},
		settings: map[string]any{"pylsp": map[string]any{}, "python": map[string]any{"analysis": map[string]any{"autoSearchPaths": true}}},
		install:  "npm install -g pyright, or the package python3-pylsp",
	},
	{
		name: "typescript", loadedOnly: true, leavesUses: true, commands: [][]string{{"typescript-language-server", "--stdio"}},
		options: map[string]any{
			"disableAutomaticTypingAcquisition": true,
			// The syntax server answers before the project is loaded, and incompletely.
			"tsserver": map[string]any{"useSyntaxServer": "never"},
			// Renaming an import renames the export; see keepShorthands.
			"preferences": map[string]any{aliasesPreference: false},
		},
		install: "npm install -g typescript typescript-language-server",
	},
	{name: "rust", commands: [][]string{{"rust-analyzer"}}, install: "rustup component add rust-analyzer", announces: true},
	{
		name: "c", loadedOnly: true, commands: [][]string{{"clangd", "--background-index"}, {"clangd-19"}, {"clangd-16"}, {"clangd-14"}}, install: "the package clangd",
		projects: []string{"compile_commands.json", "build/compile_commands.json"},
	},
}

// languages maps file extensions to the server and the protocol's language id.
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

// languageOf returns the server and language id for a file, nil if there is none.
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

// paths are searched for servers and their helpers in addition to PATH.
var paths = []string{
	"/usr/local/go/bin", "/usr/lib/go/bin", "$HOME/go/bin", "$HOME/.cargo/bin", "$HOME/.local/bin", "/opt/go/bin", "/opt/node/bin",
}

// notFound is the exit status of a script that found no server.
const notFound = 127

// startScript returns a script that starts the first installed command. PATH is known only
// inside the workspace.
func (s *server) startScript() string {
	var b strings.Builder
	fmt.Fprintf(&b, "export PATH=\"$PATH:%s\"\n", strings.Join(paths, ":"))
	for _, c := range s.commands {
		fmt.Fprintf(&b, "if command -v %s >/dev/null; then exec %s; fi\n", c[0], strings.Join(c, " "))
	}
	fmt.Fprintf(&b, "exit %d\n", notFound)
	return b.String()
}

// announcesLoading reports whether the server reports when it begins to load the project of
// a workspace.
func (s *server) announcesLoading(ctx context.Context, ws *workspace.Workspace) bool {
	return s.announces || slices.ContainsFunc(s.projects, func(name string) bool {
		info, err := ws.Stat(ctx, name, nil)
		return err == nil && info.Size > int64(len("[]\r\n")) // more than an empty list
	})
}

// missingText says which programs are not installed.
func (s *server) missingText() string {
	var names []string
	for _, c := range s.commands {
		names = append(names, c[0])
	}
	return fmt.Sprintf("%s not found on PATH in the workspace; to install: %s", strings.Join(names, " or "), s.install)
}

// Timeouts and delays.
const (
	initTimeout  = 60 * time.Second       // to initialize
	loadTimeout  = 60 * time.Second       // to load the project, before the first response
	announceTime = 10 * time.Second       // to begin loading, for servers that report it
	beginTime    = 500 * time.Millisecond // to begin loading, for other servers
	calmTime     = 100 * time.Millisecond // between two parts of loading
	versionTime  = 100 * time.Millisecond // after diagnostics of a version, for effects of other files
	quietTime    = time.Second            // after diagnostics without a version
	startPoll    = 10 * time.Millisecond  // poll interval while another request starts the server
	stopTime     = 5 * time.Second        // to exit after shutdown
	idleTime     = 10 * time.Minute       // without a request
	firstPause   = time.Second            // backoff after a server died early; doubled each time
	maxPause     = time.Minute
	hungPause    = 30 * time.Second // backoff after a server that did not answer
	healthy      = 30 * time.Second // a server that dies later did not die early
)
