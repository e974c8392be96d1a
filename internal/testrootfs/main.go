// Command testrootfs writes the rootfs of the image that tests run workspaces in, as a tar
// to standard output:
//
//	testrootfs >layer.tar
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/croft-run/croft/internal/testenv"
)

func main() {
	if err := testenv.WriteRootfs(context.Background(), os.Stdout); err != nil { //nolint:forbidigo // the program has no caller
		fmt.Fprintln(os.Stderr, "testrootfs:", err)
		os.Exit(1)
	}
}
