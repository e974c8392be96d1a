package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/host/guestbin"
	croft "github.com/croft-run/croft/internal/version"
)

// versionLine is what --version prints.
func versionLine() string {
	return fmt.Sprintf("croft %s %s %s/%s", console.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
		RunE: console.RunE(func(context.Context, []string) error {
			v := versionAnswer{Info: croft.Get(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			if guest, err := guestbin.Find(""); err != nil {
				v.Guest.Error = err.Error()
			} else {
				v.Guest = guestVersion{Version: guest.Version, From: guest.From}
			}
			return a.PrintAnswer(v, func(w io.Writer) error {
				guest := v.Guest.Version + " (" + v.Guest.From + ")"
				if v.Guest.Error != "" {
					guest = "missing: " + v.Guest.Error
				}
				fmt.Fprintln(w, versionLine())
				return console.WriteTable(w, [][]string{{"commit", console.OrDash(v.Commit)}, {"date", console.OrDash(v.Date)},
					{"guest", console.OneLine(guest)}})
			})
		}),
	}
}
