package snapshot

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/workspace/driver"
)

// cachedFile is the stored result for a file whose stat data is stat.
type cachedFile struct {
	name    string
	stat    stat
	content ID
	list    ID
	xattrs  []Xattr
}

// A statCache maps each directory of a tree to its files, in the encoding of
// appendCached. An entry is decoded by the goroutine that archives the directory.
type statCache map[string][]byte

const cacheHead = "croft-stat-cache 3\n"

// clockStep is the granularity of file system timestamps: two changes within it may
// have the same ctime.
const clockStep = 50 * time.Millisecond

// changeTime is the newest of mtime and ctime.
func (s *stat) changeTime() time.Time { return time.Unix(0, max(s.ctime, s.mtime)) }

// isCacheable reports whether a file's stat data may be cached. A file that changed
// within clockStep may change again with the same timestamps.
func (a *archiver) isCacheable(n *Node) bool {
	return n.stat != nil && a.opts.Cache != "" && a.w.s.cache != "" && a.started.Sub(n.stat.changeTime()) >= clockStep
}

// rememberFiles adds the files of a directory to the fresh stat cache.
func (a *archiver) rememberFiles(at string, nodes []Node) {
	if a.opts.Cache == "" || a.w.s.cache == "" {
		return
	}
	var buf []byte
	for i := range nodes {
		if n := &nodes[i]; n.Type == driver.TypeFile && a.isCacheable(n) && n.Size == n.stat.size {
			const usual = 128
			if buf == nil {
				buf = make([]byte, 0, (len(nodes)-i)*usual)
			}
			buf = appendCached(buf, &cachedFile{n.Name, *n.stat, n.Content, n.List, n.Xattrs})
		}
	}
	if len(buf) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fresh == nil {
		a.fresh = statCache{}
	}
	a.fresh[at] = buf
}

func (s *Store) cachePath(key string) string {
	return filepath.Join(s.cache, driver.DigestBytes([]byte(key))[len(driver.DigestPrefix):][:32])
}

// saveCache writes the stat cache of a tree. The cache is an optimisation: on
// failure the next Take reads all files.
func (s *Store) saveCache(key string, a *archiver) {
	if key == "" || s.cache == "" {
		return
	}
	buf := []byte(cacheHead)
	size := len(cacheHead) + len(ID{})
	for at, files := range a.fresh {
		size += len(at) + len(files) + 2*binary.MaxVarintLen64
	}
	buf = slices.Grow(buf, size)
	for at, files := range a.fresh {
		buf = append(appendString(buf, at), binary.AppendUvarint(nil, uint64(len(files)))...)
		buf = append(buf, files...)
	}
	digest := sum(buf)
	buf = append(buf, digest[:]...)
	if err := os.MkdirAll(s.cache, 0o700); err != nil {
		s.log.Warn("snapshot: write the stat cache", "error", err)
		return
	}
	if err := atomicfile.Write(s.cachePath(key), buf, atomicfile.Options{}); err != nil {
		s.log.Warn("snapshot: write the stat cache", "error", err)
	}
}

func appendCached(buf []byte, c *cachedFile) []byte {
	buf = appendString(buf, c.name)
	for _, v := range []uint64{c.stat.dev, c.stat.ino, uint64(c.stat.size), uint64(c.stat.mtime), uint64(c.stat.ctime)} {
		buf = binary.LittleEndian.AppendUint64(buf, v)
	}
	buf = append(buf, c.content[:]...)
	if c.stat.size > ChunkSize {
		buf = append(buf, c.list[:]...)
	}
	buf = binary.AppendUvarint(buf, uint64(len(c.xattrs)))
	for _, x := range c.xattrs {
		buf = appendString(appendString(buf, x.Name), string(x.Value))
	}
	return buf
}

// loadCache reads the stat cache of a tree; nil if it is missing or damaged.
func (s *Store) loadCache(key string) statCache {
	if key == "" || s.cache == "" {
		return nil
	}
	data, err := os.ReadFile(s.cachePath(key))
	if err != nil || len(data) < len(cacheHead)+len(ID{}) || !bytes.HasPrefix(data, []byte(cacheHead)) {
		return nil
	}
	body := data[:len(data)-len(ID{})]
	if digest := sum(body); !bytes.Equal(digest[:], data[len(body):]) {
		return nil
	}
	d := decoder{data: body[len(cacheHead):]}
	all := statCache{}
	for len(d.data) > 0 && d.err == nil {
		at := d.readString()
		all[at] = d.readBytes(d.readUvarint())
	}
	if d.err != nil {
		return nil
	}
	return all
}

// filesIn returns the cached files of a directory, sorted by name.
func (c statCache) filesIn(at string) []cachedFile {
	d := decoder{data: c[at]}
	var all []cachedFile
	for len(d.data) > 0 && d.err == nil {
		f := cachedFile{name: d.readString()}
		f.stat.dev, f.stat.ino = d.readUint64(), d.readUint64()
		f.stat.size, f.stat.mtime, f.stat.ctime = int64(d.readUint64()), int64(d.readUint64()), int64(d.readUint64())
		f.content = d.readID()
		if f.stat.size > ChunkSize {
			f.list = d.readID()
		}
		var n Node
		d.readXattrs(&n)
		f.xattrs = n.Xattrs
		all = append(all, f)
	}
	if d.err != nil {
		return nil
	}
	return all
}

func (d *decoder) readUint64() uint64 {
	if b := d.readBytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
