package client

import "slices"

// headTail keeps the beginning and the end of a stream, for the result of a command
// whose connection broke.
type headTail struct {
	head, tail []byte
	half       int
	total      int64
}

// wrapCallback returns a callback that records the data and calls call. It returns nil if
// call is nil.
func (h *headTail) wrapCallback(call func([]byte) error, maxOutput int64) func([]byte) error {
	const defaultMax = 1 << 20 // of driver.Command.MaxOutput
	if call == nil {
		return nil
	}
	if maxOutput <= 0 {
		maxOutput = defaultMax
	}
	h.half = int(min(maxOutput, 64*defaultMax) / 2)
	return func(data []byte) error {
		h.add(data)
		return call(data)
	}
}

func (h *headTail) add(data []byte) {
	h.total += int64(len(data))
	n := min(h.half-len(h.head), len(data))
	h.head = append(h.head, data[:n]...)
	h.tail = append(h.tail, data[n:]...)
	if extra := len(h.tail) - h.half; extra > h.half { // trimmed only at twice its size, so that each byte is moved once
		h.tail = slices.Delete(h.tail, 0, extra)
	}
}

// result returns the head and the tail, and the number of bytes that were dropped
// between them. It is called after the last call of add.
func (h *headTail) result() ([]byte, int64) {
	tail := h.tail[max(0, len(h.tail)-h.half):]
	out := slices.Concat(h.head, tail)
	return out, h.total - int64(len(out))
}
