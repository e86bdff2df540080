/* What a person would write for one machine: vectors of its own, FMA, sizes known when compiled. */
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

/* sizes[0] inputs, then the width of each layer, padded to 16; w and b one layer after another. */
void mlp(const float *w, const float *b, const int *sizes, int layers, int act, int loops,
    const float *obs, const float *scale, const float *shift, float *out)
{
    for (int loop = 0; loop < loops; loop++) {
        const float *weights = w, *bias = b, *x = in;
        float *y = one;
        for (int i = 0; i < sizes[0]; i += 16) {
            SAVE(in + i, clamped((LOAD(obs + i) + LOAD(shift + i)) * LOAD(scale + i), -10.0f, 10.0f));
        }
        for (int l = 0; l < layers; l++) {
            const int k = sizes[l], n = (sizes[l + 1] + 15) / 16 * 16;
            layer(x, weights, bias, y, k, n);
            for (int i = 0; l + 1 < layers && i < n; i += 16) {
                SAVE(y + i, act ? tanh_of(LOAD(y + i)) : elu_of(LOAD(y + i)));
            }
            weights += k * n, bias += n, x = y, y = y == one ? two : one;
        }
        memcpy(out, x, 16 * sizeof(float));
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

void forget(void)
{
    memset(state, 0, sizeof state);
}
