#include "textflag.h"

// func prlimit(call, resource uintptr, into unsafe.Pointer) uintptr
TEXT ·prlimit(SB), NOSPLIT, $0-32
	MOVQ call+0(FP), AX
	XORQ DI, DI
	MOVQ resource+8(FP), SI
	XORQ DX, DX
	MOVQ into+16(FP), R10
	SYSCALL
	MOVQ AX, ret+24(FP)
	RET
