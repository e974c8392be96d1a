// Package web is the page of croft up, for people: its built assets, embedded. The source is
// TypeScript in internal/web/src; go generate ./internal/web builds it with npm's packages and esbuild. The page
// speaks the public HTTP API only, and loads nothing from another origin.
package web

import "embed"

//go:generate go run ./build

// Assets has dist/index.html, and the files that it loads below dist/assets. Their names have a
// hash of their content, so that a browser may keep them for good.
//
//go:embed dist
var Assets embed.FS
