// Package shellwire is how commands travel between a croft server and its
// clients: the JSON form of a command, and the messages of a connection that
// carries one command with its streams both ways.
//
// # One command, one connection
//
// The connection is a WebSocket. The client's first message is a [Message] of
// type run or start with the command. Then text messages are control and binary
// messages are data, of which the first byte names the stream. It goes on like
// this:
//
//	client                          server
//	run|start {command, streams}
//	                                started {session}          (start alone)
//	data stdin ...                  data stdout|stderr ...
//	ack {stdout, bytes}             ack {stdin, bytes}
//	eof                             exit {result} | error {error}
//	cancel
//
// A command that is not detached ends with the connection that started it, so a
// client that vanishes leaves nothing running.
//
// # Back-pressure
//
// Nobody may send more than [WindowSize] bytes of a stream that the other side
// has not acknowledged, and acknowledging means that the callback has returned
// or the command has read. So one stream that stands still holds up neither the
// other streams nor the control messages, and neither side holds more than a
// window per stream.
package shellwire
