package tail

import "slices"

// A HeadTail keeps the beginning and the end of a stream, each half of Most bytes.
type HeadTail struct {
	Most int

	head, tail []byte
	total      int64
}

// Add appends to the stream.
func (h *HeadTail) Add(data []byte) {
	h.total += int64(len(data))
	half := h.Most / 2
	n := min(half-len(h.head), len(data))
	h.head = append(h.head, data[:n]...)
	h.tail = append(h.tail, data[n:]...)
	if extra := len(h.tail) - half; extra > half { // trimmed only at twice its size, so that each byte is moved once
		h.tail = slices.Delete(h.tail, 0, extra)
	}
}

// Kept returns the head and the tail, and the number of bytes that were dropped between them. They are
// valid until the next Add.
func (h *HeadTail) Kept() (head, tail []byte, dropped int64) {
	tail = h.tail[max(0, len(h.tail)-h.Most/2):]
	return h.head, tail, h.total - int64(len(h.head)+len(tail))
}

// Bytes returns the head and the tail, and the number of bytes that were dropped between them.
func (h *HeadTail) Bytes() ([]byte, int64) {
	head, tail, dropped := h.Kept()
	return slices.Concat(head, tail), dropped
}
