package guestproto

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// Encode encodes the Config as a protobuf message, for DecodeConfig.
func (c *Config) Encode() ([]byte, error) {
	data, err := proto.Marshal(toConfig(c))
	if err != nil {
		return nil, fmt.Errorf("guest: encode the configuration: %w: %w", fault.InvalidArgument, err)
	}
	return data, nil
}

// DecodeConfig decodes what Encode wrote. It refuses another version of the protocol.
func DecodeConfig(data []byte) (*Config, error) {
	pb := new(guestpb.Config)
	if err := proto.Unmarshal(data, pb); err != nil {
		return nil, fmt.Errorf("guest: read the configuration: %w: %w", fault.Failed, err)
	}
	if pb.Protocol != Protocol {
		return nil, fmt.Errorf("guest: croft speaks version %d of the protocol and this croft-guest version %d: %w: both must come from one build; install them together",
			pb.Protocol, Protocol, fault.Failed)
	}
	return fromConfig(pb), nil
}

func toConfig(c *Config) *guestpb.Config {
	if c == nil {
		return nil
	}
	return &guestpb.Config{
		Protocol: Protocol, Version: c.Version, Workspace: c.Workspace, Level: string(c.Level), Root: []byte(c.Root),
		NewRoot: []byte(c.NewRoot), Mounts: mapSlice(c.Mounts, ToMount), Verify: mapSlice(c.Verify, toSameFile), Hostname: c.Hostname, Loopback: c.Loopback,
		Uid: int64(c.UID), Gid: int64(c.GID), Env: toEnv(c.Env), Confine: toConfine(c.Confine), Groups: c.Groups, Limits: toLimits(c.Limits),
		Descriptors: mapValues(c.Descriptors, func(fd int) int64 { return int64(fd) }), Gvisor: toGVisor(c.GVisor),
		Paths:     mapValues(c.Paths, func(path string) []byte { return []byte(path) }),
		RelayPort: int64(c.RelayPort), RemoteProxy: c.RemoteProxy, CaCerts: c.CACerts, LeaseNano: int64(c.Lease), RetainNano: int64(c.Retain), Subreaper: c.Subreaper,
		Files: c.Files, ReadOnly: c.ReadOnly, Sync: c.Sync, Token: c.Token, Threads: int64(c.Threads), WatchDisk: c.WatchDisk, Forwards: c.Forwards,
	}
}

func fromConfig(pb *guestpb.Config) *Config {
	if pb == nil {
		return nil
	}
	return &Config{
		Version: pb.Version, Workspace: pb.Workspace, Level: driver.Isolation(pb.Level), Root: string(pb.Root),
		NewRoot: string(pb.NewRoot), Mounts: mapSlice(pb.Mounts, FromMount), Verify: mapSlice(pb.Verify, fromSameFile), Hostname: pb.Hostname, Loopback: pb.Loopback,
		UID: int(pb.Uid), GID: int(pb.Gid), Env: fromEnv(pb.Env), Confine: fromConfine(pb.Confine), Groups: pb.Groups, Limits: fromLimits(pb.Limits),
		Descriptors: mapValues(pb.Descriptors, func(fd int64) int { return int(fd) }), GVisor: fromGVisor(pb.Gvisor),
		Paths:     mapValues(pb.Paths, func(path []byte) string { return string(path) }),
		RelayPort: int(pb.RelayPort), RemoteProxy: pb.RemoteProxy, CACerts: pb.CaCerts, Lease: time.Duration(pb.LeaseNano), Retain: time.Duration(pb.RetainNano), Subreaper: pb.Subreaper,
		Files: pb.Files, ReadOnly: pb.ReadOnly, Sync: pb.Sync, Token: pb.Token, Threads: int(pb.Threads), WatchDisk: pb.WatchDisk, Forwards: pb.Forwards,
	}
}

func toGVisor(k *GVisor) *guestpb.GVisor {
	if k == nil {
		return nil
	}
	return &guestpb.GVisor{Args: toBytes(k.Args), Bundle: []byte(k.Bundle), Inner: toConfig(k.Inner)}
}

func fromGVisor(pb *guestpb.GVisor) *GVisor {
	if pb == nil {
		return nil
	}
	return &GVisor{Args: fromBytes(pb.Args), Bundle: string(pb.Bundle), Inner: fromConfig(pb.Inner)}
}

func toConfine(c Confine) *guestpb.Confine {
	return &guestpb.Confine{NoNewPrivs: c.NoNewPrivs, DropCaps: c.DropCaps, Seccomp: c.Seccomp, NoNetwork: c.NoNetwork, NoSetId: c.NoSetID,
		ReadWrite: toBytes(c.ReadWrite), ReadOnly: toBytes(c.ReadOnly), BrokerConnect: c.BrokerConnect, ConnectBelow: toBytes(c.ConnectBelow), BoundNetlink: c.BoundNetlink}
}

func fromConfine(pb *guestpb.Confine) Confine {
	return Confine{NoNewPrivs: pb.GetNoNewPrivs(), DropCaps: pb.GetDropCaps(), Seccomp: pb.GetSeccomp(), NoNetwork: pb.GetNoNetwork(), NoSetID: pb.GetNoSetId(),
		ReadWrite: fromBytes(pb.GetReadWrite()), ReadOnly: fromBytes(pb.GetReadOnly()), BrokerConnect: pb.GetBrokerConnect(), ConnectBelow: fromBytes(pb.GetConnectBelow()), BoundNetlink: pb.GetBoundNetlink()}
}

func toSameFile(s SameFile) *guestpb.SameFile {
	return &guestpb.SameFile{Path: []byte(s.Path), File: s.File}
}

func fromSameFile(pb *guestpb.SameFile) SameFile {
	return SameFile{Path: string(pb.Path), File: pb.File}
}

// ToMount encodes a mount.
func ToMount(m Mount) *guestpb.Mount {
	return &guestpb.Mount{Kind: string(m.Kind), Target: []byte(m.Target), Source: []byte(m.Source), Lower: toBytes(m.Lower), Upper: []byte(m.Upper),
		Work: []byte(m.Work), Data: []byte(m.Data), ReadOnly: m.ReadOnly, NoExec: m.NoExec, Dev: m.Dev, Optional: m.Optional, Mode: m.Mode}
}

// FromMount decodes what ToMount encoded.
func FromMount(pb *guestpb.Mount) Mount {
	return Mount{Kind: MountKind(pb.Kind), Target: string(pb.Target), Source: string(pb.Source), Lower: fromBytes(pb.Lower), Upper: string(pb.Upper),
		Work: string(pb.Work), Data: string(pb.Data), ReadOnly: pb.ReadOnly, NoExec: pb.NoExec, Dev: pb.Dev, Optional: pb.Optional, Mode: pb.Mode}
}

// mapSlice converts the elements of a list; an empty list becomes nil.
func mapSlice[A, B any](list []A, convert func(A) B) []B {
	var out []B
	for _, one := range list {
		out = append(out, convert(one))
	}
	return out
}

// mapValues converts the values of a map; an empty map becomes nil.
func mapValues[A, B any](table map[string]A, convert func(A) B) map[string]B {
	if len(table) == 0 {
		return nil
	}
	out := make(map[string]B, len(table))
	for name, value := range table {
		out[name] = convert(value)
	}
	return out
}
