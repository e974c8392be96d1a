package rest

import (
	"context"
	"net/http"

	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const onePath = "/v1/workspaces/{id}"

func (s fileRoutes) tree() {
	onWorkspace(s, shown(s.op(http.MethodGet, onePath+"/stat", "stat", "Describe what is at a path")), statPath)
	onWorkspace(s, shown(s.op(http.MethodGet, onePath+"/readdir", "readdir", "List a directory, one level")), readDir)
	onWorkspace(s, shown(s.op(http.MethodGet, onePath+"/list", "list", "List a directory, to any depth, in pages")), listDir)
	onWorkspace(s, shown(s.op(http.MethodGet, onePath+"/digest", "digest", "The digest of a file or a tree")), digestPath)
	onWorkspace(s, s.op(http.MethodPost, onePath+"/edit", "edit", "Replace text in a file, all or nothing"), editFile)
	onWorkspace(s, s.op(http.MethodPost, onePath+"/mkdir", "mkdir", "Make a directory"), makeDir)
	onWorkspace(s, s.op(http.MethodPost, onePath+"/rename", "rename", "Move a file, a symlink or a directory"), renamePath)
	onWorkspace(s, s.op(http.MethodPost, onePath+"/copy", "copy", "Copy a file or a tree"), copyPath)
	onWorkspace(s, s.op(http.MethodPost, onePath+"/chmod", "chmod", "Set permission bits"), setMode)
	onWorkspace(s, s.op(http.MethodPost, onePath+"/symlink", "symlink", "Make a symlink that stays inside"), makeSymlink)
}

type statInput struct {
	Target
	Path        string `query:"path" doc:"empty is the workspace itself"`
	NoFollow    bool   `query:"nofollow" doc:"describe a symlink itself"`
	Digest      bool   `query:"digest" doc:"with the digest of a file's content"`
	ChangeToken bool   `query:"changeToken" doc:"with the change token, where the provider has one"`
}

func statPath(ctx context.Context, ws *workspace.Workspace, in *statInput) (*body[driver.Info], error) {
	return reply(ws.Stat(ctx, in.Path, &driver.StatOptions{NoFollow: in.NoFollow, Digest: in.Digest, ChangeToken: in.ChangeToken}))
}

// Entries is the answer of /readdir.
type Entries struct {
	Entries []driver.Info `json:"entries"`
}

func readDir(ctx context.Context, ws *workspace.Workspace, in *pathInput) (*body[Entries], error) {
	entries, err := ws.ReadDir(ctx, in.Path)
	if entries == nil {
		entries = []driver.Info{}
	}
	return &body[Entries]{Entries{entries}}, err
}

type listDirInput struct {
	Target
	Path        string `query:"path"`
	Depth       int    `query:"depth" doc:"levels below; 0 is 1, and -1 is all"`
	Limit       int    `query:"limit" doc:"entries in a page; 0 is 1000"`
	After       string `query:"after" doc:"the next of the page before"`
	ChangeToken bool   `query:"changeToken" doc:"with the change token of each, where the provider has one"`
}

func listDir(ctx context.Context, ws *workspace.Workspace, in *listDirInput) (*body[driver.Listing], error) {
	page, err := ws.List(ctx, in.Path, &driver.ListOptions{Depth: in.Depth, Limit: in.Limit, After: in.After, ChangeToken: in.ChangeToken})
	if page.Entries == nil {
		page.Entries = []driver.Info{}
	}
	return &body[driver.Listing]{page}, err
}

// Digest is the answer of /digest.
type Digest struct {
	Digest string `json:"digest"`
}

type pathInput struct {
	Target
	Path string `query:"path" doc:"empty is the workspace itself"`
}

func digestPath(ctx context.Context, ws *workspace.Workspace, in *pathInput) (*body[Digest], error) {
	sum, err := ws.Digest(ctx, in.Path)
	return &body[Digest]{Digest{sum}}, err
}

// Edits is the body of /edit.
type Edits struct {
	Edits   []driver.Edit `json:"edits"`
	IfMatch string        `json:"ifMatch,omitempty" doc:"digest that the content must have before"`
	Sync    bool          `json:"sync,omitempty" doc:"on stable storage before the answer"`
}

type editInput struct {
	Target
	Path string `query:"path" required:"true"`
	Body Edits
}

func editFile(ctx context.Context, ws *workspace.Workspace, in *editInput) (*body[driver.EditResult], error) {
	return reply(ws.Edit(ctx, in.Path, in.Body.Edits, &driver.EditOptions{IfMatch: in.Body.IfMatch, Sync: in.Body.Sync}))
}

type mkdirInput struct {
	Target
	Path    string `query:"path" required:"true"`
	Parents bool   `query:"parents" doc:"make missing directories above, and accept one that exists"`
	Mode    string `query:"mode" doc:"octal; 0755 where absent"`
}

func makeDir(ctx context.Context, ws *workspace.Workspace, in *mkdirInput) (*none, error) {
	mode, err := parseMode(in.Mode)
	if err != nil {
		return nil, err
	}
	return nil, ws.Mkdir(ctx, in.Path, &driver.MkdirOptions{Parents: in.Parents, Mode: mode})
}

type renameInput struct {
	Target
	From       string `query:"from" required:"true"`
	To         string `query:"to" required:"true"`
	CreateOnly bool   `query:"createonly" doc:"refuse to replace anything"`
	Parents    bool   `query:"parents"`
}

func renamePath(ctx context.Context, ws *workspace.Workspace, in *renameInput) (*none, error) {
	return nil, ws.Rename(ctx, in.From, in.To, &driver.RenameOptions{CreateOnly: in.CreateOnly, Parents: in.Parents})
}

type copyInput struct {
	Target
	From       string `query:"from" required:"true"`
	To         string `query:"to" required:"true"`
	Recursive  bool   `query:"recursive" doc:"a directory with all below it"`
	CreateOnly bool   `query:"createonly"`
	Parents    bool   `query:"parents"`
}

func copyPath(ctx context.Context, ws *workspace.Workspace, in *copyInput) (*none, error) {
	return nil, ws.Copy(ctx, in.From, in.To, &driver.CopyOptions{Recursive: in.Recursive, CreateOnly: in.CreateOnly, Parents: in.Parents})
}

type chmodInput struct {
	Target
	Path string `query:"path" required:"true"`
	Mode string `query:"mode" required:"true" doc:"octal"`
}

func setMode(ctx context.Context, ws *workspace.Workspace, in *chmodInput) (*none, error) {
	mode, err := parseMode(in.Mode)
	if err != nil {
		return nil, err
	}
	return nil, ws.Chmod(ctx, in.Path, mode)
}

type symlinkInput struct {
	Target
	Path string `query:"path" required:"true"`
	To   string `query:"to" required:"true" doc:"what it points to"`
}

func makeSymlink(ctx context.Context, ws *workspace.Workspace, in *symlinkInput) (*none, error) {
	return nil, ws.Symlink(ctx, in.To, in.Path)
}
