#if defined(__cplusplus)
#error "compile this file as C: its header can be included from C++"
#endif
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the weights in this file are for processors that store the low byte first"
#endif
/* Its own exp and tanh count on every rounding: with such flags they are wrong, not only less exact. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) \
    || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "leave out -ffast-math, -Ofast and their parts: -O3 -DPOLICY_FAST is the fast mode"
#endif
#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "floats must be computed as floats: on 32-bit x86 with -msse2 -mfpmath=sse"
#endif
/* Reproducible unless POLICY_FAST is defined: no product is fused with the sum that follows. */
#if defined(__clang__)
/* -funsafe-math-optimizations leaves no trace that could be refused. */
#pragma clang fp reassociate(off)
#if __clang_major__ >= 18
#pragma clang fp reciprocal(off)
#endif
#if defined(POLICY_FAST)
#pragma clang fp contract(fast)
#else
#pragma STDC FP_CONTRACT OFF
#endif
#elif defined(__GNUC__) && !defined(POLICY_FAST)
/* gcc 12 fuses neighbouring sums and differences in blocks even so: it must not look for them. */
#pragma GCC optimize("-ffp-contract=off", "-fno-tree-slp-vectorize")
#elif defined(__GNUC__)
#pragma GCC optimize("-ffp-contract=fast")
#endif
/* A loop over an elementary function becomes vectors only where the function is inlined. */
#if defined(__wasm_simd128__)
#define RW_INLINE static inline __attribute__((always_inline))
#else
#define RW_INLINE static inline
#endif
