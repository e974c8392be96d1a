package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif"  // dimensions
	_ "image/jpeg" // dimensions
	_ "image/png"  // dimensions
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/plaintext"
	"github.com/croft-run/croft/workspace/driver"
)

// An Image is an image of an answer.
type Image struct {
	MIMEType string
	Data     []byte
}

// Limits of files that are not shown as they are.
const (
	maxImage       = 3 << 20 // bytes; agents refuse images of 5 MB in base64
	maxNotebook    = 64 << 20
	maxCellOutput  = 2 << 10 // bytes of text of one output
	maxPDFText     = 16 << 20
	pdfTimeout     = time.Minute
	notebookSuffix = ".ipynb"
)

// imageTypes are the types of images that models read.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// readBinary reads a binary file that can be shown: an image, or the text of a PDF.
func (c *Call) readBinary(ctx context.Context, name string, info driver.Info, w window) (readOutput, error) {
	head, err := c.readHead(ctx, name)
	if err != nil {
		return readOutput{}, c.fileError(ctx, "read", name, err)
	}
	switch kind := http.DetectContentType(head); {
	case kind == "application/pdf":
		return c.readPDF(ctx, name, info, w)
	case !slices.Contains(imageTypes, kind):
		return readOutput{}, Errorf(fault.InvalidArgument, "read: %s is a binary file (%d bytes)", name, info.Size)
	case info.Size > maxImage:
		return readOutput{}, Errorf(fault.ResourceExhausted, "read: %s is an image of %d bytes; at most %d are shown, and a command can make it smaller", name, info.Size, maxImage)
	default:
		return c.readImage(ctx, name, kind, info)
	}
}

// readHead returns the first bytes of a file.
func (c *Call) readHead(ctx context.Context, name string) ([]byte, error) {
	body, _, err := c.Workspace.Read(ctx, name, &driver.ReadOptions{Limit: 512})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readAll(body, 512)
}

func (c *Call) readImage(ctx context.Context, name, kind string, info driver.Info) (readOutput, error) {
	data, err := c.Workspace.ReadFileMax(ctx, name, maxImage)
	if err != nil {
		return readOutput{}, c.fileError(ctx, "read", name, err)
	}
	size := ""
	if config, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil {
		size = fmt.Sprintf(", %d x %d pixels", config.Width, config.Height)
	}
	c.RecordRead(info.Path, data)
	return readOutput{
		Path: info.Path, Digest: driver.DigestBytes(data), Content: fmt.Sprintf("%s: %s%s, %d bytes\n", name, kind, size, len(data)),
		image: &Image{MIMEType: kind, Data: data},
	}, nil
}

// readPDF shows the text of a PDF, which pdftotext in the workspace extracts.
func (c *Call) readPDF(ctx context.Context, name string, info driver.Info, w window) (readOutput, error) {
	missing := Errorf(fault.Unavailable, "read: %s is a PDF, and pdftotext, which shows its text, is missing; install poppler-utils where the workspace runs", name)
	if !c.Workspace.Capabilities().Has(driver.CapShell) {
		return readOutput{}, missing
	}
	res, err := c.Workspace.Run(ctx, driver.Command{Argv: []string{"pdftotext", "-q", "-layout", "./" + info.Path, "-"}, Timeout: pdfTimeout, MaxOutput: maxPDFText})
	switch {
	case fault.Of(err) == fault.NotFound || err == nil && res.ExitCode == 127:
		return readOutput{}, missing
	case err != nil:
		return readOutput{}, fmt.Errorf("read %s: pdftotext: %w", name, err)
	case res.ExitCode != 0:
		return readOutput{}, Errorf(fault.InvalidArgument, "read: %s: pdftotext: exit status %d: %s", name, res.ExitCode, strings.TrimSpace(driver.OutputText(res.Stderr, res.StderrDropped, "")))
	}
	return c.showText(info, plaintext.Clean(driver.OutputText(res.Stdout, res.StdoutDropped, "")), w)
}

// showText shows a window of the text of a file that is not the file's own.
func (c *Call) showText(info driver.Info, text string, w window) (readOutput, error) {
	w = window{first: w.first, count: w.count, numbered: w.numbered, bytes: w.bytes}
	if _, err := w.scan(strings.NewReader(text), int64(len(text))); err != nil {
		return readOutput{}, fmt.Errorf("read: %w", err)
	}
	return w.output(info, "")
}

// A notebook is a Jupyter notebook of version 4.
type notebook struct {
	Cells []struct {
		Type    string        `json:"cell_type"`
		Source  notebookText  `json:"source"`
		Count   *int          `json:"execution_count"`
		Outputs []notebookOut `json:"outputs"`
	} `json:"cells"`
}

type notebookOut struct {
	Text      notebookText            `json:"text"`
	Data      map[string]notebookText `json:"data"`
	Name      string                  `json:"ename"`
	Value     string                  `json:"evalue"`
	Traceback []string                `json:"traceback"`
}

// notebookText is a text, or its lines. Other values are kept as JSON.
type notebookText string

func (t *notebookText) UnmarshalJSON(data []byte) error {
	var lines []string
	var text string
	switch {
	case json.Unmarshal(data, &lines) == nil:
		text = strings.Join(lines, "")
	case json.Unmarshal(data, &text) != nil:
		text = string(data)
	}
	*t = notebookText(text)
	return nil
}

// readNotebook shows the cells of a notebook with their outputs; false if the file is none.
func (c *Call) readNotebook(ctx context.Context, name string, w window) (readOutput, bool, error) {
	data, err := c.Workspace.ReadFileMax(ctx, name, maxNotebook)
	if err != nil {
		return readOutput{}, false, nil // as text, with its error
	}
	var n notebook
	if json.Unmarshal(data, &n) != nil || n.Cells == nil {
		return readOutput{}, false, nil
	}
	info, err := c.Workspace.Stat(ctx, name, nil)
	if err != nil {
		return readOutput{}, true, c.fileError(ctx, "read", name, err)
	}
	out, err := c.showText(info, n.text(), w)
	out.Digest = driver.DigestBytes(data)
	return out, true, err
}

func (n notebook) text() string {
	var b strings.Builder
	for i, cell := range n.Cells {
		fmt.Fprintf(&b, "# cell %d (%s)\n%s\n", i+1, cell.Type, strings.TrimSuffix(string(cell.Source), "\n"))
		for _, out := range cell.Outputs {
			b.WriteString("# output\n" + strings.TrimSuffix(out.String(), "\n") + "\n")
		}
		b.WriteByte('\n')
	}
	b.WriteString("# to edit the notebook, Read it with raw=true: Edit changes its JSON\n")
	return b.String()
}

// String returns an output as text, shortened. Images and other data are only named.
func (o notebookOut) String() string {
	text := string(o.Text) + string(o.Data["text/plain"])
	if o.Name != "" {
		text += o.Name + ": " + o.Value
	}
	text = HeadTail(plaintext.Clean(text), maxCellOutput, "raw=true shows them")
	for _, kind := range slices.Sorted(maps.Keys(o.Data)) {
		if kind != "text/plain" {
			text = strings.TrimSuffix(text, "\n") + fmt.Sprintf("\n(%s, %d bytes)", kind, len(o.Data[kind]))
		}
	}
	return text
}

// isNotebook reports whether a file is shown as the cells of a notebook.
func isNotebook(name string) bool { return path.Ext(name) == notebookSuffix }
