#include "textflag.h"

// runSteps is the function that StepRunner hands out. It follows the C calling convention and uses neither the stack,
// but for the registers it must keep, nor anything else of this program: it is copied into another process.
//
// BX is the present call, R12 the results, R13 its index, R14 the number of calls.

#define LOAD(offset, late, register, has) \
	MOVQ	offset(BX), register \
	MOVBLZX	late(BX), AX \
	TESTL	AX, AX \
	JEQ	has \
	MOVQ	(R12)(AX*4), register \
has:

TEXT ·runSteps(SB),NOSPLIT|NOFRAME,$0-0
	PUSHQ	BX
	PUSHQ	R12
	PUSHQ	R13
	PUSHQ	R14
	MOVQ	CX, R13
	IMUL3Q	$112, CX, BX
	ADDQ	DI, BX
	MOVQ	DX, R12
	MOVQ	SI, R14
next:
	CMPQ	R13, R14
	JGE	done
	LOAD(8, 56, DI, has0)
	LOAD(16, 57, SI, has1)
	LOAD(24, 58, DX, has2)
	LOAD(32, 59, R10, has3)
	LOAD(40, 60, R8, has4)
	LOAD(48, 61, R9, has5)
	MOVQ	0(BX), AX
	SYSCALL
	MOVQ	AX, 0(R12)
	CMPQ	AX, $0xfffffffffffff001
	JCC	failed
	MOVQ	64(BX), CX
	TESTQ	CX, CX
	JEQ	kept
	MOVQ	AX, (R12)(CX*8)
kept:
	MOVQ	72(BX), CX
	TESTQ	CX, CX
	JEQ	on
	CMPQ	CX, $2
	JEQ	atZero
	JCS	atResult
	CMPQ	AX, CX
	JNE	turn
	JMP	on
atResult:
	TESTQ	AX, AX
	JNE	turn
	JMP	on
atZero:
	TESTQ	AX, AX
	JEQ	turn
on:
	ADDQ	$112, BX
	INCQ	R13
	JMP	next
turn:
	MOVQ	104(BX), CX
	TESTQ	CX, CX
	JEQ	done
	MOVQ	CX, AX
	SUBQ	R13, AX
	IMUL3Q	$112, AX, AX
	ADDQ	AX, BX
	MOVQ	CX, R13
	JMP	next
failed:
	NEGQ	AX
	CMPQ	AX, 80(BX)
	JEQ	on
	CMPQ	AX, 88(BX)
	JEQ	on
	CMPQ	AX, 96(BX)
	JEQ	on
done:
	MOVQ	R13, AX
	POPQ	R14
	POPQ	R13
	POPQ	R12
	POPQ	BX
	RET
	// Where the function ends; see stepsEnd.
	BYTE	$'s'; BYTE $'t'; BYTE $'e'; BYTE $'p'; BYTE $'s'; BYTE $'E'; BYTE $'n'; BYTE $'d'

// func runStepsAddress() unsafe.Pointer
TEXT ·runStepsAddress(SB),NOSPLIT,$0-8
	LEAQ	·runSteps(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
