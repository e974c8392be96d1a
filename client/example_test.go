package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/server/httpguard"
	"github.com/croft-run/croft/internal/server/rest"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
)

// Use a workspace of a server as one of this process.
func Example() {
	ctx := context.Background()
	url, stop := serve(ctx, "token")
	defer stop()

	server, err := client.New(client.Config{URL: url, Token: "token", Kind: "memory"}) // of croft up: http://127.0.0.1:7070
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ws, err := workspace.NewMux(server).Open(ctx, workspace.Spec{Kind: "remote", ID: workspace.NewID()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Destroy(ctx)
	if _, err := ws.WriteFile(ctx, "hello.txt", []byte("hello\n"), nil); err != nil {
		log.Fatal(err)
	}
	text, err := ws.ReadFile(ctx, "hello.txt")
	fmt.Printf("%s%v\n", text, err)
	// Output:
	// hello
	// <nil>
}

// serve is a small server of this process, in the place of croft up.
func serve(ctx context.Context, token string) (url string, stop func()) {
	data, err := os.MkdirTemp("", "client")
	if err != nil {
		log.Fatal(err)
	}
	store, err := registry.OpenStore(ctx, "sqlite:"+filepath.Join(data, "croft.db"))
	if err != nil {
		log.Fatal(err)
	}
	mux := workspace.NewMux(new(memory.Provider))
	reg, err := registry.New(ctx, store, mux, nil)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := rest.New(rest.Config{Registry: reg, Mux: mux, Guard: httpguard.Guard{Token: token}})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(handler)
	return server.URL, func() {
		server.Close()
		reg.Shutdown(ctx)
		store.Close()
		os.RemoveAll(data)
	}
}
