#include "textflag.h"

// func plainBlocks(p *byte, n int) (plain int, found bool)
TEXT ·plainBlocks(SB), NOSPLIT, $0-25
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	SUBQ $32, CX // the last place at which a block may begin
	XORQ AX, AX

	// Y0 is the last byte of what controls, Y1 a quote and Y2 a backslash.
	MOVL         $0x1f1f1f1f, R8
	VMOVQ        R8, X0
	VPBROADCASTD X0, Y0
	MOVL         $0x22222222, R8
	VMOVQ        R8, X1
	VPBROADCASTD X1, Y1
	MOVL         $0x5c5c5c5c, R8
	VMOVQ        R8, X2
	VPBROADCASTD X2, Y2

block:
	CMPQ AX, CX
	JGT  done

	// Bytes that are not ASCII are negative, and so less than the controls.
	VMOVDQU   (SI)(AX*1), Y3
	VPCMPGTB  Y0, Y3, Y4
	VPCMPEQB  Y1, Y3, Y5
	VPCMPEQB  Y2, Y3, Y6
	VPOR      Y5, Y6, Y5
	VPANDN    Y4, Y5, Y4
	VPMOVMSKB Y4, DX
	NOTL      DX
	TESTL     DX, DX
	JNZ       special
	ADDQ      $32, AX
	JMP       block

special:
	TZCNTL DX, DX
	ADDQ   DX, AX
	VZEROUPPER
	MOVQ   AX, plain+16(FP)
	MOVB   $1, found+24(FP)
	RET

done:
	VZEROUPPER
	MOVQ AX, plain+16(FP)
	MOVB $0, found+24(FP)
	RET

// func copyBlocks(to, p *byte, n int) (plain int, found bool)
TEXT ·copyBlocks(SB), NOSPLIT, $0-33
	MOVQ to+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	SUBQ $32, CX // the last place at which a block may begin
	XORQ AX, AX

	// As in plainBlocks.
	MOVL         $0x1f1f1f1f, R8
	VMOVQ        R8, X0
	VPBROADCASTD X0, Y0
	MOVL         $0x22222222, R8
	VMOVQ        R8, X1
	VPBROADCASTD X1, Y1
	MOVL         $0x5c5c5c5c, R8
	VMOVQ        R8, X2
	VPBROADCASTD X2, Y2

block:
	CMPQ AX, CX
	JGT  done

	VMOVDQU   (SI)(AX*1), Y3
	VMOVDQU   Y3, (DI)(AX*1)
	VPCMPGTB  Y0, Y3, Y4
	VPCMPEQB  Y1, Y3, Y5
	VPCMPEQB  Y2, Y3, Y6
	VPOR      Y5, Y6, Y5
	VPANDN    Y4, Y5, Y4
	VPMOVMSKB Y4, DX
	NOTL      DX
	TESTL     DX, DX
	JNZ       special
	ADDQ      $32, AX
	JMP       block

special:
	TZCNTL DX, DX
	ADDQ   DX, AX
	VZEROUPPER
	MOVQ   AX, plain+24(FP)
	MOVB   $1, found+32(FP)
	RET

done:
	VZEROUPPER
	MOVQ AX, plain+24(FP)
	MOVB $0, found+32(FP)
	RET
