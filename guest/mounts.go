package guest

import (
	"encoding/base64"
	"encoding/binary"
)

// Mounts are what a file system is made of. There are many, and a guest reads them
// each time that one starts: so they are one text in its Config, of a form that
// takes no time to read.
type Mounts []Mount

// Bits of what a Mount may be.
const (
	mountReadOnly = 1 << iota
	mountNoExec
	mountDev
	mountOptional
)

// MarshalText writes the mounts.
func (ms Mounts) MarshalText() ([]byte, error) {
	buf := binary.AppendUvarint(nil, uint64(len(ms)))
	for _, m := range ms {
		for _, text := range []string{string(m.Kind), m.Target, m.Source, m.Upper, m.Work, m.Data} {
			buf = putText(buf, text)
		}
		buf = binary.AppendUvarint(buf, uint64(len(m.Lower)))
		for _, dir := range m.Lower {
			buf = putText(buf, dir)
		}
		bits := int64(0)
		for bit, set := range map[int64]bool{mountReadOnly: m.ReadOnly, mountNoExec: m.NoExec, mountDev: m.Dev, mountOptional: m.Optional} {
			if set {
				bits |= bit
			}
		}
		buf = binary.AppendVarint(binary.AppendVarint(buf, bits), int64(m.Mode))
	}
	return base64.StdEncoding.AppendEncode(nil, buf), nil
}

// UnmarshalText reads what MarshalText wrote.
func (ms *Mounts) UnmarshalText(text []byte) error {
	data, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return err
	}
	r := &reader{data: data}
	list := make(Mounts, 0, r.count())
	for range cap(list) {
		m := Mount{Kind: MountKind(r.text()), Target: r.text(), Source: r.text(), Upper: r.text(), Work: r.text(), Data: r.text()}
		for range r.count() {
			m.Lower = append(m.Lower, r.text())
		}
		bits := r.number()
		m.ReadOnly, m.NoExec, m.Dev, m.Optional = bits&mountReadOnly != 0, bits&mountNoExec != 0, bits&mountDev != 0, bits&mountOptional != 0
		m.Mode = uint32(r.number())
		list = append(list, m)
	}
	*ms = list
	return r.end()
}
