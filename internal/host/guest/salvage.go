package guest

import (
	"io"
	"os"
	"syscall"

	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/process"
	"github.com/croft-run/croft/workspace/driver"
)

// OutputFromLogs returns a Client.Salvage that reads the logs of sessions in dir. The
// content is untrusted: only regular files below dir are read, through os.Root, never a
// FIFO or a device, and no symlink leads outside.
func OutputFromLogs(dir string) func(id string, most int64) driver.Result {
	return func(id string, most int64) driver.Result {
		var res driver.Result
		root, err := os.OpenRoot(dir)
		if err != nil || !driver.ValidID(id) {
			return res
		}
		defer root.Close() //nolint:errcheck // closing a directory can lose nothing
		if most <= 0 {
			most = process.DefaultMaxOutput
		}
		most = min(most, guestproto.MaxStream)
		res.Stdout, res.StdoutDropped = headAndTail(root, id+".stdout", most)
		res.Stderr, res.StderrDropped = headAndTail(root, id+".stderr", most)
		return res
	}
}

// headAndTail reads the beginning and the end of a log, and returns how many bytes are between.
func headAndTail(root *os.Root, name string, most int64) (data []byte, dropped int64) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0
	}
	size := info.Size()
	head := min(size, most/2)
	if size <= most {
		head = size
	}
	tail := min(size-head, most-head)
	data = make([]byte, head+tail)
	n, err := io.ReadFull(io.MultiReader(io.NewSectionReader(f, 0, head), io.NewSectionReader(f, size-tail, tail)), data)
	if err != nil {
		data = data[:n]
	}
	return data, size - int64(len(data))
}
