package docker

import (
	"archive/tar"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
)

// A sourceFormat is the format of a file to import as an image, detected by its content.
type sourceFormat int

const (
	formatTar sourceFormat = iota // compressed or not
	formatDockerfile
)

// Magic numbers of compressed files.
var (
	gzipMagic        = []byte{0x1f, 0x8b}
	zstdMagic        = []byte{0x28, 0xb5, 0x2f, 0xfd}
	unsupportedMagic = map[string][]byte{"xz": {0xfd, '7', 'z', 'X', 'Z', 0}, "bzip2": []byte("BZh"), "zip": {'P', 'K', 3, 4}}
)

// maxDockerfile bounds how much of a file is read to detect its format.
const maxDockerfile = 1 << 20

// detectFormat detects the format of a file.
func detectFormat(path string) (sourceFormat, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	defer f.Close() // only read
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return 0, fmt.Errorf("%s: %w: it is a directory", path, fault.InvalidArgument)
	}
	head, err := io.ReadAll(io.LimitReader(f, maxDockerfile))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", fault.Of(err), err)
	}
	return detectFormatOf(head)
}

func detectFormatOf(head []byte) (sourceFormat, error) {
	if bytes.HasPrefix(head, gzipMagic) || bytes.HasPrefix(head, zstdMagic) {
		return formatTar, nil
	}
	if _, err := tar.NewReader(bytes.NewReader(head)).Next(); err == nil {
		return formatTar, nil
	}
	const neither = "it is neither a tarball (plain, gzip or zstd) nor a Dockerfile"
	for name, magic := range unsupportedMagic {
		if bytes.HasPrefix(head, magic) {
			return 0, fmt.Errorf("%w: %s: it has the format %s", fault.InvalidArgument, neither, name)
		}
	}
	word := firstInstruction(head)
	switch {
	case strings.EqualFold(word, "FROM"), strings.EqualFold(word, "ARG"):
		return formatDockerfile, nil
	case word == "":
		return 0, fmt.Errorf("%w: %s: it has no instruction", fault.InvalidArgument, neither)
	case !utf8.ValidString(word) || strings.ContainsFunc(word, func(r rune) bool { return r < ' ' }):
		return 0, fmt.Errorf("%w: %s: it is no text", fault.InvalidArgument, neither)
	}
	return 0, fmt.Errorf("%w: %s: it begins with %.40q, and a Dockerfile with FROM or ARG", fault.InvalidArgument, neither, word)
}

// firstInstruction returns the first word of a Dockerfile after its comments, "" if there
// is no instruction.
func firstInstruction(text []byte) string {
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	lines.Buffer(nil, maxDockerfile+1)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			return words[0]
		}
	}
	return ""
}
