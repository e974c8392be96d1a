package snapshot

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// TypeWhiteout is the type of an overlayfs whiteout: an entry of an upper layer
// that hides the same name in the lower layers.
const TypeWhiteout driver.FileType = "whiteout"

// A Node is an entry of a directory in a tree.
type Node struct {
	Name    string
	Type    driver.FileType
	Mode    fs.FileMode // permission bits, 0o7777 at most; 0 for symlinks and whiteouts
	Size    int64       // of a file
	ModTime time.Time
	Target  string // of a symlink
	Opaque  bool   // of a directory of an upper layer: it hides the lower layers' entries
	Xattrs  []Xattr

	// Content is the digest of a file's content, or the tree object of a directory.
	// Zero means not computed.
	Content ID

	// List is the object that lists the chunks of a file larger than ChunkSize.
	// Zero if the content is not in a store.
	List ID

	stat    *stat // of a file of this host
	missing bool  // listed, but not readable
}

// An Xattr is an extended attribute.
type Xattr struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Info returns the node's driver.Info for a path.
func (n *Node) Info(path string) driver.Info {
	info := driver.Info{Path: path, Type: n.Type, Size: n.Size, Mode: n.Mode, ModTime: n.ModTime, Target: n.Target}
	if n.Type == driver.TypeFile && !n.Content.IsZero() {
		info.Digest = n.Content.String()
	}
	if n.Type == driver.TypeSymlink {
		info.Size = int64(len(n.Target))
		info.Mode = 0o777
	}
	return info
}

// The encoding of a tree object: version, number of entries, and the entries sorted
// by name. The encoding is canonical.
const treeVersion = 1

var typeCodes = []driver.FileType{driver.TypeFile, driver.TypeDir, driver.TypeSymlink, TypeWhiteout}

// encodeTree encodes sorted nodes as a tree object.
func encodeTree(nodes []Node) []byte {
	buf := make([]byte, 0, 16+len(nodes)*96)
	buf = append(buf, treeVersion)
	buf = binary.AppendUvarint(buf, uint64(len(nodes)))
	for i := range nodes {
		buf = appendNode(buf, &nodes[i])
	}
	return buf
}

func appendNode(buf []byte, n *Node) []byte {
	buf = appendString(buf, n.Name)
	buf = append(buf, byte(slices.Index(typeCodes, n.Type)))
	buf = binary.AppendUvarint(buf, uint64(n.Mode))
	buf = binary.AppendVarint(buf, n.ModTime.Unix())
	buf = binary.AppendUvarint(buf, uint64(n.ModTime.Nanosecond()))
	switch n.Type {
	case driver.TypeFile:
		buf = binary.AppendUvarint(buf, uint64(n.Size))
		buf = append(buf, n.Content[:]...)
		if n.Size > ChunkSize {
			buf = append(buf, n.List[:]...)
		}
	case driver.TypeDir:
		opaque := byte(0)
		if n.Opaque {
			opaque = 1
		}
		buf = append(append(buf, opaque), n.Content[:]...)
	case driver.TypeSymlink:
		buf = appendString(buf, n.Target)
	}
	buf = binary.AppendUvarint(buf, uint64(len(n.Xattrs)))
	for _, x := range n.Xattrs {
		buf = appendString(appendString(buf, x.Name), string(x.Value))
	}
	return buf
}

func appendString(buf []byte, s string) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(s))), s...)
}

// decodeTree is the inverse of encodeTree. It rejects non-canonical input.
func decodeTree(data []byte) ([]Node, error) {
	d := decoder{data: data}
	if v := d.readByte(); d.err == nil && v != treeVersion {
		return nil, fmt.Errorf("tree version %d is not supported; this program reads version %d", v, treeVersion)
	}
	count := d.readUvarint()
	if count > uint64(len(data)) {
		return nil, fmt.Errorf("unexpected end of data")
	}
	nodes := make([]Node, 0, count)
	for range count {
		n := d.readNode()
		if d.err != nil {
			return nil, d.err
		}
		if len(nodes) > 0 && nodes[len(nodes)-1].Name >= n.Name {
			return nil, fmt.Errorf("its entries are not in order")
		}
		nodes = append(nodes, n)
	}
	if d.err == nil && len(d.data) > 0 {
		d.err = fmt.Errorf("%d bytes follow its end", len(d.data))
	}
	return nodes, d.err
}

// A decoder reads the encoding of appendNode. The first error is kept.
type decoder struct {
	data []byte
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.data = nil
}

func (d *decoder) readBytes(n uint64) []byte {
	if n > uint64(len(d.data)) {
		d.fail("unexpected end of data")
		return nil
	}
	out := d.data[:n]
	d.data = d.data[n:]
	return out
}

func (d *decoder) readByte() byte {
	if b := d.readBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) readID() (id ID) {
	copy(id[:], d.readBytes(uint64(len(id))))
	return id
}

// readUvarint accepts only the shortest encoding of a number.
func (d *decoder) readUvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 || n > 1 && d.data[n-1] == 0 {
		d.fail("a number is malformed")
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) readVarint() int64 {
	u := d.readUvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

func (d *decoder) readString() string { return string(d.readBytes(d.readUvarint())) }

func (d *decoder) readNode() Node {
	n := Node{Name: d.readString()}
	code := d.readByte()
	n.Mode = fs.FileMode(d.readUvarint())
	sec, nsec := d.readVarint(), d.readUvarint()
	isName := driver.ValidName(n.Name) && n.Name != "." && !strings.Contains(n.Name, "/")
	if d.err == nil && (!isName || int(code) >= len(typeCodes) || n.Mode > 0o7777 || nsec > 999_999_999) {
		d.fail("the entry %q is not valid", n.Name)
	}
	if d.err != nil {
		return n
	}
	n.Type = typeCodes[code]
	n.ModTime = time.Unix(sec, int64(nsec)).UTC()
	switch n.Type {
	case driver.TypeFile:
		n.Size = int64(d.readUvarint())
		if n.Size < 0 {
			d.fail("the entry %q is not valid", n.Name)
		}
		n.Content = d.readID()
		if n.Size > ChunkSize {
			n.List = d.readID()
		}
	case driver.TypeDir:
		opaque := d.readByte()
		if opaque > 1 {
			d.fail("the entry %q is not valid", n.Name)
		}
		n.Opaque = opaque == 1
		n.Content = d.readID()
	case driver.TypeSymlink:
		n.Target = d.readString()
	}
	d.readXattrs(&n)
	return n
}

func (d *decoder) readXattrs(n *Node) {
	count := d.readUvarint()
	if count > uint64(len(d.data)) {
		d.fail("unexpected end of data")
		return
	}
	for range count {
		x := Xattr{Name: d.readString(), Value: []byte(d.readString())}
		if !isUserXattr(x.Name) {
			d.fail("the attribute %q of %q is not a user attribute", x.Name, n.Name)
		}
		if len(n.Xattrs) > 0 && n.Xattrs[len(n.Xattrs)-1].Name >= x.Name {
			d.fail("the attributes of %q are not in order", n.Name)
		}
		if d.err != nil {
			return
		}
		n.Xattrs = append(n.Xattrs, x)
	}
}
