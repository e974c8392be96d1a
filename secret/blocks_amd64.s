#include "textflag.h"
#include "go_asm.h"

// func nextPlace(in *groups, four *[1024]uint64, p *byte, n int) (at int, found bool)
TEXT ·nextPlace(SB), NOSPLIT, $0-41
	MOVQ in+0(FP), BX
	MOVQ four+8(FP), DI
	MOVQ p+16(FP), SI
	MOVQ n+24(FP), CX
	SUBQ $35, CX // the last place at which a block may begin
	XORQ AX, AX

	// Y0 to Y7 are the tables, in both halves of a register.
	VBROADCASTI128 (groups_tables+0)(BX), Y0
	VBROADCASTI128 (groups_tables+16)(BX), Y1
	VBROADCASTI128 (groups_tables+32)(BX), Y2
	VBROADCASTI128 (groups_tables+48)(BX), Y3
	VBROADCASTI128 (groups_tables+64)(BX), Y4
	VBROADCASTI128 (groups_tables+80)(BX), Y5
	VBROADCASTI128 (groups_tables+96)(BX), Y6
	VBROADCASTI128 (groups_tables+112)(BX), Y7

	MOVL         $0x0f0f0f0f, R8
	VMOVQ        R8, X8
	VPBROADCASTD X8, Y8
	VPXOR        Y9, Y9, Y9

block:
	CMPQ AX, CX
	JGT  done

	VMOVDQU 0(SI)(AX*1), Y10
	VPAND   Y8, Y10, Y11
	VPSRLW  $4, Y10, Y10
	VPAND   Y8, Y10, Y10
	VPSHUFB Y11, Y0, Y11
	VPSHUFB Y10, Y1, Y10
	VPAND   Y10, Y11, Y12

	VMOVDQU 1(SI)(AX*1), Y10
	VPAND   Y8, Y10, Y11
	VPSRLW  $4, Y10, Y10
	VPAND   Y8, Y10, Y10
	VPSHUFB Y11, Y2, Y11
	VPSHUFB Y10, Y3, Y10
	VPAND   Y10, Y11, Y11
	VPAND   Y11, Y12, Y12

	VMOVDQU 2(SI)(AX*1), Y10
	VPAND   Y8, Y10, Y11
	VPSRLW  $4, Y10, Y10
	VPAND   Y8, Y10, Y10
	VPSHUFB Y11, Y4, Y11
	VPSHUFB Y10, Y5, Y10
	VPAND   Y10, Y11, Y11
	VPAND   Y11, Y12, Y12

	VMOVDQU 3(SI)(AX*1), Y10
	VPAND   Y8, Y10, Y11
	VPSRLW  $4, Y10, Y10
	VPAND   Y8, Y10, Y10
	VPSHUFB Y11, Y6, Y11
	VPSHUFB Y10, Y7, Y10
	VPAND   Y10, Y11, Y11
	VPAND   Y11, Y12, Y12

	// A place whose groups are none has a byte of zero.
	VPCMPEQB  Y9, Y12, Y13
	VPMOVMSKB Y13, DX
	NOTL      DX
	TESTL     DX, DX
	JNZ       closer

next:
	ADDQ $32, AX
	JMP  block

closer:
	// The places of the block, each by the hash of its four bytes (see hash).
	TZCNTL DX, R9
	ADDQ   AX, R9
	MOVL   (SI)(R9*1), R10
	IMULL  $0x9e3779b1, R10
	SHRL   $16, R10
	MOVL   R10, R11
	SHRL   $5, R11
	MOVL   (DI)(R11*4), R11
	BTL    R10, R11
	JCS    hit
	BLSRL  DX, DX
	JNZ    closer
	JMP    next

hit:
	VZEROUPPER
	MOVQ R9, at+32(FP)
	MOVB $1, found+40(FP)
	RET

done:
	VZEROUPPER
	MOVQ AX, at+32(FP)
	MOVB $0, found+40(FP)
	RET

// func nextWide(in *groups, four *[1024]uint64, p *byte, n int) (at int, found bool)
TEXT ·nextWide(SB), NOSPLIT, $0-41
	MOVQ in+0(FP), BX
	MOVQ four+8(FP), DI
	MOVQ p+16(FP), SI
	MOVQ n+24(FP), CX
	SUBQ $67, CX // the last place at which a block may begin
	XORQ AX, AX

	// Z0 and Z1 are the table of the first byte, and so on.
	VMOVDQU64 (groups_whole+0)(BX), Z0
	VMOVDQU64 (groups_whole+64)(BX), Z1
	VMOVDQU64 (groups_whole+128)(BX), Z2
	VMOVDQU64 (groups_whole+192)(BX), Z3
	VMOVDQU64 (groups_whole+256)(BX), Z4
	VMOVDQU64 (groups_whole+320)(BX), Z5
	VMOVDQU64 (groups_whole+384)(BX), Z6
	VMOVDQU64 (groups_whole+448)(BX), Z7

block:
	CMPQ AX, CX
	JGT  done

	VMOVDQU64  0(SI)(AX*1), Z8
	VMOVDQU64  1(SI)(AX*1), Z9
	VMOVDQU64  2(SI)(AX*1), Z10
	VMOVDQU64  3(SI)(AX*1), Z11
	VPERMI2B   Z1, Z0, Z8
	VPERMI2B   Z3, Z2, Z9
	VPERMI2B   Z5, Z4, Z10
	VPERMI2B   Z7, Z6, Z11
	VPANDQ     Z8, Z9, Z8
	VPANDQ     Z10, Z11, Z10
	VPTESTMB   Z8, Z10, K1
	KMOVQ      K1, DX
	TESTQ      DX, DX
	JNZ        closer

next:
	ADDQ $64, AX
	JMP  block

closer:
	// As in nextPlace.
	TZCNTQ DX, R9
	ADDQ   AX, R9
	MOVL   (SI)(R9*1), R10
	IMULL  $0x9e3779b1, R10
	SHRL   $16, R10
	MOVL   R10, R11
	SHRL   $5, R11
	MOVL   (DI)(R11*4), R11
	BTL    R10, R11
	JCS    hit
	BLSRQ  DX, DX
	JNZ    closer
	JMP    next

hit:
	VZEROUPPER
	MOVQ R9, at+32(FP)
	MOVB $1, found+40(FP)
	RET

done:
	VZEROUPPER
	MOVQ AX, at+32(FP)
	MOVB $0, found+40(FP)
	RET
