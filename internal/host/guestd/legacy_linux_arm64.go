package guestd

// This architecture has no system calls that newer ones replace.
var legacyModeCalls map[uint32]uint32

const legacyOpen = 0

const legacyMknod = 0
