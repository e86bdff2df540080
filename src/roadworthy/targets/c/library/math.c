/* Elementary functions in strict IEEE arithmetic, without tables, branches or calls: loops over
 * them vectorise. benchmarks/c_math.py tries each of them on all 2^32 floats.
 * What a policy uses is copied into policy.c; a function ends at the first brace in column 0. */

static inline float rw_bits_float(uint32_t bits)
{
    union { uint32_t bits; float value; } both;
    both.bits = bits;
    return both.value;
}

static inline uint32_t rw_float_bits(float value)
{
    union { uint32_t bits; float value; } both;
    both.value = value;
    return both.bits;
}

static inline double rw_bits_double(uint64_t bits)
{
    union { uint64_t bits; double value; } both;
    both.bits = bits;
    return both.value;
}

static inline uint64_t rw_double_bits(double value)
{
    union { uint64_t bits; double value; } both;
    both.value = value;
    return both.bits;
}

/* The whole number next to x / ln 2, as a float plus 1.5 * 2^23: its low bits are that number. */
static inline float rw_exp_shifted(float x)
{
    return x * 1.44269504f + 12582912.0f;
}

/* e^x = 2^n (1 + s): this is s, for n = shifted - 1.5 * 2^23. */
static inline float rw_exp_rest(float x, float shifted)
{
    float n = shifted - 12582912.0f;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float q = 1.9919921760447323e-4f;
    q = q * r + 1.3947212137281895e-3f;
    q = q * r + 8.333261124789715e-3f;
    q = q * r + 4.166625440120697e-2f;
    q = q * r + 1.666666716337204e-1f;
    q = q * r + 0.5f;
    return r + (r * r) * q;
}

/* 2^n for n = shifted - 1.5 * 2^23, from -126 to 127. */
static inline float rw_exp_scale(float shifted)
{
    return rw_bits_float((rw_float_bits(shifted) << 23) + 0x3f800000u);
}

/* (1 + s) 2^n for n = shifted - 1.5 * 2^23, below -126 too: 2^n in two steps. */
static inline float rw_exp_grown(float s, float shifted)
{
    float half = (float)(int32_t)(rw_float_bits(shifted) - 0x4b400000u) * 0.5f + 12582912.0f;
    float other = (shifted - half) + 12582912.0f;
    return ((1.0f + s) * rw_exp_scale(half)) * rw_exp_scale(other);
}

static inline float rw_exp(float x)
{
    float inside = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    float shifted = rw_exp_shifted(inside);
    return rw_exp_grown(rw_exp_rest(inside, shifted), shifted);
}

static inline float rw_expm1(float x)
{
    float inside = x < -18.0f ? -18.0f : x > 88.0f ? 88.0f : x;
    float shifted = rw_exp_shifted(inside);
    float scale = rw_exp_scale(shifted);
    return scale * rw_exp_rest(inside, shifted) + (scale - 1.0f);
}

static inline float rw_elu(float x, float alpha)
{
    float low = alpha * rw_expm1(x < 0.0f ? x : 0.0f);
    return x < 0.0f ? low : x;
}

static inline float rw_tanh(float x)
{
    float a = fabsf(x);
    float u = x * x;
    float p = 2.0977212116122246e-3f;
    float twice = a > 10.0f ? 20.0f : a + a;
    float shifted = rw_exp_shifted(twice);
    float scale = rw_exp_scale(shifted);
    float grown = scale * rw_exp_rest(twice, shifted) + (scale + 1.0f);
    float large = 1.0f - 2.0f / grown;
    p = p * u - 8.129000663757324e-3f;
    p = p * u + 2.1681642159819603e-2f;
    p = p * u - 5.394339933991432e-2f;
    p = p * u + 1.333318054676056e-1f;
    p = p * u - 3.333333134651184e-1f;
    return copysignf(a < 0.625f ? a + a * (u * p) : large, x);
}

static inline float rw_sigmoid(float x)
{
    float a = fabsf(x);
    float inside = a > 104.0f ? 104.0f : a;
    float shifted = rw_exp_shifted(-inside);
    float s = rw_exp_rest(-inside, shifted);
    float scale = rw_exp_scale(shifted);
    float part = scale * s;
    /* e^-a and 1 + e^-a, each as a sum of two floats: the quotient is then right to about an ulp. */
    float high = scale + part;
    float low = (scale - high) + part;
    float whole = 1.0f + high;
    float rest = ((1.0f - whole) + high) + low;
    float top = x < 0.0f ? high : 1.0f;
    float top_rest = x < 0.0f ? low : 0.0f;
    float quotient = top / whole;
    float right = quotient + (top_rest - quotient * rest) / whole;
    return a > 87.0f ? (x < 0.0f ? rw_exp_grown(s, shifted) : 1.0f) : right;
}

/* e^x = 2^n (1 + rest) for |x| up to 690: this is rest, and 2^n in `scale`. */
static inline double rw_exp_parts(double x, double *scale)
{
    double shifted = x * 1.4426950408889634 + 6755399441055744.0;
    double n = shifted - 6755399441055744.0;
    double r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
    double q = 1.0 / 6227020800.0;
    q = q * r + 1.0 / 479001600.0;
    q = q * r + 1.0 / 39916800.0;
    q = q * r + 1.0 / 3628800.0;
    q = q * r + 1.0 / 362880.0;
    q = q * r + 1.0 / 40320.0;
    q = q * r + 1.0 / 5040.0;
    q = q * r + 1.0 / 720.0;
    q = q * r + 1.0 / 120.0;
    q = q * r + 1.0 / 24.0;
    q = q * r + 1.0 / 6.0;
    q = q * r + 0.5;
    *scale = rw_bits_double((rw_double_bits(shifted) << 52) + 0x3ff0000000000000u);
    return r + (r * r) * q;
}

static inline double rw_exp_double(double x)
{
    double scale, rest = rw_exp_parts(x < -690.0 ? -690.0 : x > 690.0 ? 690.0 : x, &scale);
    return scale * (1.0 + rest);
}

static inline double rw_expm1_double(double x)
{
    double scale, rest = rw_exp_parts(x < -690.0 ? -690.0 : x > 690.0 ? 690.0 : x, &scale);
    return scale * rest + (scale - 1.0);
}

static inline double rw_log_double(double x)
{
    uint64_t bits = rw_double_bits(x);
    uint64_t moved = bits - 0x3fe6a09e667f3bcdu;
    double n = (double)(int32_t)((int64_t)moved >> 52);
    double m = rw_bits_double((moved & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double f = (m - 1.0) / (m + 1.0);
    double u = f * f;
    double p = 0.0654682526209194;
    p = p * u + 0.06634049892448765;
    p = p * u + 0.07693132454274587;
    p = p * u + 0.09090897587783155;
    p = p * u + 0.11111111198036178;
    p = p * u + 0.1428571428539217;
    p = p * u + 0.20000000000000454;
    p = p * u + 0.3333333333333333;
    return n * 0.6931471805599453 + 2.0 * (f + f * (u * p));
}

static inline float rw_log(float x)
{
    float right = (float)rw_log_double((double)(x > 0.0f ? x : 1.0f));
    right = x > 3.4028234e38f ? x : right;
    right = x == 0.0f ? -HUGE_VALF : right;
    return x < 0.0f || x != x ? rw_bits_float(0x7fc00000u) : right;
}

static inline float rw_softplus(float x)
{
    float a = fabsf(x);
    double e = rw_exp_double(-(double)(a > 110.0f ? 110.0f : a));
    double f = e / (2.0 + e);
    double near = f < 0.17157287525380988 ? 0.0 : 0.6931471805599453;
    /* log(1 + e) = log 2 + log((1 + e) / 2) where e is near 1: the series has u below 0.0295. */
    double g = f < 0.17157287525380988 ? f : (e - 1.0) / (e + 3.0);
    double u = g * g;
    double p = 0.0654682526209194;
    p = p * u + 0.06634049892448765;
    p = p * u + 0.07693132454274587;
    p = p * u + 0.09090897587783155;
    p = p * u + 0.11111111198036178;
    p = p * u + 0.1428571428539217;
    p = p * u + 0.20000000000000454;
    p = p * u + 0.3333333333333333;
    p = near + 2.0 * (g + g * (u * p));
    p = p + (double)(x > 0.0f ? x : 0.0f);
    return x != x ? x : (float)p;
}

static inline float rw_erf(float x)
{
    float a = fabsf(x);
    double y = (double)(a > 4.0f ? 4.0f : a);
    double v = (y * y - 8.0) * 0.125;
    double p = 1.4883137738024427e-06;
    p = p * v - 4.586436654384096e-06;
    p = p * v + 5.069598611100321e-06;
    p = p * v - 1.2635295810882527e-05;
    p = p * v + 5.0516480984461565e-05;
    p = p * v - 0.00012649419013464726;
    p = p * v + 0.0002730868781407246;
    p = p * v - 0.0006048631720031436;
    p = p * v + 0.0012940700205056187;
    p = p * v - 0.0025830290325423205;
    p = p * v + 0.004852986669306072;
    p = p * v - 0.008604359881842768;
    p = p * v + 0.01434973873577006;
    p = p * v - 0.02247402944863727;
    p = p * v + 0.033060611596419896;
    p = p * v - 0.04576504084136504;
    p = p * v + 0.05988690674393009;
    p = p * v - 0.07472787156784315;
    p = p * v + 0.09020899404424358;
    p = p * v - 0.10771044230403215;
    p = p * v + 0.13167511689547207;
    p = p * v - 0.17657623330392602;
    p = p * v + 0.35353099564340495;
    return x != x ? x : a >= 4.0f ? copysignf(1.0f, x) : copysignf((float)(y * p), x);
}

static inline double rw_sin_part(double r)
{
    double u = r * r;
    double p = 1.5912461499839467e-10;
    p = p * u - 2.505105158684691e-08;
    p = p * u + 2.7557315709635293e-06;
    p = p * u - 0.00019841269835985584;
    p = p * u + 0.008333333333330428;
    p = p * u - 0.16666666666666663;
    return r + r * (u * p);
}

static inline double rw_cos_part(double r)
{
    double u = r * r;
    double p = -1.1379086634729478e-11;
    p = p * u + 2.0876096058995368e-09;
    p = p * u - 2.755731702592346e-07;
    p = p * u + 2.4801587298282115e-05;
    p = p * u - 0.001388888888888707;
    p = p * u + 0.041666666666666664;
    return (1.0 - 0.5 * u) + (u * u) * p;
}

/* x less a multiple of pi / 2, and in which quarter of a turn that is: for any finite float.
 * Beyond 10^5 the bits of 2 / pi that matter are multiplied by the 24 of x. */
static double rw_quarter(float x, uint32_t *quarter)
{
    static const uint32_t two_over_pi[8] = {
        0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
        0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu
    };
    double n;
    if (fabsf(x) < 1e5f) {
        n = rint((double)x * 0.6366197723675814);
        *quarter = (uint32_t)(int32_t)n & 3u;
        return ((double)x - n * 1.5707963267341256) - n * 6.077100506506192e-11;
    }
    {
        uint32_t bits = rw_float_bits(x);
        uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
        /* From the first bit of 2 / pi that is worth less than 4 here: 64 bits, and 32 more. */
        uint32_t from = ((bits >> 23) & 255u) - 120u;
        const uint32_t *words = two_over_pi + (from >> 5);
        uint32_t left = from & 31u;
        uint64_t first = ((uint64_t)words[0] << 32) | words[1];
        uint64_t second = ((uint64_t)words[2] << 32) | words[3];
        uint64_t high = left ? (first << left) | (second >> (64u - left)) : first;
        uint64_t low = (second << left) >> 32;
        uint64_t product = mantissa * high + ((mantissa * low) >> 32);
        *quarter = (uint32_t)((product + 0x2000000000000000u) >> 62) & 3u;
        n = (double)(int64_t)(product << 2) * 8.515303950216386e-20;
        if (x < 0.0f) {
            *quarter = (0u - *quarter) & 3u;
            n = -n;
        }
        return n;
    }
}

static inline float rw_sin(float x)
{
    uint32_t quarter;
    double r, s;
    if (!(fabsf(x) <= 3.4028234e38f)) {
        return rw_bits_float(0x7fc00000u);
    }
    if (fabsf(x) < 1e-5f) {
        return x;
    }
    r = rw_quarter(x, &quarter);
    s = quarter & 1u ? rw_cos_part(r) : rw_sin_part(r);
    return (float)(quarter & 2u ? -s : s);
}

static inline float rw_cos(float x)
{
    uint32_t quarter;
    double r, s;
    if (!(fabsf(x) <= 3.4028234e38f)) {
        return rw_bits_float(0x7fc00000u);
    }
    r = rw_quarter(x, &quarter);
    s = quarter & 1u ? -rw_sin_part(r) : rw_cos_part(r);
    return (float)(quarter & 2u ? -s : s);
}

static inline float rw_tan(float x)
{
    uint32_t quarter;
    double r;
    if (!(fabsf(x) <= 3.4028234e38f)) {
        return rw_bits_float(0x7fc00000u);
    }
    if (fabsf(x) < 1e-5f) {
        return x;
    }
    r = rw_quarter(x, &quarter);
    return (float)(quarter & 1u ? -(rw_cos_part(r) / rw_sin_part(r)) : rw_sin_part(r) / rw_cos_part(r));
}

static inline double rw_atan_double(double a)
{
    /* From 0 on: 1 / a, then (a - 1) / (a + 1), until the series has at most tan(pi / 8). */
    double b = a > 1.0 ? 1.0 / a : a;
    double t = b > 0.41421356237309503 ? (b - 1.0) / (b + 1.0) : b;
    double u = t * t;
    double p = -0.025466326454276805;
    p = p * u + 0.050369518398318075;
    p = p * u - 0.0651014285709353;
    p = p * u + 0.07674308232889887;
    p = p * u - 0.09089614776340335;
    p = p * u + 0.11111054436279394;
    p = p * u - 0.14285712875135778;
    p = p * u + 0.19999999982739364;
    p = p * u - 0.3333333333326052;
    p = t + t * (u * p);
    p = b > 0.41421356237309503 ? 0.7853981633974483 + p : p;
    return a > 1.0 ? 1.5707963267948966 - p : p;
}

static inline float rw_atan(float x)
{
    float right = copysignf((float)rw_atan_double((double)fabsf(x)), x);
    return x != x ? x : right;
}

static inline float rw_atan2(float y, float x)
{
    double a = fabs((double)y), b = fabs((double)x);
    double right = a == b ? (a == 0.0 ? 0.0 : 0.7853981633974483) : rw_atan_double(a / b);
    right = copysign(1.0, (double)x) < 0.0 ? 3.141592653589793 - right : right;
    return x != x || y != y ? x + y : copysignf((float)right, y);
}

static inline double rw_asin_double(double a)
{
    double half = a > 0.5 ? (1.0 - a) * 0.5 : a * a;
    double t = a > 0.5 ? sqrt(half) : a;
    double p = 0.02788784446995497;
    p = p * half - 0.006841641283170432;
    p = p * half + 0.0154549617276595;
    p = p * half + 0.010286921772543868;
    p = p * half + 0.01414139468157582;
    p = p * half + 0.017337146075635457;
    p = p * half + 0.022373012954292382;
    p = p * half + 0.03038191738295057;
    p = p * half + 0.044642857580550685;
    p = p * half + 0.0749999999972504;
    p = p * half + 0.16666666666666952;
    p = t + t * (half * p);
    return a > 0.5 ? 1.5707963267948966 - 2.0 * p : p;
}

static inline float rw_asin(float x)
{
    float a = fabsf(x);
    float right = copysignf((float)rw_asin_double((double)(a > 1.0f ? 1.0f : a)), x);
    return a <= 1.0f ? right : rw_bits_float(0x7fc00000u);
}

static inline float rw_acos(float x)
{
    float a = fabsf(x);
    double side = rw_asin_double((double)(a > 1.0f ? 1.0f : a));
    float right = (float)(1.5707963267948966 - (x < 0.0f ? -side : side));
    return a <= 1.0f ? right : rw_bits_float(0x7fc00000u);
}

static inline float rw_sinh(float x)
{
    double a = (double)fabsf(x);
    double e = rw_exp_double(a > 100.0 ? 100.0 : a);
    float wide = (float)(0.5 * e - 0.5 / e);
    double u = a * a;
    float small = (float)(a + a * u * (1.0 / 6.0 + u * (1.0 / 120.0 + u * (1.0 / 5040.0 + u * (1.0 / 362880.0)))));
    return x != x ? x : copysignf(a < 0.5 ? small : wide, x);
}

static inline float rw_cosh(float x)
{
    double a = (double)fabsf(x);
    double e = rw_exp_double(a > 100.0 ? 100.0 : a);
    return x != x ? x : (float)(0.5 * e + 0.5 / e);
}

static inline float rw_asinh(float x)
{
    double a = (double)fabsf(x);
    double wide = rw_log_double(a + sqrt(a * a + 1.0));
    float right = (float)(a < 1e-4 ? a - a * a * a / 6.0 : wide);
    return a > 3.5e38 || x != x ? x : copysignf(right, x);
}

static inline float rw_acosh(float x)
{
    double a = x >= 1.0f ? (double)x : 1.0;
    float right = (float)rw_log_double(a + sqrt((a - 1.0) * (a + 1.0)));
    right = x > 3.4028234e38f ? x : right;
    return x >= 1.0f ? right : rw_bits_float(0x7fc00000u);
}

static inline float rw_atanh(float x)
{
    double a = (double)fabsf(x), b = a < 1.0 ? a : 0.0;
    double wide = 0.5 * rw_log_double((1.0 + b) / (1.0 - b));
    float right = (float)(b < 1e-4 ? b + b * b * b / 3.0 : wide);
    right = a == 1.0 ? HUGE_VALF : right;
    return a > 1.0 || x != x ? rw_bits_float(0x7fc00000u) : copysignf(right, x);
}

/* Through doubles: exact enough for floats. A whole exponent keeps the sign of a negative base. */
static inline float rw_pow(float x, float y)
{
    return (float)pow((double)x, (double)y);
}

/* The second of equals, as PyTorch has it. */
static inline float rw_max(float a, float b)
{
    return a > b || a != a ? a : b;
}

static inline float rw_min(float a, float b)
{
    return a < b || a != a ? a : b;
}

static inline float rw_relu(float x)
{
    return x < 0.0f ? 0.0f : x;
}

static inline float rw_leaky(float x, float slope)
{
    return x < 0.0f ? x * slope : x;
}

static inline float rw_sign(float x)
{
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x + 0.0f;
}

static inline float rw_mod(float a, float b)
{
    float rest = fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

static inline double rw_d_exp(double x)
{
    return fabs(x) < 690.0 ? rw_exp_double(x) : exp(x);
}

static inline double rw_d_log(double x)
{
    return log(x);
}

static inline double rw_d_tanh(double x)
{
    double e = rw_expm1_double(2.0 * fabs(x));
    return x != x ? x : copysign(fabs(x) > 22.0 ? 1.0 : e / (e + 2.0), x);
}

static inline double rw_d_erf(double x)
{
    return erf(x);
}

static inline double rw_d_sigmoid(double x)
{
    double e = rw_d_exp(-fabs(x));
    return x < 0.0 ? e / (1.0 + e) : 1.0 / (1.0 + e);
}

static inline double rw_d_softplus(double x)
{
    return x != x ? x : (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

static inline double rw_d_sin(double x)
{
    return sin(x);
}

static inline double rw_d_cos(double x)
{
    return cos(x);
}

static inline double rw_d_tan(double x)
{
    return tan(x);
}

static inline double rw_d_atan(double x)
{
    return atan(x);
}

static inline double rw_d_asin(double x)
{
    return asin(x);
}

static inline double rw_d_acos(double x)
{
    return acos(x);
}

static inline double rw_d_sinh(double x)
{
    return sinh(x);
}

static inline double rw_d_cosh(double x)
{
    return cosh(x);
}

static inline double rw_d_asinh(double x)
{
    return asinh(x);
}

static inline double rw_d_acosh(double x)
{
    return acosh(x);
}

static inline double rw_d_atanh(double x)
{
    return atanh(x);
}

static inline double rw_d_pow(double x, double y)
{
    return pow(x, y);
}

static inline double rw_d_elu(double x, double alpha)
{
    return x > 0.0 || x != x ? x : alpha * rw_expm1_double(x);
}

static inline double rw_d_max(double a, double b)
{
    return a > b || a != a ? a : b;
}

static inline double rw_d_min(double a, double b)
{
    return a < b || a != a ? a : b;
}

static inline double rw_d_relu(double x)
{
    return x < 0.0 ? 0.0 : x;
}

static inline double rw_d_leaky(double x, double slope)
{
    return x < 0.0 ? x * slope : x;
}

static inline double rw_d_sign(double x)
{
    return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x + 0.0;
}

static inline double rw_d_mod(double a, double b)
{
    double rest = fmod(a, b);
    return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

/* A half float, as its bits, and the float that it stands for. */
static inline float rw_from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t rest = half & 0x7fffu;
    uint32_t bits = (rest << 13) + 0x38000000u;
    float small = (float)(int32_t)rest * 5.9604644775390625e-8f;
    bits = rest >= 0x7c00u ? bits + 0x38000000u : bits;
    bits = rest < 0x400u ? rw_float_bits(small) : bits;
    return rw_bits_float(bits | sign);
}

/* The half float next to a float, ties to even. */
static inline uint16_t rw_to_half(float value)
{
    uint32_t bits = rw_float_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t rest = bits & 0x7fffffffu;
    uint32_t usual = (rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13;
    uint32_t small = rw_float_bits(rw_bits_float(rest) + 0.5f) - 0x3f000000u;
    uint32_t half = rest < 0x38800000u ? small : usual;
    half = rest >= 0x477ff000u ? 0x7c00u : half;
    half = rest > 0x7f800000u ? 0x7e00u : half;
    return (uint16_t)(half | sign);
}

static inline float rw_half(float value)
{
    return rw_from_half(rw_to_half(value));
}
