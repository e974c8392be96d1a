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

// TypeWhiteout is the type of an entry of an upper layer that hides what the
// layers below have under the same name.
const TypeWhiteout driver.FileType = "whiteout"

// A Node is an entry of a directory in a tree.
type Node struct {
	Name    string
	Type    driver.FileType
	Mode    fs.FileMode // permission bits, 0o7777 at most; 0 for symlinks and whiteouts
	Size    int64       // of a file
	ModTime time.Time
	Target  string // of a symlink
	Opaque  bool   // of a directory of an upper layer: the layers below have no part in it
	Xattrs  []Xattr

	// Content is the digest of a file's content, or names the object of a
	// directory. Zero means that nobody has computed it.
	Content ID

	// List names the object that lists the chunks of a file that is larger than
	// one. Zero where the content is not in a store.
	List ID

	stat    *stat // of a file of this host: what it looked like
	missing bool  // it was listed, and could not be taken
}

// An Xattr is an extended attribute.
type Xattr struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Info describes the node, found at the given path.
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

// The form of a tree object: a version, the number of entries, and the entries
// in the order of their names. There is one form for each directory.
const treeVersion = 1

var typeCodes = []driver.FileType{driver.TypeFile, driver.TypeDir, driver.TypeSymlink, TypeWhiteout}

// encodeTree returns the object of a directory whose nodes are in order.
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

// decodeTree is the inverse of encodeTree. It takes that form alone.
func decodeTree(data []byte) ([]Node, error) {
	d := decoder{data: data}
	if v := d.byte(); d.err == nil && v != treeVersion {
		return nil, fmt.Errorf("a tree of version %d; %d is known", v, treeVersion)
	}
	count := d.uvarint()
	if count > uint64(len(data)) {
		return nil, fmt.Errorf("it ends early")
	}
	nodes := make([]Node, 0, count)
	for range count {
		n := d.node()
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

// validName reports whether name can be that of a directory entry.
func validName(name string) bool {
	return driver.ValidName(name) && name != "." && !strings.Contains(name, "/")
}

// A decoder reads what appendNode wrote. Its first error stays.
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

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.data)) {
		d.fail("it ends early")
		return nil
	}
	out := d.data[:n]
	d.data = d.data[n:]
	return out
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) id() (id ID) {
	copy(id[:], d.take(uint64(len(id))))
	return id
}

// uvarint takes the shortest form of a number alone.
func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 || n > 1 && d.data[n-1] == 0 {
		d.fail("a number is malformed")
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

func (d *decoder) string() string { return string(d.take(d.uvarint())) }

func (d *decoder) node() Node {
	n := Node{Name: d.string()}
	code := d.byte()
	n.Mode = fs.FileMode(d.uvarint())
	sec, nsec := d.varint(), d.uvarint()
	if d.err == nil && (!validName(n.Name) || int(code) >= len(typeCodes) || n.Mode > 0o7777 || nsec > 999_999_999) {
		d.fail("the entry %q is not valid", n.Name)
	}
	if d.err != nil {
		return n
	}
	n.Type = typeCodes[code]
	n.ModTime = time.Unix(sec, int64(nsec)).UTC()
	switch n.Type {
	case driver.TypeFile:
		n.Size = int64(d.uvarint())
		if n.Size < 0 {
			d.fail("the entry %q is not valid", n.Name)
		}
		n.Content = d.id()
		if n.Size > ChunkSize {
			n.List = d.id()
		}
	case driver.TypeDir:
		opaque := d.byte()
		if opaque > 1 {
			d.fail("the entry %q is not valid", n.Name)
		}
		n.Opaque = opaque == 1
		n.Content = d.id()
	case driver.TypeSymlink:
		n.Target = d.string()
	}
	d.xattrs(&n)
	return n
}

func (d *decoder) xattrs(n *Node) {
	count := d.uvarint()
	if count > uint64(len(d.data)) {
		d.fail("it ends early")
		return
	}
	for range count {
		x := Xattr{Name: d.string(), Value: []byte(d.string())}
		if !isUserXattr(x.Name) {
			d.fail("the attribute %q of %q is none of the user's", x.Name, n.Name)
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
