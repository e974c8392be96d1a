package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/host/guestbin"
	croft "github.com/croft-run/croft/internal/version"
)

// version returns the version that the program was built from.
func version() string { return croft.Get().Version }

// versionLine is what --version prints.
func versionLine() string {
	return fmt.Sprintf("croft %s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionAnswer is the JSON of croft version.
type versionAnswer struct {
	croft.Info
	Go    string       `json:"go"`
	OS    string       `json:"os"`
	Arch  string       `json:"arch"`
	Guest guestVersion `json:"guest"`
}

// guestVersion describes the croft-guest that commands in workspaces are started by.
type guestVersion struct {
	Version string `json:"version,omitempty"` // digest of its content
	From    string `json:"from,omitempty"`
	Error   string `json:"error,omitempty"` // why the guest was not found
}

func (a *command) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and of its guest",
		Args:  cobra.NoArgs,
		RunE: run(func(context.Context, []string) error {
			v := versionAnswer{Info: croft.Get(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			if guest, err := guestbin.Find(""); err != nil {
				v.Guest.Error = err.Error()
			} else {
				v.Guest = guestVersion{Version: guest.Version, From: guest.From}
			}
			return a.printAnswer(v, func(w io.Writer) error {
				guest := v.Guest.Version + " (" + v.Guest.From + ")"
				if v.Guest.Error != "" {
					guest = "missing: " + v.Guest.Error
				}
				fmt.Fprintln(w, versionLine())
				return writeTable(w, [][]string{{"commit", orDash(v.Commit)}, {"date", orDash(v.Date)}, {"guest", oneLine(guest)}})
			})
		}),
	}
}
