package stage

import (
	"net/http"
	"path"
	"strings"
)

// SniffLen is how many bytes MIMEType reads of the content.
const SniffLen = 512

// types are common types by file extension, independent of the tables of the host.
var types = map[string]string{
	".json": "application/json", ".jsonl": "application/jsonl", ".ndjson": "application/x-ndjson", ".ipynb": "application/x-ipynb+json",
	".csv": "text/csv; charset=utf-8", ".tsv": "text/tab-separated-values; charset=utf-8",
	".md": "text/markdown; charset=utf-8", ".txt": "text/plain; charset=utf-8", ".log": "text/plain; charset=utf-8",
	".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".ts": "text/x-typescript; charset=utf-8",
	".py": "text/x-python; charset=utf-8", ".go": "text/x-go; charset=utf-8", ".sh": "text/x-shellscript; charset=utf-8",
	".xml": "application/xml", ".svg": "image/svg+xml", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml",
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".tar": "application/x-tar", ".wasm": "application/wasm",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".ico": "image/x-icon",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".mp4": "video/mp4", ".webm": "video/webm",
	".parquet": "application/vnd.apache.parquet", ".sqlite": "application/vnd.sqlite3",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

// MIMEType returns the type of a file by its extension or, if that is unknown, by the
// start of its content.
func MIMEType(name string, head []byte) string {
	if t, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return http.DetectContentType(head)
}

// known reports whether the name alone gives the type.
func knownType(name string) bool {
	_, ok := types[strings.ToLower(path.Ext(name))]
	return ok
}

// IsText reports whether content of the type can be shown as text.
func IsText(mime string) bool {
	base, _, _ := strings.Cut(strings.ToLower(mime), ";")
	base = strings.TrimSpace(base)
	switch base {
	case "application/json", "application/jsonl", "application/x-ndjson", "application/xml", "application/yaml", "application/toml":
		return true
	}
	return strings.HasPrefix(base, "text/") || strings.HasSuffix(base, "+json") || strings.HasSuffix(base, "+xml")
}
