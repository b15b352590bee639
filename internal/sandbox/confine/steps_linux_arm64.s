#include "textflag.h"

// runSteps is the function that StepRunner hands out. It follows the C calling convention and uses neither the stack
// nor anything else of this program: it is copied into another process. System calls keep every register but R0.
//
// R9 is the present call, R10 the number of calls, R11 the results, R12 its index.

#define LOAD(offset, late, register, has) \
	MOVD	offset(R9), register \
	MOVBU	late(R9), R13 \
	CBZ	R13, has \
	ADD	R13<<2, R11, R13 \
	MOVD	(R13), register \
has:

TEXT ·runSteps(SB),NOSPLIT|NOFRAME,$0-0
	MOVD	R1, R10
	MOVD	R2, R11
	MOVD	R3, R12
	MOVD	$112, R13
	MUL	R3, R13, R9
	ADD	R0, R9
next:
	CMP	R10, R12
	BGE	done
	LOAD(8, 56, R0, has0)
	LOAD(16, 57, R1, has1)
	LOAD(24, 58, R2, has2)
	LOAD(32, 59, R3, has3)
	LOAD(40, 60, R4, has4)
	LOAD(48, 61, R5, has5)
	MOVD	0(R9), R8
	SVC
	MOVD	R0, 0(R11)
	CMN	$4095, R0
	BCS	failed
	MOVD	64(R9), R13
	CBZ	R13, kept
	MOVD	R0, (R11)(R13<<3)
kept:
	MOVD	72(R9), R13
	CBZ	R13, on
	CMP	$2, R13
	BEQ	atZero
	BLT	atResult
	CMP	R13, R0
	BNE	turn
	B	on
atResult:
	CBNZ	R0, turn
	B	on
atZero:
	CBZ	R0, turn
on:
	ADD	$112, R9
	ADD	$1, R12
	B	next
turn:
	MOVD	104(R9), R13
	CBZ	R13, done
	SUB	R12, R13, R14
	MOVD	R13, R12
	MOVD	$112, R13
	MUL	R13, R14, R14
	ADD	R14, R9
	B	next
failed:
	NEG	R0, R0
	MOVD	80(R9), R13
	CMP	R13, R0
	BEQ	on
	MOVD	88(R9), R13
	CMP	R13, R0
	BEQ	on
	MOVD	96(R9), R13
	CMP	R13, R0
	BEQ	on
done:
	MOVD	R12, R0
	RET
	// Where the function ends, "stepsEnd"; see stepsEnd.
	WORD	$0x70657473
	WORD	$0x646e4573

// func runStepsAddress() unsafe.Pointer
TEXT ·runStepsAddress(SB),NOSPLIT,$0-8
	MOVD	$·runSteps(SB), R0
	MOVD	R0, ret+0(FP)
	RET
