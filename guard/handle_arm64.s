#include "textflag.h"

// func handlerAddress() uintptr
TEXT ·handlerAddress(SB), NOSPLIT, $0-8
	MOVD $handler<>(SB), R0
	MOVD R0, ret+0(FP)
	RET

// The kernel calls it with the signal in R0.
TEXT handler<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $16, RSP
	MOVD R0, (RSP)
	MOVD ·bell(SB), R0
	MOVD RSP, R1
	MOVD $1, R2
	MOVD $64, R8 // write(2)
	SVC
	ADD  $16, RSP
	RET
