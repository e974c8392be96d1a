//go:build !linux

package snapshot

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
)

func setTimeFD(fd int, n *Node) error {
	t := unix.NsecToTimeval(n.ModTime.UnixNano())
	return unix.Futimes(fd, []unix.Timeval{t, t})
}

func makeWhiteout(int, string) error { return fmt.Errorf("overlayfs layers: %w", fault.Unsupported) }

func setOpaque(int) error { return fmt.Errorf("overlayfs layers: %w", fault.Unsupported) }

func exchangeNames(int, string, int, string) error { return unix.ENOSYS }
