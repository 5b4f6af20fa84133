#include "textflag.h"

// func handlerAddress() uintptr
TEXT ·handlerAddress(SB), NOSPLIT, $0-8
	LEAQ handler<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// The kernel calls it with the signal in DI.
TEXT handler<>(SB), NOSPLIT|NOFRAME, $0
	SUBQ $8, SP
	MOVQ DI, 0(SP)
	MOVQ ·bell(SB), DI
	MOVQ SP, SI
	MOVL $1, DX
	MOVL $1, AX // write(2)
	SYSCALL
	ADDQ $8, SP
	RET
