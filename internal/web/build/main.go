// Command build writes internal/web/dist, the assets of the page, from internal/web/src: it installs npm's packages,
// writes the types of the API from the OpenAPI document, and bundles with esbuild. It runs in the
// directory internal/web: go generate ./internal/web.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	out := flag.String("out", "dist", "directory of the assets")
	types := flag.String("types", "src/api.gen.ts", "file of the API's types")
	install := flag.Bool("install", true, "install npm's packages first")
	flag.Parse()
	if err := build(*out, *types, *install); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func build(out, types string, install bool) error {
	if install {
		cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--silent") //nolint:noctx // it ends with an interrupt of the terminal
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("npm ci: %w", err)
		}
	}
	if err := writeTypes("../../docs/openapi.json", types); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return bundle(out)
}

func bundle(out string) error {
	res := api.Build(api.BuildOptions{
		EntryPoints:       []string{"src/main.tsx", "src/style.css", "src/icon.svg"},
		Outdir:            filepath.Join(out, "assets"),
		EntryNames:        "[name]-[hash]",
		ChunkNames:        "[name]-[hash]",
		Bundle:            true,
		Splitting:         true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone,
		Charset:           api.CharsetUTF8,
		Loader:            map[string]api.Loader{".svg": api.LoaderCopy},
		Plugins:           []api.Plugin{terminalStyles()},
		Metafile:          true,
		Write:             true,
		LogLevel:          api.LogLevelWarning,
	})
	if len(res.Errors) > 0 {
		return fmt.Errorf("esbuild: %d errors", len(res.Errors))
	}
	if err := writeLicenses(filepath.Join(out, "licenses.txt"), res.Metafile); err != nil {
		return err
	}
	names := map[string]string{}
	for _, f := range res.OutputFiles {
		name := filepath.Base(f.Path)
		switch {
		case strings.HasPrefix(name, "main-") && strings.HasSuffix(name, ".js"):
			names["script"] = name
		case strings.HasPrefix(name, "style-") && strings.HasSuffix(name, ".css"):
			names["style"] = name
		case strings.HasPrefix(name, "icon-"):
			names["icon"] = name
		}
	}
	page, err := os.ReadFile("src/index.html")
	if err != nil {
		return err
	}
	text := string(page)
	for key, name := range names {
		text = strings.ReplaceAll(text, "{{"+key+"}}", html.EscapeString("/assets/"+name))
	}
	if strings.Contains(text, "{{") {
		return fmt.Errorf("src/index.html: a name of an asset is missing: have %v", names)
	}
	return os.WriteFile(filepath.Join(out, "index.html"), []byte(text), 0o644)
}

// terminalStyles lets xterm.js work under a Content-Security-Policy without inline styles: it
// sets colours of cells by setAttribute("style"), which such a policy refuses, while the same
// text by the property style.cssText is allowed.
func terminalStyles() api.Plugin {
	return api.Plugin{Name: "terminal-styles", Setup: func(b api.PluginBuild) {
		b.OnLoad(api.OnLoadOptions{Filter: `@xterm/xterm/lib/xterm\.m?js$`}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
			data, err := os.ReadFile(args.Path)
			if err != nil {
				return api.OnLoadResult{}, err
			}
			const before, after = `_addStyle(e,t){e.setAttribute("style",` + "`${e.getAttribute(\"style\")||\"\"}${t};`)}", `_addStyle(e,t){e.style.cssText+=t+";"}`
			if bytes.Count(data, []byte(before)) != 1 {
				return api.OnLoadResult{}, fmt.Errorf("%s: it sets styles in another way than before: change terminalStyles", args.Path)
			}
			text := strings.Replace(string(data), before, after, 1)
			return api.OnLoadResult{Contents: &text, Loader: api.LoaderJS}, nil
		})
	}}
}
