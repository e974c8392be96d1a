package guestd

// This architecture has none of the calls that newer ones replace.
var oldModes map[uint32]uint32

const oldOpen = 0
