package lsp

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// maxText bounds the files that are sent to a server.
const maxText = 8 << 20

// A document is a file that is open in a server.
type document struct {
	version int
	text    []byte
	digest  string
	size    int64
	mtime   time.Time
	at      int // serial of the diagnostics when this version was sent
}

// Kinds of changes in workspace/didChangeWatchedFiles.
const (
	fileCreated = 1
	fileChanged = 2
	fileDeleted = 3
)

// syncDocuments updates all open documents from the workspace, and opens name.
func (c *client) syncDocuments(ctx context.Context, name string) (*document, error) {
	c.docMu.Lock()
	defer c.docMu.Unlock()
	for other := range c.docs {
		if other == name {
			continue
		}
		if _, err := c.syncOneLocked(ctx, other, false); err != nil {
			return nil, err
		}
	}
	if name == "" {
		return nil, nil // no document was asked for
	}
	return c.syncOneLocked(ctx, name, true)
}

// syncOneLocked opens, changes or closes one document, as the workspace has it. The caller
// holds c.docMu.
func (c *client) syncOneLocked(ctx context.Context, name string, must bool) (*document, error) {
	doc := c.docs[name]
	info, err := c.ws.Stat(ctx, name, nil)
	if err == nil && doc != nil && info.Size == doc.size && info.ModTime.Equal(doc.mtime) && !info.ModTime.IsZero() && time.Since(info.ModTime) > 2*time.Second {
		return doc, nil // a file written within the last two seconds may change again with the same mtime
	}
	var text []byte
	if err == nil {
		text, err = readText(ctx, c.ws, name)
	}
	if err != nil {
		if doc != nil && fault.Of(err) == fault.NotFound {
			delete(c.docs, name)
			if err := c.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": uriOf(c.root, name)}}); err != nil {
				return nil, err
			}
			if err := c.notifyWatched(map[string]int{name: fileDeleted}); err != nil {
				return nil, err
			}
		}
		if must {
			return nil, err
		}
		return nil, nil // an open document that is gone was closed
	}
	digest := driver.DigestBytes(text)
	if doc != nil && doc.digest == digest {
		doc.size, doc.mtime = info.Size, info.ModTime
		return doc, nil
	}
	return c.sendLocked(name, doc, &document{text: text, digest: digest, size: info.Size, mtime: info.ModTime})
}

// sendLocked opens a document, or changes an open one. The caller holds c.docMu.
func (c *client) sendLocked(name string, old, doc *document) (*document, error) {
	uri := uriOf(c.root, name)
	c.stateMu.Lock()
	if set := c.found[uri]; set != nil {
		doc.at = set.serial
	}
	c.stateMu.Unlock()
	if old == nil {
		doc.version = 1
		_, id := languageOf(name)
		err := c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": uri, "languageId": id, "version": doc.version, "text": string(doc.text),
		}})
		if err != nil {
			return nil, err
		}
		c.docs[name] = doc
		return doc, nil
	}
	doc.version = old.version + 1
	err := c.notify("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": uri, "version": doc.version},
		"contentChanges": []any{map[string]any{"text": string(doc.text)}},
	})
	if err != nil {
		return nil, err
	}
	c.docs[name] = doc
	// Some servers analyse a file only when it is saved.
	return doc, c.notify("textDocument/didSave", map[string]any{"textDocument": map[string]any{"uri": uri}})
}

// notifyWatched sends workspace/didChangeWatchedFiles.
func (c *client) notifyWatched(changes map[string]int) error {
	if len(changes) == 0 {
		return nil
	}
	events := make([]any, 0, len(changes))
	for name, kind := range changes {
		events = append(events, map[string]any{"uri": uriOf(c.root, name), "type": kind})
	}
	return c.notify("workspace/didChangeWatchedFiles", map[string]any{"changes": events})
}

// documentText returns the text that the server has of a file, else the file's content.
func (c *client) documentText(ctx context.Context, name string) ([]byte, error) {
	c.docMu.Lock()
	doc := c.docs[name]
	c.docMu.Unlock()
	if doc != nil {
		return doc.text, nil
	}
	return readText(ctx, c.ws, name)
}

func readText(ctx context.Context, ws *workspace.Workspace, name string) ([]byte, error) {
	body, _, err := ws.Read(ctx, name, &workspace.ReadOptions{Limit: maxText + 1})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("lsp: read %s: %w: at most %d bytes are sent to a language server", name, fault.ResourceExhausted, maxText)
	}
	return text, err
}
