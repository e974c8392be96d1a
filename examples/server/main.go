// Command server runs a program in a workspace of croft up with the Go client.
//
//	export CROFT_SERVER=http://127.0.0.1:7070 CROFT_TOKEN=KEY
//	go run .
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	server, err := client.New(client.Config{URL: os.Getenv("CROFT_SERVER"), Token: os.Getenv("CROFT_TOKEN")})
	if err != nil {
		return err
	}
	defer server.Close()
	ws, err := workspace.NewMux(server).Open(ctx, workspace.Spec{Kind: "remote", ID: workspace.NewID()}, nil)
	if err != nil {
		return err
	}
	defer ws.Destroy(ctx)

	if _, err := ws.WriteFile(ctx, "greet.py", []byte("import sys\nprint('hello', sys.argv[1])\n"), nil); err != nil {
		return err
	}
	out, err := ws.Command(ctx, "python3", "greet.py", "world").Output()
	if err != nil {
		return err
	}
	fmt.Print(string(out))

	var exit *workspace.ExitError
	if err := ws.Command(ctx, "sh", "-c", "exit 3").Run(); !errors.As(err, &exit) {
		return fmt.Errorf("the command ended with %w, want an exit status", err)
	}
	fmt.Println("exit status", exit.ExitCode)

	entries, err := ws.ReadDir(ctx, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fmt.Println("files:", e.Name())
	}
	return nil
}
