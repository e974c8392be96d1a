package client

import "slices"

// headTail keeps the beginning and the end of a stream, for the result of a command
// whose connection broke.
type headTail struct {
	head, tail []byte
	half       int
	total      int64
}

// wrapCallback returns a callback that records the data and calls call; nil for nil.
func (h *headTail) wrapCallback(call func([]byte) error, most int64) func([]byte) error {
	const usual = 1 << 20 // as the contract has it
	if call == nil {
		return nil
	}
	if most <= 0 {
		most = usual
	}
	h.half = int(min(most, 64*usual) / 2)
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
	if extra := len(h.tail) - h.half; extra > h.half { // now and then, so that each byte moves once
		h.tail = slices.Delete(h.tail, 0, extra)
	}
}

// result is what was kept, and how many bytes lie between its halves. Nothing
// comes any more.
func (h *headTail) result() ([]byte, int64) {
	tail := h.tail[max(0, len(h.tail)-h.half):]
	out := slices.Concat(h.head, tail)
	return out, h.total - int64(len(out))
}
