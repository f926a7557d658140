// Steps x_n = M_n x_{n-1} + F_n b_n by the formulas of a scheme, and the gradients of stiffness A, timestep
// h and damping G from those of M_n and F_n.
//
// The formulas are those of src/linoss/dynamics, where they are derived; here A, h and G are vectors
// of doubles. A model keeps A >= G^2 / 4: overdamped oscillators are not supported here.
#pragma once

#ifndef LINOSS_ISA
#include <algorithm>
#include <iterator>
#include <string_view>
#endif

namespace linoss {

// What gives the steps: one constant step of kStepRows rows; a scheme with rows A, timestep, G and the
// longest step that is taken, or, if there are no intervals, one constant step of any length; or, for states
// that are no oscillators but pairs, each with a force of its own and each read, x_j <- own x_j + other x_k +
// b_j, one constant step of rows own and other. The partners of the first half of the states are the second
// half.
enum class Scheme { constant, im, imex, verlet, exact, pairs, unknown };
constexpr int kSchemeRows = 4, kPairRows = 2;

constexpr bool varies(Scheme s) { return s != Scheme::constant && s != Scheme::pairs; }
constexpr int64_t step_rows(Scheme s) {
  return varies(s) ? kSchemeRows : s == Scheme::pairs ? kPairRows : kStepRows;
}

#ifndef LINOSS_ISA
// Selected by its name in Python, empty for a constant step.
inline Scheme scheme_of(std::string_view name) {
  constexpr std::string_view kNames[] = {"", "im", "imex", "verlet", "exact", "pairs"};
  return static_cast<Scheme>(std::find(std::begin(kNames), std::end(kNames), name) - kNames);
}
#endif

}  // namespace linoss

#ifdef LINOSS_ISA

#include "recurrence.h"

namespace linoss {
namespace {

inline vd lower(vd a, vd b) { return a < b ? a : b; }
inline bool any(vl mask) {
#pragma GCC unroll 4
  for (int half = D / 2; half > 0; half /= 2) {
    vl other;
#ifdef __clang__  // which has no such function
    for (int i = 0; i < D; ++i) other[i] = mask[(i + half) % D];
    mask |= other;
#else
    for (int i = 0; i < D; ++i) other[i] = (i + half) % D;
    mask |= __builtin_shuffle(mask, other);
#endif
  }
  return mask[0];
}
inline vd root(vd x) {
  vd y;
  for (int i = 0; i < D; ++i) y[i] = __builtin_sqrt(x[i]);
  return y;
}

// A rule is constructed from A and G of D oscillators. For a sample it computes the terms of steps of
// length h, and from these the step, or the gradients of A, h and G from its gradient d.
struct Pull {
  vd A, h, G;
};

// F, the response to a unit force from rest, and its derivatives.
struct Response {
  vd z, y, z_A, z_h, z_G, y_A, y_h, y_G;
};

// Schemes whose M follows from F: [[1 - A F_y - G F_z, -A F_z], [F_z, 1 - A F_y]]; if the force is
// explicit, zz has no A F_y.
template <bool kExplicit>
struct FromResponse {
  vd A, G;
  using Sample = Response;
  Step step(const Response& f) const {
    const vd yy = 1 - A * f.y, zz = (kExplicit ? wide(1) : yy) - G * f.z;
    return {zz, -A * f.z, f.z, yy, f.z, f.y};
  }
  Pull pull(const Response& f, const Step& d) const {
    const vd d_stiff = kExplicit ? d.yy : d.zz + d.yy;
    const vd dz = d.fz + d.yz - A * d.zy - G * d.zz, dy = d.fy - A * d_stiff;
    return {dz * f.z_A + dy * f.y_A - f.y * d_stiff - f.z * d.zy, dz * f.z_h + dy * f.y_h,
            dz * f.z_G + dy * f.y_G - f.z * d.zz};
  }
};

struct Im : FromResponse<false> {
  Im(vd A, vd G) : FromResponse{A, G} {}
  Response at(vd h) const {
    const vd S = 1 / (1 + h * (G + h * A)), z = h * S, y = h * z, slope = z * (G + 2 * h * A);
    return {z, y, -z * y, S - S * slope, -z * z, -y * y, z * (2 - slope), -z * y};
  }
};

struct Imex : FromResponse<true> {
  Imex(vd A, vd G) : FromResponse{A, G} {}
  Response at(vd h) const {
    const vd S = 1 / (1 + h * G), z = h * S, y = h * z;
    return {z, y, vd{}, S * S, -z * z, vd{}, z * (1 + S), -z * y};
  }
};

// With E = e^{-a h}, c = cos(omega h), s = sin(omega h) / omega, a = G / 2, omega^2 = A - a^2:
// F = [E s, (1 - E (c + a s)) / A]. For small h^2 A, by its series.
struct Exact : FromResponse<false> {
  vd a, omega, per_omega, per_A;
  Exact(vd A, vd G) : FromResponse{A, G}, a(G / 2) {
    const vd square = A - a * a;
    omega = root(square > wide(1e-30) ? square : wide(1e-30));
    per_omega = 1 / omega, per_A = A > vd{} ? 1 / A : vd{};
  }
  Response at(vd h) const {
    const vd scaled = h * h * A, angle = lower(omega * h, wide(1e9)), x = angle * angle;
    vd sine, c;
    rotation(angle * wide(0.15915494309189535), c, sine);
    const vd E = exponential(-a * h), s = sine * per_omega;
    const vd bent = x < wide(1e-3) ? h * h * h * (-1. / 6 + x * (1. / 60 - x / 1680))
                                   : (h * c - s) / 2 * per_omega * per_omega;  // ds / d omega^2
    const vd p = E * (c + a * s);
    Response f;
    f.z = E * s, f.y = (1 - p) * per_A;
    f.z_A = E * bent, f.z_G = -h / 2 * f.z - a * f.z_A;
    f.y_A = -(E * (a * bent - h / 2 * s) + f.y) * per_A;
    f.y_G = (h * p - E * (s + a * h * s - 2 * a * a * bent)) / 2 * per_A;
    const vl small = (scaled < wide(1e-3)) & (h > vd{});
    if (__builtin_expect(any(small), 0)) {
      const Response g = series(scaled, h, h * G);
      f.z = small ? g.z : f.z, f.y = small ? g.y : f.y;
      f.z_A = small ? g.z_A : f.z_A, f.y_A = small ? g.y_A : f.y_A;
      f.z_G = small ? g.z_G : f.z_G, f.y_G = small ? g.y_G : f.y_G;
    }
    f.z_h = 1 - A * f.y - G * f.z, f.y_h = f.z;
    return f;
  }

  // y = sum d_n from y'' = 1 - G y' - A y term by term, with X = h^2 A and g = h G, and its
  // derivatives.
  static Response series(vd X, vd h, vd g) {
    vd before = {}, before_X = {}, before_g = {}, term = wide(0.5), term_X = {}, term_g = {};
    Response f = {wide(1), wide(0.5), {}, {}, {}, {}, {}, {}};
    for (int n = 3; n <= 8; ++n) {
      const double over = -1. / (n * (n - 1)), m = n - 1;
      const vd after = over * (g * m * term + X * before);
      const vd after_X = over * (g * m * term_X + X * before_X + before);
      const vd after_g = over * (g * m * term_g + m * term + X * before_g);
      before = term, before_X = term_X, before_g = term_g;
      term = after, term_X = after_X, term_g = after_g;
      f.z += n * term, f.z_A += n * term_X, f.z_G += n * term_g;
      f.y += term, f.y_A += term_X, f.y_G += term_g;
    }
    const vd square = h * h;
    f.z *= h, f.z_A *= square * h, f.z_G *= square;
    f.y *= square, f.y_A *= square * square, f.y_G *= square * h;
    return f;
  }
};

struct Verlet {
  vd A, G;
  using Sample = vd;  // h
  Verlet(vd A, vd G) : A(A), G(G) {}
  vd at(vd h) const { return h; }
  Step step(vd h) const {
    const vd X = h * h * A, half = 1 - X / 2;
    return {half, -h * A * (1 - X / 4), h, half, h * half, h * h};
  }
  Pull pull(vd h, const Step& d) const {
    const vd X = h * h * A, both = d.zz + d.yy;
    return {-h * (h / 2 * both + (1 - X / 2) * d.zy + h * h / 2 * d.fz),
            -A * (h * both + (1 - 0.75 * X) * d.zy) + d.yz + (1 - 1.5 * X) * d.fz + 2 * h * d.fy,
            vd{}};
  }
};

}  // namespace
}  // namespace linoss

#endif
