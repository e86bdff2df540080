/* gcc warns of the widest block where a small policy's calls of it, which never happen, are inlined. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Warray-bounds"
#endif
/* As many floats as one register holds. Which it is changes the speed and not a bit of a result. */
#if defined(__GNUC__) && !defined(POLICY_SCALAR)
#if defined(__AVX512F__)
#define RW_LANES 16
#elif defined(__AVX__)
#define RW_LANES 8
#elif defined(__SSE2__) || defined(__wasm_simd128__) || defined(__aarch64__)
#define RW_LANES 4
#endif
#endif
#if defined(RW_LANES)
typedef float rw_vec __attribute__((vector_size(4 * RW_LANES), aligned(4), may_alias));
#define RW_LOAD(place) (*(const rw_vec *)(const void *)(place))
#define RW_SAVE(place, value) (*(rw_vec *)(void *)(place) = (value))
#else
#define RW_LANES 1
typedef float rw_vec;
#define RW_LOAD(place) (*(place))
#define RW_SAVE(place, value) (*(place) = (value))
#endif
/* Vectors side by side in a block of rows: 16 registers hold the sums of two, 32 those of four. */
#if RW_LANES == 8 || (RW_LANES == 4 && !defined(__aarch64__))
#define RW_WIDE 2
#else
#define RW_WIDE 4
#endif
/* A sandbox that counts instructions moves every sum to memory and back at each turn of a loop: a
   turn then takes eight steps, of as few sums as stay in registers with what is read for them. An
   address that the compiler cannot look through keeps its offsets in the loads. */
#if defined(__wasm_simd128__)
#define RW_LONG 4
#define RW_TURNS(...) __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ \
    __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__
#define RW_STAY(place) __asm__("" : "+r"(place))
#else
#define RW_LONG 8
#define RW_TURNS(...) __VA_ARGS__
#define RW_STAY(place) (void)0
#endif
/* sum += number * vector. With AVX-512 compilers spread the number over a register first, which
   takes an adder's time; an operand in memory takes none. gcc reads a vector anew for each use. */
#if RW_LANES == 16
#define RW_HOLD(vector) __asm__("" : "+v"(vector))
#else
#define RW_HOLD(vector) (void)0
#endif
/* Where column c of panels side by side lies. */
#define RW_AT(c, apart) ((c) / RW_COLUMNS * (apart) + (c) % RW_COLUMNS)
#if RW_LANES == 16 && defined(POLICY_FAST)
#define RW_ADD(sum, number, vector) \
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(vector), "m"(number))
#elif RW_LANES == 16
#define RW_ADD(sum, number, vector) do { \
        rw_vec rw_product; \
        __asm__("vmulps %2%{1to16%}, %1, %0" : "=v"(rw_product) : "v"(vector), "m"(number)); \
        sum += rw_product; \
    } while (0)
#else
#define RW_ADD(sum, number, vector) ((sum) += (number) * (vector))
#endif
