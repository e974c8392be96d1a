// Package shellwire is the wire protocol of commands between a croft server and its
// clients: the JSON form of a command, and the messages of a WebSocket connection.
//
// # One command, one connection
//
// The client's first message is a [Message] of type run or start with the command.
// Text messages are control messages; binary messages are data, whose first byte is
// the stream:
//
//	client                          server
//	run|start {command, streams}
//	                                started {session}          (start alone)
//	data stdin ...                  data stdout|stderr ...
//	ack {stdout, bytes}             ack {stdin, bytes}
//	eof                             exit {result} | error {error}
//	cancel
//
// A command that is not detached ends with its connection, so a client that crashes
// leaves nothing running.
//
// # Back-pressure
//
// Each side sends at most [WindowSize] unacknowledged bytes of a stream. Data is
// acknowledged when the callback has returned or the command has read it. So a blocked
// stream delays neither other streams nor control messages, and each side buffers at
// most one window per stream.
package shellwire
