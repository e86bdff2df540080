/* What a person would write for one machine: vectors of its own, FMA, sizes known when compiled. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(64), may_alias));
#define LOAD(p) (*(const vec *)(const void *)(p))
#define SAVE(p, v) (*(vec *)(void *)(p) = (v))

static inline vec pick(ivec mask, vec yes, vec no)
{
    return (vec)(((ivec)yes & mask) | ((ivec)no & ~mask));
}

static inline vec clamped(vec x, float low, float high)
{
    const vec l = x - x + low, h = x - x + high;
    x = pick(x < l, l, x);
    return pick(x > h, h, x);
}

static inline vec exp_of(vec x)
{
    const vec s = clamped(x, -87.0f, 88.0f);
    const vec shifted = s * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const vec r = (s - n * 0.693359375f) + n * 2.12194440e-4f;
    const vec p = 1.0f + r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666667f
        + r * (0.0083333333f + r * 0.0013888889f)))));
    const ivec bits = (((ivec)shifted << 23) + 0x3f800000);
    return p * (vec)bits;
}

static inline vec sigmoid_of(vec x)
{
    return 1.0f / (1.0f + exp_of(-x));
}

static inline vec tanh_of(vec x)
{
    return 2.0f * sigmoid_of(2.0f * x) - 1.0f;
}

static inline vec elu_of(vec x)
{
    const vec zero = x - x, e = exp_of(pick(x < zero, x, zero)) - 1.0f;
    return pick(x > zero, x, e);
}

/* y = b + x W for n a multiple of 16: panels of 128, 64, 32 or 16 columns, one behind the other. */
static inline void layer(const float *x, const float *w, const float *b, float *y, int k, int n)
{
    int start = 0, i;
    for (; start + 128 <= n; start += 128, b += 128, y += 128) {
        vec a0 = LOAD(b), a1 = LOAD(b + 16), a2 = LOAD(b + 32), a3 = LOAD(b + 48);
        vec a4 = LOAD(b + 64), a5 = LOAD(b + 80), a6 = LOAD(b + 96), a7 = LOAD(b + 112);
        for (i = 0; i < k; i++, w += 128) {
            a0 += x[i] * LOAD(w), a1 += x[i] * LOAD(w + 16), a2 += x[i] * LOAD(w + 32);
            a3 += x[i] * LOAD(w + 48), a4 += x[i] * LOAD(w + 64), a5 += x[i] * LOAD(w + 80);
            a6 += x[i] * LOAD(w + 96), a7 += x[i] * LOAD(w + 112);
        }
        SAVE(y, a0), SAVE(y + 16, a1), SAVE(y + 32, a2), SAVE(y + 48, a3);
        SAVE(y + 64, a4), SAVE(y + 80, a5), SAVE(y + 96, a6), SAVE(y + 112, a7);
    }
    for (; start + 64 <= n; start += 64, b += 64, y += 64) {
        vec a0 = LOAD(b), a1 = LOAD(b + 16), a2 = LOAD(b + 32), a3 = LOAD(b + 48);
        for (i = 0; i < k; i++, w += 64) {
            a0 += x[i] * LOAD(w), a1 += x[i] * LOAD(w + 16);
            a2 += x[i] * LOAD(w + 32), a3 += x[i] * LOAD(w + 48);
        }
        SAVE(y, a0), SAVE(y + 16, a1), SAVE(y + 32, a2), SAVE(y + 48, a3);
    }
    for (; start + 16 <= n; start += 16, b += 16, y += 16) {
        /* Four sums: one alone would wait for itself. */
        vec a0 = LOAD(b), a1 = a0 - a0, a2 = a1, a3 = a1;
        for (i = 0; i + 4 <= k; i += 4, w += 64) {
            a0 += x[i] * LOAD(w), a1 += x[i + 1] * LOAD(w + 16);
            a2 += x[i + 2] * LOAD(w + 32), a3 += x[i + 3] * LOAD(w + 48);
        }
        for (; i < k; i++, w += 16) {
            a0 += x[i] * LOAD(w);
        }
        SAVE(y, (a0 + a1) + (a2 + a3));
    }
}

static float in[64], one[1024], two[1024], state[1024], both[1024];

/* The layers of an MLP, each of sizes[l + 1] columns padded to 16, from x; where its result lies. */
static inline __attribute__((always_inline)) const float *network(const float *x, const float *w,
    const float *b, const int *sizes, int layers, int act)
{
    float *y = one;
    for (int l = 0; l < layers; l++) {
        const int k = sizes[l], n = (sizes[l + 1] + 15) / 16 * 16;
        layer(x, w, b, y, k, n);
        for (int i = 0; l + 1 < layers && i < n; i += 16) {
            SAVE(y + i, act ? tanh_of(LOAD(y + i)) : elu_of(LOAD(y + i)));
        }
        w += k * n, b += n, x = y, y = y == one ? two : one;
    }
    return x;
}

/* sizes[0] inputs, then the width of each layer; w and b one layer after another. */
void mlp(const float *w, const float *b, const int *sizes, int layers, int act, int loops,
    const float *obs, const float *scale, const float *shift, float *out)
{
    for (int loop = 0; loop < loops; loop++) {
        for (int i = 0; i < sizes[0]; i += 16) {
            SAVE(in + i, clamped((LOAD(obs + i) + LOAD(shift + i)) * LOAD(scale + i), -10.0f, 10.0f));
        }
        memcpy(out, network(in, w, b, sizes, layers, act), 16 * sizeof(float));
    }
}

/* LSTM of `hidden` units over `k` inputs, then 256 - 128 - 12 with ELU; gates in the order i f g o. */
void lstm(const float *w, const float *b, int k, int hidden, int loops, const float *obs, float *out)
{
    float *const cell = state + 512;
    for (int loop = 0; loop < loops; loop++) {
        const float *weights = w, *bias = b;
        memcpy(both, obs, (size_t)k * sizeof(float));
        memcpy(both + k, state, (size_t)hidden * sizeof(float));
        layer(both, weights, bias, one, k + hidden, 4 * hidden);
        for (int i = 0; i < hidden; i += 16) {
            const vec fresh = sigmoid_of(LOAD(one + i)) * tanh_of(LOAD(one + 2 * hidden + i));
            const vec c = sigmoid_of(LOAD(one + hidden + i)) * LOAD(cell + i) + fresh;
            SAVE(cell + i, c);
            SAVE(state + i, sigmoid_of(LOAD(one + 3 * hidden + i)) * tanh_of(c));
        }
        weights += (k + hidden) * 4 * hidden, bias += 4 * hidden;
        layer(state, weights, bias, one, hidden, 128);
        for (int i = 0; i < 128; i += 16) {
            SAVE(one + i, elu_of(LOAD(one + i)));
        }
        layer(one, weights + hidden * 128, bias + 128, out, 128, 16);
    }
}

/* Blocks of 4 or 3 rows by 4 or 2 vectors, written out: gcc keeps no array of vectors in registers.
 * A number that is multiplied comes straight from memory, spread by the instruction itself. */
#if defined(__AVX512F__)
#define FMA(a, x, w) __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(a) : "v"(w), "m"(x))
#else
#define FMA(a, x, w) (a += (x) * (w))
#endif
#define COLUMN4(v) { const vec t = LOAD(w + 16 * v); FMA(a##v, p[0], t); FMA(b##v, p[row], t); \
    FMA(c##v, p[2 * row], t); FMA(d##v, p[3 * row], t); }
#define COLUMN3(v) { const vec t = LOAD(w + 16 * v); FMA(a##v, p[0], t); FMA(b##v, p[row], t); \
    FMA(c##v, p[2 * row], t); }
#define START(v) vec a##v = LOAD(bias + 16 * v), b##v = a##v, c##v = a##v, d##v = a##v;
#define PUT(r, s, v) SAVE(y + r * n + 16 * v, floor > 0.0f ? s##v : clamped(s##v, 0.0f, 3.0e38f));
#define PUT4(v) PUT(0, a, v) PUT(1, b, v) PUT(2, c, v) PUT(3, d, v)
#define PUT3(v) PUT(0, a, v) PUT(1, b, v) PUT(2, c, v) (void)d##v;
/* x is `runs` runs of `run` numbers, `line` apart, rows are `row` apart; ReLU where floor is 0. */
#define BLOCK(NAME, STARTS, STEP, PUTS) \
static inline void NAME(const float *x, const float *w, const float *bias, float *y, int runs, \
    int run, int line, int row, int width, int n, float floor) \
{ \
    STARTS \
    for (int r = 0; r < runs; r++, x += line) \
        for (const float *p = x; p < x + run; p++, w += width) { STEP } \
    PUTS \
}
#define EACH2(M) M(0) M(1)
#define EACH4(M) M(0) M(1) M(2) M(3)
BLOCK(block_4x2, EACH2(START), EACH2(COLUMN4), EACH2(PUT4))
BLOCK(block_4x4, EACH4(START), EACH4(COLUMN4), EACH4(PUT4))
BLOCK(block_3x4, EACH4(START), EACH4(COLUMN3), EACH4(PUT3))

static float image[84 * 84 * 4], first[20 * 20 * 32], second[9 * 9 * 64], third[7 * 7 * 64];

/* The three convolutions of Nature and two layers: channels last, ReLU behind each sum. */
void nature(const float *w, const float *b, int loops, const float *obs, float *out)
{
    for (int loop = 0; loop < loops; loop++) {
        const float *weights = w, *bias = b;
        for (int i = 0; i < 84 * 84; i++) {
            for (int c = 0; c < 4; c++) {
                image[4 * i + c] = obs[c * 84 * 84 + i];
            }
        }
        for (int y = 0; y < 20; y++) {
            for (int x = 0; x < 20; x += 4) {
                block_4x2(image + (y * 4 * 84 + x * 4) * 4, weights, bias,
                    first + (y * 20 + x) * 32, 8, 32, 84 * 4, 16, 32, 32, 0.0f);
            }
        }
        weights += 256 * 32, bias += 32;
        for (int y = 0; y < 9; y++) {
            for (int x = 0; x < 9; x += 3) {
                block_3x4(first + (y * 2 * 20 + x * 2) * 32, weights, bias,
                    second + (y * 9 + x) * 64, 4, 128, 20 * 32, 64, 64, 64, 0.0f);
            }
        }
        weights += 512 * 64, bias += 64;
        for (int y = 0; y < 7; y++) {
            const float *line = second + y * 9 * 64;
            block_4x4(line, weights, bias, third + y * 7 * 64, 3, 192, 9 * 64, 64, 64, 64, 0.0f);
            block_3x4(line + 256, weights, bias, third + (y * 7 + 4) * 64, 3, 192, 9 * 64, 64, 64, 64,
                0.0f);
        }
        weights += 576 * 64, bias += 64;
        layer(third, weights, bias, one, 3136, 512);
        for (int i = 0; i < 512; i += 16) {
            SAVE(one + i, clamped(LOAD(one + i), 0.0f, 3.0e38f));
        }
        layer(one, weights + 3136 * 512, bias + 512, out, 512, 16);
    }
}

/* y = b + x W for 8 rows of k: W in panels of 64 columns, blocks of 4 rows by 4 vectors. */
static inline void rows8(const float *x, const float *w, const float *b, float *y, int k, int n)
{
    for (int start = 0; start < n; start += 64, w += 64 * k) {
        block_4x4(x, w, b + start, y + start, 1, k, 0, k, 64, n, 1.0f);
        block_4x4(x + 4 * k, w, b + start, y + 4 * n + start, 1, k, 0, k, 64, n, 1.0f);
    }
}

static inline float sum_of(vec x)
{
    float total = 0.0f;
    for (int i = 0; i < 16; i++) {
        total += x[i];
    }
    return total;
}

/* x = normalised(x + y), 8 rows of 128. */
static inline void added(float *x, const float *y, const float *scale, const float *shift)
{
    for (int r = 0; r < 8; r++, x += 128, y += 128) {
        vec v[8], sum, square;
        float mean, root;
        for (int i = 0; i < 8; i++) {
            v[i] = LOAD(x + 16 * i) + LOAD(y + 16 * i);
        }
        sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
        mean = sum_of(sum) / 128.0f;
        square = sum - sum;
        for (int i = 0; i < 8; i++) {
            v[i] -= mean;
            square += v[i] * v[i];
        }
        root = 1.0f / __builtin_sqrtf(sum_of(square) / 128.0f + 1e-5f);
        for (int i = 0; i < 8; i++) {
            SAVE(x + 16 * i, v[i] * root * LOAD(scale + 16 * i) + LOAD(shift + 16 * i));
        }
    }
}

static float tokens[8 * 128], wide[8 * 384], mixed[8 * 128], turned[32 * 16];

/* Softmax over 8 keys: lanes 8 to 15 are none, and weigh nothing. */
static inline vec weighed(vec s)
{
    static const vec real = {1, 1, 1, 1, 1, 1, 1, 1};
    float most = s[0];
    vec e;
    for (int i = 1; i < 8; i++) {
        most = s[i] > most ? s[i] : most;
    }
    e = exp_of(s - most) * real;
    return e / sum_of(e);
}

/* Two layers over 8 tokens of 128, 4 heads, 256 hidden, ReLU, norms behind; then the last token's 12.
 * A layer's weights: in 128x384, out 128x128, 128x256, 256x128; its numbers: their biases, then scale
 * and shift of both norms. */
void transformer(const float *w, const float *b, int loops, const float *obs, float *out)
{
    for (int loop = 0; loop < loops; loop++) {
        const float *weights = w, *bias = b;
        memcpy(tokens, obs, sizeof tokens);
        for (int l = 0; l < 2; l++) {
            rows8(tokens, weights, bias, wide, 128, 384);
            for (int h = 0; h < 128; h += 32) {
                for (int i = 0; i < 32; i++) {
                    for (int j = 0; j < 8; j++) {
                        turned[16 * i + j] = wide[j * 384 + 128 + h + i];
                    }
                }
                for (int r = 0; r < 8; r++) {
                    const float *q = wide + r * 384 + h, *v = wide + 256 + h;
                    vec s0 = LOAD(turned) * q[0], s1 = LOAD(turned + 16) * q[1], p, m0, m1;
                    for (int i = 2; i < 32; i += 2) {
                        s0 += LOAD(turned + 16 * i) * q[i];
                        s1 += LOAD(turned + 16 * i + 16) * q[i + 1];
                    }
                    p = weighed((s0 + s1) * 0.17677669529663687f);
                    m0 = LOAD(v) * p[0], m1 = LOAD(v + 16) * p[0];
                    for (int j = 1; j < 8; j++) {
                        m0 += LOAD(v + j * 384) * p[j];
                        m1 += LOAD(v + j * 384 + 16) * p[j];
                    }
                    SAVE(mixed + r * 128 + h, m0), SAVE(mixed + r * 128 + h + 16, m1);
                }
            }
            weights += 128 * 384, bias += 384;
            rows8(mixed, weights, bias, wide, 128, 128);
            added(tokens, wide, bias + 512, bias + 640);
            weights += 128 * 128, bias += 128;
            rows8(tokens, weights, bias, wide, 128, 256);
            for (int i = 0; i < 8 * 256; i += 16) {
                SAVE(wide + i, clamped(LOAD(wide + i), 0.0f, 3.0e38f));
            }
            weights += 128 * 256, bias += 256;
            rows8(wide, weights, bias, mixed, 256, 128);
            added(tokens, mixed, bias + 384, bias + 512);
            weights += 256 * 128, bias += 128 + 4 * 128;
        }
        layer(tokens + 7 * 128, weights, bias, out, 128, 16);
    }
}

static float last[16], target[16], seen[64];
static int tick;

/* The environment of c_engines.py: 12 joints, decisions at every fourth tick, targets at each.
 * out: actions, observations, command, one behind the other; zeros where nothing was decided. */
void environment(const float *w, const float *b, const int *sizes, int layers, int loops,
    const float *given, float *out)
{
    const float *foo = given, *bar = given + 12, *baz = given + 24;
    for (int loop = 0; loop < loops; loop++) {
        if (tick == 0) {
            for (int i = 0; i < 12; i++) {
                const float both = bar[i] + 2.0f * baz[i];
                seen[i] = foo[i] * 2.0f - 1.0f;
                seen[12 + i] = both < -5.0f ? -5.0f : both > 5.0f ? 5.0f : both;
                seen[24 + i] = baz[i];
                seen[36 + i] = last[i];
            }
            const float *x = network(seen, w, b, sizes, layers, 0);
            memcpy(last, x, sizeof last);
            SAVE(target, LOAD(x) * 3.0f);
            memcpy(out, last, 12 * sizeof(float));
            memcpy(out + 12, seen, 48 * sizeof(float));
        } else {
            memset(out, 0, 60 * sizeof(float));
        }
        for (int i = 0; i < 12; i++) {
            out[60 + i] = target[i] + 2.0f - 0.1f * bar[i];
        }
        tick = (tick + 1) % 4;
    }
}

static float smooth[16];

static inline float within(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* v in the frame of a body whose orientation is q = (w, x, y, z). */
static inline void rotated_back(const float *q, const float *v, float *out)
{
    const float w = q[0], x = q[1], y = q[2], z = q[3];
    const float a = 2.0f * (y * v[2] - z * v[1]), b = 2.0f * (z * v[0] - x * v[2]);
    const float c = 2.0f * (x * v[1] - y * v[0]);
    out[0] = v[0] - w * a + (y * c - z * b);
    out[1] = v[1] - w * b + (z * a - x * c);
    out[2] = v[2] - w * c + (x * b - y * a);
}

/* sixty_operators.py: 48 observations from a pose, velocities, joints and a command; torques within limits.
 * out: actions, observations, target, torques. */
void walker(const float *w, const float *b, const int *sizes, int layers, int loops,
    const float *given, float *out)
{
    static const float down[3] = {0.0f, 0.0f, -1.0f};
    static const float start[12] = {
        0.1f, 0.8f, -1.5f, -0.1f, 0.8f, -1.5f, 0.1f, 1.0f, -1.5f, -0.1f, 1.0f, -1.5f,
    };
    const float *pose = given, *linear = given + 4, *angular = given + 7, *command = given + 10;
    const float *q = given + 13, *v = given + 25;
    float *goal = out + 60, *torques = out + 72;
    for (int loop = 0; loop < loops; loop++) {
        const float turn = 0.5f * atan2f(sinf(given[12]), cosf(given[12]));
        rotated_back(pose, linear, seen);
        rotated_back(pose, down, seen + 6);
        for (int i = 0; i < 3; i++) {
            seen[i] *= 2.0f;
            seen[3 + i] = 0.25f * angular[i];
        }
        seen[9] = 2.0f * command[0], seen[10] = 2.0f * command[1];
        seen[11] = 0.25f * within(turn, -1.0f, 1.0f);
        for (int i = 0; i < 12; i++) {
            smooth[i] = 0.8f * smooth[i] + 0.2f * v[i];
            seen[12 + i] = q[i] - start[i];
            seen[24 + i] = 0.05f * smooth[i];
            seen[36 + i] = last[i];
        }
        for (int i = 0; i < 48; i += 16) {
            SAVE(seen + i, clamped(LOAD(seen + i), -100.0f, 100.0f));
        }
        memcpy(last, network(seen, w, b, sizes, layers, 0), sizeof last);
        memcpy(out, last, 12 * sizeof(float));
        memcpy(out + 12, seen, 48 * sizeof(float));
        for (int i = 0; i < 12; i++) {
            const float wanted = start[i] + 0.25f * within(last[i], -10.0f, 10.0f);
            const float room = 33.5f * within(1.0f - fabsf(v[i]) / 30.0f, 0.0f, 1.0f);
            goal[i] = within(wanted, start[i] - 1.2f, start[i] + 1.2f);
            torques[i] = within(25.0f * (goal[i] - q[i]) - 0.5f * v[i], -room, room);
        }
    }
}

void forget(void)
{
    memset(state, 0, sizeof state);
    memset(last, 0, sizeof last);
    memset(target, 0, sizeof target);
    memset(smooth, 0, sizeof smooth);
    tick = 0;
}
