// Mathematical functions that CUDA has and the C library lacks. They are computed in double (the
// float ones) or straightforwardly (the double ones): within CUDA's error bounds for float, a few
// units in the last place for double.
#pragma once

// Macros for names that a C library may one day declare.
#define exp10(x) lowgraph_exp10(x)
#define sincos(x, s, c) lowgraph_sincos(x, s, c)
#define sinpi(x) lowgraph_sinpi(x)
#define cospi(x) lowgraph_cospi(x)
#define sincospi(x, s, c) lowgraph_sincospi(x, s, c)
#define sincospif(x, s, c) lowgraph_sincospif(x, s, c)
#define rcbrt(x) lowgraph_rcbrt(x)
#define rhypotf(x, y) lowgraph_rhypotf(x, y)
#define rhypot(x, y) lowgraph_rhypot(x, y)

static inline double lowgraph_exp10(double x) { return pow(10.0, x); }
static inline void lowgraph_sincos(double x, double* s, double* c) {
    *s = (sin)(x);
    *c = (cos)(x);
}
static inline double lowgraph_sinpi(double x) {
    return sin(3.14159265358979323846 * remainder(x, 2.0));
}
static inline double lowgraph_cospi(double x) {
    return lowgraph_sinpi(0.5 - fabs(remainder(x, 2.0)));
}
static inline void lowgraph_sincospi(double x, double* s, double* c) {
    *s = lowgraph_sinpi(x);
    *c = lowgraph_cospi(x);
}
static inline void lowgraph_sincospif(float x, float* s, float* c) {
    *s = lowgraph_sinpif(x);
    *c = lowgraph_cospif(x);
}
static inline double lowgraph_rcbrt(double x) { return 1.0 / cbrt(x); }
static inline double lowgraph_rhypot(double x, double y) { return 1.0 / hypot(x, y); }
static inline float lowgraph_rhypotf(float x, float y) {
    return (float)(1.0 / hypot((double)x, (double)y));
}
static inline double fdivide(double x, double y) { return x / y; }
static inline float fdividef(float x, float y) { return x / y; }

// In place of the C library's own, by name: those write its variable signgam, and blocks of a launch
// that run on two threads would do so at once.
extern "C" __attribute__((visibility("hidden"))) double lgamma(double x) noexcept {
    int sign;
    return lgamma_r(x, &sign);
}
extern "C" __attribute__((visibility("hidden"))) float lgammaf(float x) noexcept {
    int sign;
    return lgammaf_r(x, &sign);
}

// ---- lengths of vectors ----
static inline double norm3d(double a, double b, double c) { return hypot(hypot(a, b), c); }
static inline double norm4d(double a, double b, double c, double d) {
    return hypot(hypot(a, b), hypot(c, d));
}
static inline double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
static inline double rnorm4d(double a, double b, double c, double d) {
    return 1.0 / norm4d(a, b, c, d);
}
static inline float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
static inline float norm4df(float a, float b, float c, float d) {
    return (float)norm4d(a, b, c, d);
}
static inline float rnorm3df(float a, float b, float c) { return (float)rnorm3d(a, b, c); }
static inline float rnorm4df(float a, float b, float c, float d) {
    return (float)rnorm4d(a, b, c, d);
}

// ---- the normal distribution and the error function ----
static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
// exp(x^2) erfc(x): by its continued fraction where erfc would underflow.
static inline double erfcx(double x) {
    if (x < 5.0) return exp(x * x) * erfc(x);
    double tail = 0.0;
    for (int k = 40; k > 0; --k) tail = 0.5 * k / (x + tail);
    return 0.56418958354775628695 / (x + tail);
}
static inline float erfcxf(float x) { return (float)erfcx((double)x); }
// The t >= 0 with erf(t) = y, for y >= 0 and z = 1 - y, of which the smaller is taken as exact:
// Winitzki's estimate, then Halley's steps.
static inline double lowgraph_inverse_erf(double y, double z) {
    if (z == 0.0) return __builtin_inf();
    if (!(z > 0.0)) return __builtin_nan("");
    const double log_part = log(z * (2.0 - z)), half = 4.3307467508 + 0.5 * log_part;
    double t = sqrt(sqrt(half * half - log_part / 0.147) - half);
    for (int step = 0; step < 4; ++step) {
        const double error = y < 0.5 ? erf(t) - y : z - erfc(t);
        const double move = error / (1.12837916709551257390 * exp(-t * t));
        t -= move / (1.0 + t * move);
    }
    return t;
}
static inline double erfinv(double y) {
    return copysign(lowgraph_inverse_erf(fabs(y), 1.0 - fabs(y)), y);
}
static inline double erfcinv(double z) {
    return z > 1.0 ? -lowgraph_inverse_erf(z - 1.0, 2.0 - z) : lowgraph_inverse_erf(1.0 - z, z);
}
static inline double normcdfinv(double p) { return -1.41421356237309504880 * erfcinv(2.0 * p); }
static inline float erfinvf(float y) { return (float)erfinv((double)y); }
static inline float erfcinvf(float z) { return (float)erfcinv((double)z); }
static inline float normcdfinvf(float p) { return (float)normcdfinv((double)p); }

// ---- the same names for float ----
static inline float lowgraph_rsqrt(float x) { return lowgraph_rsqrtf(x); }
static inline float lowgraph_exp10(float x) { return lowgraph_exp10f(x); }
static inline void lowgraph_sincos(float x, float* s, float* c) { lowgraph_sincosf(x, s, c); }
static inline float lowgraph_sinpi(float x) { return lowgraph_sinpif(x); }
static inline float lowgraph_cospi(float x) { return lowgraph_cospif(x); }
static inline void lowgraph_sincospi(float x, float* s, float* c) {
    lowgraph_sincospif(x, s, c);
}
static inline float lowgraph_rcbrt(float x) { return lowgraph_rcbrtf(x); }
static inline float lowgraph_rhypot(float x, float y) { return lowgraph_rhypotf(x, y); }
static inline float fdivide(float x, float y) { return x / y; }
static inline float normcdf(float x) { return normcdff(x); }
static inline float erfcx(float x) { return erfcxf(x); }
static inline float erfinv(float y) { return erfinvf(y); }
static inline float erfcinv(float z) { return erfcinvf(z); }
static inline float normcdfinv(float p) { return normcdfinvf(p); }
