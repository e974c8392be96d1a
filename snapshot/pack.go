package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// A pack is a magic word, blocks, a footer and a trailer. A block is a zstd frame
// of concatenated objects. The footer lists the blocks and the position of each
// object; the trailer has the length and the digest of the footer.
const (
	packMagic   = "croftpk1"
	trailerSize = 4 + 32 + len(packMagic)

	blockSize = 512 << 10 // a block is closed at this size
	packSize  = 32 << 20  // and a pack

	// No block is larger: a full one, and one object more.
	maxBlock  = blockSize + maxObject
	maxObject = 64 << 20
)

// packBlock is the position of a block in its pack.
type packBlock struct {
	off  int64
	size int64
	raw  int64
	sum  [8]byte // prefix of the digest
}

func blockSum(data []byte) [8]byte {
	digest := sum(data)
	return [8]byte(digest[:8])
}

// entry is the position of an object in a pack.
type entry struct {
	id    ID
	block int
	off   int64 // in the decompressed block
	size  int64
}

// footer is the index of a pack.
type footer struct {
	blocks  []packBlock
	entries []entry
}

func (f *footer) encode() []byte {
	buf := binary.AppendUvarint(nil, uint64(len(f.blocks)))
	for _, b := range f.blocks {
		buf = binary.AppendUvarint(buf, uint64(b.size))
		buf = binary.AppendUvarint(buf, uint64(b.raw))
		buf = append(buf, b.sum[:]...)
	}
	buf = binary.AppendUvarint(buf, uint64(len(f.entries)))
	for _, e := range f.entries {
		buf = append(buf, e.id[:]...)
		buf = binary.AppendUvarint(buf, uint64(e.block))
		buf = binary.AppendUvarint(buf, uint64(e.off))
		buf = binary.AppendUvarint(buf, uint64(e.size))
	}
	return buf
}

// encodeTrailer returns the trailer of an encoded footer.
func encodeTrailer(foot []byte) []byte {
	digest := sum(foot)
	buf := binary.BigEndian.AppendUint32(nil, uint32(len(foot)))
	return append(append(buf, digest[:]...), packMagic...)
}

// decodeFooter decodes a footer that begins at end in its pack, and checks that all
// positions are within the pack.
func decodeFooter(data []byte, end int64) (*footer, error) {
	d := decoder{data: data}
	f := &footer{}
	off := int64(len(packMagic))
	for range d.readCount() {
		b := packBlock{off: off, size: int64(d.readUvarint()), raw: int64(d.readUvarint())}
		copy(b.sum[:], d.readBytes(uint64(len(b.sum))))
		if d.err != nil || b.size <= 0 || b.size > end-off || b.raw < 0 || b.raw > maxBlock {
			return nil, fmt.Errorf("a block is out of bounds")
		}
		off += b.size
		f.blocks = append(f.blocks, b)
	}
	for range d.readCount() {
		e := entry{id: d.readID(), block: int(d.readUvarint()), off: int64(d.readUvarint()), size: int64(d.readUvarint())}
		if d.err != nil || e.block < 0 || e.block >= len(f.blocks) || e.off < 0 || e.size < 0 ||
			len(f.entries) > 0 && f.entries[len(f.entries)-1].block > e.block ||
			e.off > f.blocks[e.block].raw || e.size > f.blocks[e.block].raw-e.off {
			return nil, fmt.Errorf("an object is out of bounds")
		}
		f.entries = append(f.entries, e)
	}
	if d.err == nil && (len(d.data) > 0 || off != end) {
		d.err = fmt.Errorf("its blocks do not add up to its size")
	}
	return f, d.err
}

// readCount reads the number of elements that follow; each takes at least one byte.
func (d *decoder) readCount() uint64 {
	n := d.readUvarint()
	if n > uint64(len(d.data)) {
		d.fail("it ends early")
		return 0
	}
	return n
}

// readFooter reads the footer of a pack of the given size.
func readFooter(ctx context.Context, b Backend, id string, size int64) (*footer, error) {
	name := kindPacks + "/" + id
	if size < int64(len(packMagic)+trailerSize) {
		return nil, corruptError("pack %s: it has %d bytes, which is too short", id, size)
	}
	guess := min(size, 64<<10)
	tail, err := b.ReadRange(ctx, name, size-guess, guess)
	if err != nil {
		return nil, err
	}
	end := tail[len(tail)-trailerSize:]
	if string(end[4+32:]) != packMagic {
		return nil, corruptError("pack %s: it does not end with the pack magic", id)
	}
	n := int64(binary.BigEndian.Uint32(end))
	if n > size-int64(trailerSize+len(packMagic)) {
		return nil, corruptError("pack %s: its footer is out of bounds", id)
	}
	at := size - int64(trailerSize) - n
	foot := tail[:len(tail)-trailerSize]
	if int64(len(foot)) >= n {
		foot = foot[int64(len(foot))-n:]
	} else if foot, err = b.ReadRange(ctx, name, at, n); err != nil {
		return nil, err
	}
	if digest := sum(foot); !bytes.Equal(digest[:], end[4:4+32]) {
		return nil, corruptError("pack %s: the digest of its footer does not match", id)
	}
	f, err := decodeFooter(foot, at)
	if err != nil {
		return nil, corruptError("pack %s: %v", id, err)
	}
	return f, nil
}

// compressor and decompressor are safe for concurrent use by EncodeAll and
// DecodeAll.
var (
	compressor   = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(16), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20)))
	decompressor = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(16), zstd.WithDecoderMaxMemory(maxBlock+1<<20), zstd.WithDecoderMaxWindow(8<<20)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return v
}

// readBlock reads a block and decompresses it.
func readBlock(ctx context.Context, be Backend, pack string, b packBlock) ([]byte, error) {
	data, err := be.ReadRange(ctx, kindPacks+"/"+pack, b.off, b.size)
	if err != nil {
		return nil, err
	}
	if blockSum(data) != b.sum {
		return nil, corruptError("pack %s: the digest of the block at %d does not match", pack, b.off)
	}
	plain, err := decompressor.DecodeAll(data, make([]byte, 0, b.raw))
	if err != nil {
		return nil, corruptError("pack %s: the block at %d: %v", pack, b.off, err)
	}
	if int64(len(plain)) != b.raw {
		return nil, corruptError("pack %s: the block at %d has %d bytes, not %d", pack, b.off, len(plain), b.raw)
	}
	return plain, nil
}
