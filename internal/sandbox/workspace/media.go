package workspace

import (
	"net/http"
	"path"
	"strings"
)

const sniffBytes = 512 // that net/http looks at

// mediaTypes are those that a run is likely to leave; the machine's own table is not asked, so that every machine gives
// the same answer.
var mediaTypes = map[string]string{
	".txt": "text/plain", ".log": "text/plain", ".md": "text/markdown", ".csv": "text/csv", ".tsv": "text/tab-separated-values",
	".html": "text/html", ".htm": "text/html", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
	".json": "application/json", ".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson", ".ipynb": "application/x-ipynb+json",
	".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml", ".xml": "application/xml", ".sql": "application/sql",
	".py": "text/x-python", ".go": "text/x-go", ".sh": "application/x-sh", ".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg",
	".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip",
	".tar": "application/x-tar", ".parquet": "application/vnd.apache.parquet", ".arrow": "application/vnd.apache.arrow.file", ".sqlite": "application/vnd.sqlite3",
	".db": "application/vnd.sqlite3", ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

// mediaType says what a file is: by its name, else by how it begins.
func mediaType(name string, head func() []byte) string {
	if t, ok := mediaTypes[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	t, _, _ := strings.Cut(http.DetectContentType(head()), ";")
	return t
}
