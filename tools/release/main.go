// Command release makes the tag of a release, and what a release publishes:
//
//	release tag VERSION          a commit of HEAD with the guests inside, and its tag
//	release build VERSION        archives, packages, image, SBOMs and SHA256SUMS in dist
//	release image -rootfs FILE   a container image from a tar archive of a file system
//
// A release is a commit beside the main branch: HEAD, the compressed guests and the file
// internal/version/release.txt. "go install" and "go get" of its tag then need no further
// step. build makes the same commit, without a tag, if VERSION has no tag yet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // this is main
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		if !errors.Is(err, flag.ErrHelp) { // package flag has printed it
			fmt.Fprintln(os.Stderr, "release:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	const usage = "usage: release tag VERSION | build [flags] VERSION | image [flags]"
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "tag":
		repo := flags.String("repo", ".", "the repository")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		version, err := versionArgument(flags)
		if err != nil {
			return err
		}
		return tag(ctx, *repo, version)
	case "build":
		var b build
		flags.StringVar(&b.repo, "repo", ".", "the repository")
		flags.StringVar(&b.dist, "o", "dist", "directory for the files; what is in it is removed first")
		platforms := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "what archives are made for")
		flags.BoolVar(&b.packages, "packages", true, "make .deb and .rpm for Linux, by nfpm")
		flags.BoolVar(&b.image, "image", true, "make the container image for linux/"+runtime.GOARCH+", which needs root and debootstrap")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		b.platforms = strings.Split(*platforms, ",")
		var err error
		if b.version, err = versionArgument(flags); err != nil {
			return err
		}
		return b.run(ctx)
	case "image":
		var i image
		flags.StringVar(&i.rootfs, "rootfs", "", "tar archive of the file system")
		flags.StringVar(&i.out, "o", "", "file for the image, as docker load and podman load read it")
		flags.StringVar(&i.tag, "tag", "croft:latest", "name of the image")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return i.write()
	default:
		return errors.New(usage)
	}
}

// versionArgument returns the only argument, which has the form that Go's tools need.
func versionArgument(flags *flag.FlagSet) (string, error) {
	v := flags.Arg(0)
	if flags.NArg() != 1 || !semver.IsValid(v) || semver.Canonical(v) != v {
		return "", fmt.Errorf("the version is %q, but must have the form v1.2.3 or v1.2.3-rc.1", strings.Join(flags.Args(), " "))
	}
	return v, nil
}

// readDir returns the names of the files below dir, as slash-separated paths in order.
func readDir(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	return names, err
}
