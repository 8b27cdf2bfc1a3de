// Mathematical functions and intrinsics. Launch: one thread an element; each row of a result is one
// function of all n elements.

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return

// y: [22, n], x: [n] positive, z: [n] of both signs.
template <class T>
__device__ void common_functions(T* y, const T* x, const T* z, int n) {
    INDEX;
    T p = x[i], q = z[i], s, c;
    sincos(q, &s, &c);
    T rows[22] = {exp(q), log(p), sqrt(p), tanh(q), erf(q), pow(p, q), s, c, atan2(q, p), cbrt(q),
                  log1p(p), expm1(q), fmod(q, p), floor(q), round(q), hypot(p, q), exp2(q), log2(p),
                  fma(p, q, p), fmax(p, q), lgamma(p), abs(q)};
    for (int k = 0; k < 22; k++) y[k * n + i] = rows[k];
}
extern "C" __global__ void functions_float(float* y, const float* x, const float* z, int n) {
    common_functions(y, x, z, n);
}
extern "C" __global__ void functions_double(double* y, const double* x, const double* z, int n) {
    common_functions(y, x, z, n);
}

// Four ways to say it. y: [4, n], x: [n].
extern "C" __global__ void log_gamma(double* y, const double* x, int n) {
    INDEX;
    y[i] = lgamma(x[i]);
    y[n + i] = lgamma((float)x[i]);
    y[2 * n + i] = lgammaf((float)x[i]);
    y[3 * n + i] = ::lgamma(x[i]);
}

// What only CUDA has. y: [18, n] of doubles; x positive, z of both signs, u in (0, 1).
extern "C" __global__ void cuda_functions(double* y, const double* x, const double* z, const double* u, int n) {
    INDEX;
    double p = x[i], q = z[i], s, c;
    sincospi(q, &s, &c);
    double rows[18] = {rsqrt(p), exp10(q), sinpi(q), cospi(q), s, c, rcbrt(p), rhypot(p, q),
                       normcdf(q), normcdfinv(u[i]), erfinv(2 * u[i] - 1), erfcinv(2 * u[i]),
                       erfcx(q), norm3d(p, q, p), rnorm4d(p, q, p, q), erfcx(10 * p),
                       (double)normcdfinvf((float)u[i]), (double)erfcinvf((float)(2 * u[i]))};
    for (int k = 0; k < 18; k++) y[k * n + i] = rows[k];
}

// Fast and float forms. y: [20, n]; x positive, z of both signs.
extern "C" __global__ void fast_functions(float* y, const float* x, const float* z, int n) {
    INDEX;
    float p = x[i], q = z[i], s, c;
    __sincosf(q, &s, &c);
    float rows[20] = {__expf(q), __logf(p), __fdividef(q, p), rsqrtf(p), __frcp_rn(p),
                      __powf(p, q), s, c, __exp10f(q), __log2f(p), __tanf(q), __saturatef(q),
                      __frsqrt_rn(p), sinpif(q), cospif(q), normcdff(q), exp10f(q), rcbrtf(p),
                      __log10f(p), fdividef(q, p)};
    for (int k = 0; k < 20; k++) y[k * n + i] = rows[k];
}

// Rounding in the name. f: [16, n] add, mul, div, sqrt by _rn, _rz, _ru, _rd; d: the same, doubles.
extern "C" __global__ void directed(float* f, double* d, const float* x, const float* z, int n) {
    INDEX;
    float p = x[i], q = z[i];
    float rows[16] = {__fadd_rn(p, q), __fadd_rz(p, q), __fadd_ru(p, q), __fadd_rd(p, q),
                      __fmul_rn(p, q), __fmul_rz(p, q), __fmul_ru(p, q), __fmul_rd(p, q),
                      __fdiv_rn(q, p), __fdiv_rz(q, p), __fdiv_ru(q, p), __fdiv_rd(q, p),
                      __fsqrt_rn(p), __fsqrt_rz(p), __fsqrt_ru(p), __fsqrt_rd(p)};
    double a = (double)p, b = (double)q / 3;
    double wide[16] = {__dadd_rn(a, b), __dadd_rz(a, b), __dadd_ru(a, b), __dadd_rd(a, b),
                       __dmul_rn(a, b), __dmul_rz(a, b), __dmul_ru(a, b), __dmul_rd(a, b),
                       __ddiv_rn(b, a), __ddiv_rz(b, a), __ddiv_ru(b, a), __ddiv_rd(b, a),
                       __dsqrt_rn(a), __dsqrt_rz(a), __dsqrt_ru(a), __dsqrt_rd(a)};
    for (int k = 0; k < 16; k++) f[k * n + i] = rows[k];
    for (int k = 0; k < 16; k++) d[k * n + i] = wide[k];
}

// Fused and not: y [3, n] = fmaf(x, x, -c), __fmaf_rz the same, __fadd_rn(__fmul_rn(x, x), -c).
extern "C" __global__ void fused(float* y, const float* x, const float* c, int n) {
    INDEX;
    y[i] = fmaf(x[i], x[i], -c[i]);
    y[n + i] = __fmaf_rz(x[i], x[i], -c[i]);
    y[2 * n + i] = __fadd_rn(__fmul_rn(x[i], x[i]), -c[i]);
}

// Conversions of double x: y [16, n] as 64-bit integers: int, unsigned, long long and unsigned long
// long by _rn, _rz, _ru, _rd; z [4, n] = the float nearest, towards zero, up, down.
extern "C" __global__ void conversions(long long* y, float* z, const double* x, int n) {
    INDEX;
    double v = x[i];
    long long rows[16] = {
        __double2int_rn(v), __double2int_rz(v), __double2int_ru(v), __double2int_rd(v),
        __double2uint_rn(v), __double2uint_rz(v), __double2uint_ru(v), __double2uint_rd(v),
        __double2ll_rn(v), __double2ll_rz(v), __double2ll_ru(v), __double2ll_rd(v),
        (long long)__double2ull_rn(v), (long long)__double2ull_rz(v),
        (long long)__double2ull_ru(v), (long long)__double2ull_rd(v)};
    for (int k = 0; k < 16; k++) y[k * n + i] = rows[k];
    z[i] = __double2float_rn(v);
    z[n + i] = __double2float_rz(v);
    z[2 * n + i] = __double2float_ru(v);
    z[3 * n + i] = __double2float_rd(v);
}

// y: [8, n] = float x to int by _rn, _rz, _ru, _rd, then to unsigned; w: [8, n] = 64-bit integers
// j to float by the four, then to double.
extern "C" __global__ void more_conversions(long long* y, double* w, const float* x, const long long* j, int n) {
    INDEX;
    float v = x[i];
    long long rows[8] = {__float2int_rn(v), __float2int_rz(v), __float2int_ru(v), __float2int_rd(v),
                         __float2uint_rn(v), __float2uint_rz(v), __float2uint_ru(v), __float2uint_rd(v)};
    double back[8] = {__ll2float_rn(j[i]), __ll2float_rz(j[i]), __ll2float_ru(j[i]), __ll2float_rd(j[i]),
                      __ll2double_rn(j[i]), __ll2double_rz(j[i]), __ll2double_ru(j[i]), __ll2double_rd(j[i])};
    for (int k = 0; k < 8; k++) y[k * n + i] = rows[k];
    for (int k = 0; k < 8; k++) w[k * n + i] = back[k];
}
