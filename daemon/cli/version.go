package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version returns the version that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// versionLine is what --version prints.
func versionLine() string {
	return fmt.Sprintf("croft %s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *command) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: run(func(context.Context, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{version(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return a.printAnswer(v, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, versionLine())
				return err
			})
		}),
	}
}
