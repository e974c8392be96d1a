#include "textflag.h"

// func nothing()
TEXT ·nothing(SB), NOSPLIT|NOFRAME, $0-0
	RET

// func whereNothing() uintptr
TEXT ·whereNothing(SB), NOSPLIT, $0-8
	MOVD $·nothing(SB), R0
	MOVD R0, ret+0(FP)
	RET
