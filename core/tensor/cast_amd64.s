#include "textflag.h"

// The loops of cast.go for AVX2 and F16C, which take 16 elements at a time. n is a multiple of 16, and small
// enough that a lane of 32 bits can count overflows.

#define BROADCAST(value, x, y) \
	MOVL         $value, AX \
	VMOVD        AX, x      \
	VPBROADCASTD x, y

// SUM adds the lanes of Y15 to AX.
#define SUM \
	VEXTRACTI128 $1, Y15, X0  \
	VPADDD       X0, X15, X15 \
	VPSHUFD      $0x4e, X15, X0 \
	VPADDD       X0, X15, X15 \
	VPSHUFD      $0xb1, X15, X0 \
	VPADDD       X0, X15, X15 \
	VMOVD        X15, AX

// BF16 rounds the eight patterns in y to sixteen bits, in lanes of 32.
//   Y8 1, Y9 0x7fff, Y10 sign off, Y11 infinity, Y12 quiet bit, Y13 the last
//   value that does not round to infinity; Y15 counts.
#define BF16(y, abs, hi, m) \
	VPAND     Y10, y, abs      \
	VPSRLD    $16, y, hi       \
	VPAND     Y8, hi, m        \
	VPADDD    Y9, m, m         \
	VPADDD    y, m, y          \
	VPSRLD    $16, y, y        \
	VPOR      Y12, hi, hi      \
	VPCMPGTD  Y13, abs, m      \
	VPCMPGTD  abs, Y11, Y14    \
	VPAND     m, Y14, Y14      \
	VPSUBD    Y14, Y15, Y15    \
	VPCMPGTD  Y11, abs, m      \
	VPBLENDVB m, hi, y, y

// func bf16FromF32AVX2(dst, src *byte, n int) (overflow int64)
TEXT ·bf16FromF32AVX2(SB), NOSPLIT, $0-32
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  n+16(FP), CX
	BROADCAST(1, X8, Y8)
	BROADCAST(0x7fff, X9, Y9)
	BROADCAST(0x7fffffff, X10, Y10)
	BROADCAST(0x7f800000, X11, Y11)
	BROADCAST(0x0040, X12, Y12)
	BROADCAST(0x7f7f7fff, X13, Y13)
	VPXOR Y15, Y15, Y15

bf16Loop:
	CMPQ      CX, $16
	JLT       bf16Done
	VMOVDQU   (SI), Y0
	VMOVDQU   32(SI), Y1
	BF16(Y0, Y2, Y3, Y4)
	BF16(Y1, Y5, Y6, Y7)
	VPACKUSDW Y1, Y0, Y0
	VPERMQ    $0xd8, Y0, Y0
	VMOVDQU   Y0, (DI)
	ADDQ      $64, SI
	ADDQ      $32, DI
	SUBQ      $16, CX
	JMP       bf16Loop

bf16Done:
	SUM
	MOVLQSX AX, AX
	MOVQ    AX, overflow+24(FP)
	VZEROUPPER
	RET

// F16 rounds the eight values in y to x. Y10 sign off, Y11 infinity, Y13 the
// last value that does not round to infinity; Y15 counts.
#define F16(y, x, abs, m) \
	VPAND     Y10, y, abs      \
	VCVTPS2PH $0, y, x         \
	VPCMPGTD  Y13, abs, m      \
	VPCMPGTD  abs, Y11, abs    \
	VPAND     m, abs, abs      \
	VPSUBD    abs, Y15, Y15

// func f16FromF32AVX2(dst, src *byte, n int) (overflow int64)
TEXT ·f16FromF32AVX2(SB), NOSPLIT, $0-32
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  n+16(FP), CX
	BROADCAST(0x7fffffff, X10, Y10)
	BROADCAST(0x7f800000, X11, Y11)
	BROADCAST(0x477fefff, X13, Y13)
	VPXOR Y15, Y15, Y15

f16Loop:
	CMPQ    CX, $16
	JLT     f16Done
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	F16(Y0, X2, Y3, Y4)
	F16(Y1, X5, Y6, Y7)
	VMOVDQU X2, (DI)
	VMOVDQU X5, 16(DI)
	ADDQ    $64, SI
	ADDQ    $32, DI
	SUBQ    $16, CX
	JMP     f16Loop

f16Done:
	SUM
	MOVLQSX AX, AX
	MOVQ    AX, overflow+24(FP)
	VZEROUPPER
	RET

// WIDE moves eight bfloat16 at off to y and sets the quiet bit of NaNs. Y10 sign
// off, Y11 infinity, Y12 quiet bit.
#define WIDE(off, y, m) \
	VPMOVZXWD off(SI), y       \
	VPSLLD    $16, y, y        \
	VPAND     Y10, y, m        \
	VPCMPGTD  Y11, m, m        \
	VPAND     Y12, m, m        \
	VPOR      m, y, y

// func f32FromBF16AVX2(dst, src *byte, n int)
TEXT ·f32FromBF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	BROADCAST(0x7fffffff, X10, Y10)
	BROADCAST(0x7f800000, X11, Y11)
	BROADCAST(0x00400000, X12, Y12)

wideLoop:
	CMPQ    CX, $16
	JLT     wideDone
	WIDE(0, Y0, Y2)
	WIDE(16, Y1, Y3)
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ    $32, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JMP     wideLoop

wideDone:
	VZEROUPPER
	RET

// func f32FromF16AVX2(dst, src *byte, n int)
TEXT ·f32FromF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

halfLoop:
	CMPQ      CX, $16
	JLT       halfDone
	VCVTPH2PS (SI), Y0
	VCVTPH2PS 16(SI), Y1
	VMOVDQU   Y0, (DI)
	VMOVDQU   Y1, 32(DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	SUBQ      $16, CX
	JMP       halfLoop

halfDone:
	VZEROUPPER
	RET
