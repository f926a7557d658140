// Untrained oscillators: one pass over a sequence, and statistics of their outputs.
//
// An oscillator is a complex amplitude s' = mu s + b, mu = -decay + 2 pi i frequency, with output x
// = Re(readout s); between samples the force b is linear. A group of kLanes oscillators has one
// input, a mixture of channels or its differences, forwards or backwards in time; in a group of two
// stages each oscillator drives a second one. Sequences are read tile by tile, and the state is
// carried, so that memory does not depend on their length.

#include "kernel.h"

namespace linoss::features {

constexpr int64_t kLanes = 16;
constexpr int kStages = 2, kStatistics = 4;
// Rows of a group: parameters of each stage (decay, frequency, readout), then the threshold; a step of
// each stage, s <- l s + p b_before + n b (l, p, n complex); the state: s of each stage, then the sums
// of a window.
constexpr int kStageRows = 4, kRows = kStages * kStageRows + 1;
constexpr int kMoveRows = 6, kMoves = kStages * kMoveRows;
// Sums over a window: the time above the threshold, the longest interval above it, the number of such
// intervals, the time above it times the time; the interval above it at the end and at the beginning,
// and whether an output was below it.
enum { kAbove = 2 * kStages, kLongest, kStretches, kMoment, kRunning, kPrefix, kBroken, kStateRows };
constexpr int kSums = kStateRows - kAbove;

// For many different intervals h, j = (i - h) / (mu h) is interpolated in a table, by cubics between
// multiples of 1 / kFine; its error is that of single precision. Then i = h + mu h j and l = 1 + mu i.
// Steps of slow oscillators and of long intervals are computed.
constexpr double kFine = 64;
constexpr int kCells = 107, kFew = 4;  // up to intervals of 1.6
constexpr int64_t kCell = 2 * kStages * kLanes, kTable = kCells * kCell;

struct Group {
  int64_t stages;
  bool precise;          // whether to use double precision
  const double* rows;    // kRows x kLanes
  const double* moves;   // kMoves x kLanes, for an interval of 1
  const float* table;    // kCells x kCell, or null
};

// Up to kTile samples of an input, and the intervals before them. There are `kinds` different
// intervals; the first is 1.
struct Tile {
  int64_t samples, kinds;
  float drive[kTile + 1];  // from the sample before the first on
  double interval[kTile], kind[kTile + 1];
  double start, clock[kTile];  // the time before the tile; from there to the middle of each interval
  int32_t which[kTile];    // the kind of each interval
  bool smooth;             // whether all intervals are in the table:
  int32_t cell[kTile];     // from which row on, and the factors of four rows
  float share[kTile][4];
};

// Some samples of a tile.
struct Piece {
  int64_t from, to;
  bool ends_window;
};

struct Table {
  // Advances the state, kStateRows x kLanes, of a group. `moves` is memory, kMoves x kLanes for every
  // kind. If `outputs` is not null, it receives the outputs, samples x kLanes.
  void (*advance)(const Group&, const Tile&, const Piece&, double* moves, double* state,
                  float* outputs);
};

}  // namespace linoss::features

#ifdef LINOSS_ISA

#include <type_traits>

#include "vector.h"

namespace linoss::features {
namespace {

// The step for an interval with a linear force: l = e^{mu h}; with i = (l - 1) / mu and j = (i - h) /
// (mu h), p = readout (i - j) and n = readout j.
template <typename T>
inline void make_moves(const double* rows, double interval, T* moves) {
  const vd h = wide(interval), rate = wide(1 / interval);
  for (int64_t k = 0; k < kLanes; k += D) {
    auto row = [&](int r) { return load_wide(rows + r * kLanes + k); };
    const vd decay = row(0), omega = row(1) * wide(6.283185307179586477);
    vd cosine, sine;
    rotation(row(1) * h, cosine, sine);
    const vd size = exponential(-decay * h), lr = size * cosine, li = size * sine;
    const vd inverse = wide(1) / (decay * decay + omega * omega);
    const vd mr = -decay * inverse, mi = -omega * inverse;  // 1 / mu
    const vd ir = (lr - wide(1)) * mr - li * mi, ii = (lr - wide(1)) * mi + li * mr;
    const vd er = ir * rate - wide(1), ei = ii * rate;
    const vd jr = er * mr - ei * mi, ji = er * mi + ei * mr;
    const vd cr = row(2), ci = row(3), dr = ir - jr, di = ii - ji;
    const vd move[kMoveRows] = {lr, li, cr * dr - ci * di, cr * di + ci * dr,
                                cr * jr - ci * ji, cr * ji + ci * jr};
    for (int r = 0; r < kMoveRows; ++r) store_narrow(moves + r * kLanes + k, move[r]);
  }
}

// One vector of a row of doubles.
inline void take(const double* row, vd& x) { x = load_wide(row); }
inline void take(const double* row, vf& x) {
  for (int i = 0; i < W; ++i) x[i] = static_cast<float>(row[i]);
}
template <typename V>
inline void give(const V& x, double* row) {
  for (size_t i = 0; i < sizeof(V) / sizeof(x[0]); ++i) row[i] = x[i];
}

template <typename V>
using Number = std::remove_reference_t<decltype(V{}[0])>;

template <typename V>
struct Move {
  V lr, li, pr, pi, nr, ni;
  Move() = default;
  explicit Move(const Number<V>* rows) {
    auto row = [&](int r) { return *reinterpret_cast<const V*>(rows + r * kLanes); };
    lr = row(0), li = row(1), pr = row(2), pi = row(3), nr = row(4), ni = row(5);
  }
  template <typename B>
  inline void operator()(V& re, V& im, B before, B now) const {
    const V fr = pr * before + nr * now, fi = pi * before + ni * now;
    const V next = lr * re - (li * im - fr);
    im = li * re + (lr * im + fi), re = next;
  }
};

// The step of a stage for any interval in the table.
struct Smooth {
  vf mr, mi, cr, ci;
  explicit Smooth(const double* rows) {
    take(rows, mr), take(rows + kLanes, mi), take(rows + 2 * kLanes, cr), take(rows + 3 * kLanes, ci);
    mr = -mr, mi *= 6.2831853f;
  }
  inline Move<vf> at(const float* cell, const float* share, float h) const {
    vf j[2];
    for (int part = 0; part < 2; ++part) {
      auto row = [&](int i) { return share[i] * load(cell + i * kCell + part * kLanes); };
      j[part] = (row(0) + row(1)) + (row(2) + row(3));
    }
    const vf ir = h + h * (mr * j[0] - mi * j[1]), ii = h * (mr * j[1] + mi * j[0]);
    const vf dr = ir - j[0], di = ii - j[1];
    Move<vf> move;
    move.lr = 1 + (mr * ir - mi * ii), move.li = mr * ii + mi * ir;
    move.pr = cr * dr - ci * di, move.pi = cr * di + ci * dr;
    move.nr = cr * j[0] - ci * j[1], move.ni = cr * j[1] + ci * j[0];
    return move;
  }
};

// Intervals: all are 1; of a few kinds; in the table.
enum { kEven, kKinds, kSmooth };

template <int kUsed, int kHow, typename V>
void run(const double* rows, const Tile& tile, const Piece& piece, const Number<V>* moves,
         double* state, float* outputs) {
  constexpr int kCount = sizeof(V) / sizeof(Number<V>);
  for (int64_t k = 0; k < kLanes; k += kCount, moves += kCount, state += kCount) {
    V re[kUsed], im[kUsed], level, running, longest, broken, above = {}, stretches = {}, moment = {},
        prefix = {};
    for (int i = 0; i < kUsed; ++i)
      take(state + 2 * i * kLanes, re[i]), take(state + (2 * i + 1) * kLanes, im[i]);
    take(rows + (kRows - 1) * kLanes + k, level);
    take(state + kRunning * kLanes, running), take(state + kLongest * kLanes, longest);
    take(state + kBroken * kLanes, broken);
    const auto step = [&](int64_t stage) {
      if constexpr (kHow == kSmooth) return Smooth(rows + stage * kStageRows * kLanes + k);
      else return Move<V>(moves + stage * kMoveRows * kLanes);
    };
    const auto first = step(0), second = step(kUsed - 1);
    for (int64_t n = piece.from; n < piece.to; ++n) {
      const Number<V> before = tile.drive[n], now = tile.drive[n + 1];
      const V was = re[0];
      if constexpr (kHow == kSmooth) {
        const float *here = moves + tile.cell[n] * kCell, *share = tile.share[n];
        const float h = static_cast<float>(tile.interval[n]);
        first.at(here, share, h)(re[0], im[0], before, now);
        if constexpr (kUsed == 2) second.at(here + 2 * kLanes, share, h)(re[1], im[1], was, re[0]);
      } else if constexpr (kHow == kKinds) {
        const Number<V>* here = moves + tile.which[n] * kMoves * kLanes;
        Move<V>{here}(re[0], im[0], before, now);
        if constexpr (kUsed == 2) Move<V>{here + kMoveRows * kLanes}(re[1], im[1], was, re[0]);
      } else {
        first(re[0], im[0], before, now);
        if constexpr (kUsed == 2) second(re[1], im[1], was, re[0]);
      }
      const V x = re[kUsed - 1];
      if (outputs) {
        for (int i = 0; i < kCount; ++i) outputs[n * kLanes + k + i] = static_cast<float>(x[i]);
        continue;
      }
      const V h = (kHow ? static_cast<Number<V>>(tile.interval[n]) : 1) - V{};
      const auto up = x > level, begins = up & (running == V{});
      const V since = static_cast<Number<V>>(tile.clock[n]) - V{};
      above += up ? h : V{};
      moment += up ? h * since : V{};
      stretches += begins ? 1 - V{} : V{};
      prefix += up & (broken == V{}) ? h : V{};
      broken = up ? broken : 1 - V{};
      running = up ? running + h : V{};
      longest = longest > running ? longest : running;
    }
    for (int i = 0; i < kUsed; ++i)
      give(re[i], state + 2 * i * kLanes), give(im[i], state + (2 * i + 1) * kLanes);
    give(running, state + kRunning * kLanes), give(longest, state + kLongest * kLanes);
    give(broken, state + kBroken * kLanes);
    for (int i = 0; i < kCount; ++i)
      state[kAbove * kLanes + i] += above[i], state[kStretches * kLanes + i] += stretches[i],
          state[kPrefix * kLanes + i] += prefix[i],
          state[kMoment * kLanes + i] += tile.start * above[i] + moment[i];
  }
}

template <typename V>
void advance_in(const Group& group, const Tile& tile, const Piece& piece, double* memory,
                double* state, float* outputs) {
  if constexpr (std::is_same_v<V, vf>)
    if (group.table && tile.smooth && tile.kinds > kFew)
      return (group.stages == 1 ? run<1, kSmooth, V> : run<2, kSmooth, V>)(
          group.rows, tile, piece, group.table, state, outputs);
  Number<V>* moves = reinterpret_cast<Number<V>*>(memory);
  for (int64_t i = 0; i < group.stages * kMoveRows * kLanes; ++i)
    moves[i] = static_cast<Number<V>>(group.moves[i]);
  for (int64_t kind = 1; kind < tile.kinds; ++kind)
    for (int64_t stage = 0; stage < group.stages; ++stage)
      make_moves(group.rows + stage * kStageRows * kLanes, tile.kind[kind],
                 moves + (kind * kMoves + stage * kMoveRows) * kLanes);
  const bool varying = tile.kinds > 1;
  const auto chosen = group.stages == 1 ? (varying ? run<1, kKinds, V> : run<1, kEven, V>)
                                        : (varying ? run<2, kKinds, V> : run<2, kEven, V>);
  chosen(group.rows, tile, piece, moves, state, outputs);
}

void advance(const Group& group, const Tile& tile, const Piece& piece, double* moves, double* state,
             float* outputs) {
  (group.precise ? advance_in<vd> : advance_in<vf>)(group, tile, piece, moves, state, outputs);
}

}  // namespace

namespace LINOSS_ISA {
extern const Table kernels = {advance};
}
}  // namespace linoss::features

#else

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cmath>
#include <complex>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime.h"

namespace nb = nanobind;

namespace linoss::features {

LINOSS_CHOOSE(Table, kernels)

template <typename T, int kDimensions>
using In = nb::ndarray<const T, nb::ndim<kDimensions>, nb::device::cpu>;
template <typename T, int kDimensions>
using Out = nb::ndarray<T, nb::ndim<kDimensions>, nb::c_contig, nb::device::cpu>;

[[noreturn]] void refuse(const char* what) { throw std::invalid_argument(what); }

template <typename T>
std::vector<T> copied(const nb::ndarray<const T, nb::c_contig, nb::device::cpu>& array) {
  return std::vector<T>(array.data(), array.data() + array.size());
}

// Two rows of equal length.
template <typename Array>
auto halves(const Array& array) {
  const auto all = copied(array);
  if (all.size() % 2) refuse("bank: two rows of different lengths");
  const auto middle = all.begin() + all.size() / 2;
  return std::make_pair(std::vector(all.begin(), middle), std::vector(middle, all.end()));
}

// A sequence of the caller, (time, channels) in any layout; intervals before its samples, or null if
// all are 1.
struct Series {
  const float* at;
  int64_t time, row, column;
  const double* intervals;
};

struct Bank {
  int64_t groups, channels;
  std::vector<double> rows, moves;  // groups x kRows x kLanes, groups x kMoves x kLanes
  std::vector<uint8_t> stages, precise;
  std::vector<int32_t> drive;              // of each group
  std::vector<uint8_t> order, backwards;   // of each input: differences; reverse time
  std::vector<int32_t> first, channel;     // of each input: its range in channel and weight
  std::vector<float> weight;
  std::vector<double> mean, scale;         // of each channel
  std::vector<float> table = {};           // groups x kTable, when it was needed
  std::shared_ptr<std::once_flag> tabulated = std::make_shared<std::once_flag>();
};

// Validates sizes and indices, which the kernels rely on.
void check(const Bank& bank) {
  const size_t groups = bank.groups, drives = bank.order.size();
  bool good = groups > 0 && bank.channels > 0 && bank.rows.size() == groups * kRows * kLanes &&
              bank.moves.size() == groups * kMoves * kLanes && bank.precise.size() == groups &&
              bank.drive.size() == groups && bank.backwards.size() == drives &&
              bank.first.size() == drives + 1 && bank.weight.size() == bank.channel.size() &&
              bank.scale.size() == bank.mean.size();
  if (!good) refuse("bank: sizes that do not belong together");
  for (uint8_t stages : bank.stages) good &= stages >= 1 && stages <= kStages;
  for (int32_t drive : bank.drive) good &= drive >= 0 && drive < static_cast<int64_t>(drives);
  for (int32_t channel : bank.channel) good &= channel >= 0 && channel < bank.channels;
  for (size_t i = 0; i < drives; ++i) good &= bank.first[i] <= bank.first[i + 1];
  good &= bank.first[0] == 0 && bank.first[drives] == static_cast<int64_t>(bank.channel.size());
  if (!good) refuse("bank: an index out of range");
}

bool has_value(const Bank& bank, const float* sample, int64_t column) {
  for (int64_t c = 0; c < bank.channels; ++c)
    if (!std::isnan(sample[c * column])) return true;
  return false;
}

// Reads a sequence, in either direction, into tiles of samples with a value. A sample without any value
// is skipped. A long interval is divided into up to kMostParts parts of about 1, with linear
// interpolation between its ends, so that outputs within it are counted. A missing channel keeps its
// last value; before the first value it has its mean.
constexpr double kMostParts = 8;
class Reader {
 public:
  explicit Reader(const Bank& bank) : bank_(bank), values_(bank.channels * kRow) {}

  void begin() {
    begun_ = false, loaded_ = 0, before_ = 1, gap_ = elapsed_ = 0;
    std::fill(values_.begin(), values_.end(), 0.f);
  }
  double elapsed() const { return elapsed_; }

  // Reads the next samples of the series from `at` on, which is advanced.
  void load(const Series& series, bool backwards, int64_t& at, Tile& tile) {
    for (float* v = values_.data(); v < values_.data() + values_.size(); v += kRow)
      v[0] = v[loaded_], v[1] = v[loaded_ + 1];
    before_ = loaded_ ? tile.interval[loaded_ - 1] : before_;
    loaded_ = 0, tile.kinds = 1, tile.kind[0] = 1, tile.start = elapsed_, tile.smooth = true;
    for (; at < series.time; ++at) {
      const int64_t n = backwards ? series.time - 1 - at : at;
      const double step = !series.intervals ? 1
                          : !backwards      ? series.intervals[n]
                          : at              ? series.intervals[n + 1]
                                            : 1;
      const float* sample = series.at + n * series.row;
      if (!has_value(bank_, sample, series.column)) {
        gap_ += step;
        continue;
      }
      const double whole = begun_ ? gap_ + step : 1;
      const int64_t parts =
          begun_ ? static_cast<int64_t>(std::clamp(std::floor(whole + 0.4), 1.0, kMostParts)) : 1;
      if (loaded_ + parts > kTile) break;  // the next tile begins with this sample
      take(sample, series.column, parts);
      begun_ = true, gap_ = 0, elapsed_ += whole;
      const double interval = whole / parts;
      int32_t kind = 0;
      while (kind < tile.kinds && tile.kind[kind] != interval) ++kind;
      if (kind == tile.kinds) tile.kind[tile.kinds++] = interval;
      for (int64_t part = 0; part < parts; ++part) {
        tile.clock[loaded_] = elapsed_ - whole - tile.start + (part + 0.5) * interval;
        tile.interval[loaded_] = interval, tile.which[loaded_++] = kind;
      }
      const double place = interval * kFine;
      const int64_t cell = std::max<int64_t>(static_cast<int64_t>(place) - 1, 0);
      tile.smooth &= cell + 4 <= kCells;
      const float u = static_cast<float>(place - cell), a = u - 1, b = u - 2, c = u - 3;
      for (int64_t n = loaded_ - parts; n < loaded_; ++n) {
        tile.cell[n] = static_cast<int32_t>(cell);
        tile.share[n][0] = -a * b * c / 6, tile.share[n][1] = u * b * c / 2;
        tile.share[n][2] = -u * a * c / 2, tile.share[n][3] = u * a * b / 6;
      }
    }
    tile.samples = loaded_;
  }

  // The input of a group: a mixture of channels, or its differences over an interval.
  void mix(int32_t drive, Tile& tile) const {
    float* to = tile.drive;
    std::fill_n(to, loaded_ + 1, 0.f);
    for (int32_t i = bank_.first[drive]; i < bank_.first[drive + 1]; ++i) {
      const float weight = bank_.weight[i], *v = values_.data() + bank_.channel[i] * kRow;
      if (bank_.order[drive])
        for (int64_t n = 0; n <= loaded_; ++n) to[n] += weight * (v[n + 1] - v[n]);
      else
        for (int64_t n = 0; n <= loaded_; ++n) to[n] += weight * v[n + 1];
    }
    if (bank_.order[drive]) {
      to[0] /= static_cast<float>(before_);
      for (int64_t n = 0; n < loaded_; ++n) to[n + 1] /= static_cast<float>(tile.interval[n]);
    }
  }

 private:
  static constexpr int64_t kRow = kTile + 2;  // two samples before those of a tile

  void take(const float* sample, int64_t column, int64_t parts) {
    for (int64_t c = 0; c < bank_.channels; ++c) {
      float* v = values_.data() + c * kRow + loaded_;
      const double x = sample[c * column];
      const float last = v[1];
      const float next =
          std::isnan(x) ? last : static_cast<float>((x - bank_.mean[c]) * bank_.scale[c]);
      for (int64_t part = 1; part < parts; ++part)
        v[1 + part] = static_cast<float>(last + (double(next) - last) * part / parts);
      v[1 + parts] = next;
      if (!begun_) v[0] = v[1] = next;
    }
  }

  const Bank& bank_;
  std::vector<float> values_;
  int64_t loaded_ = 0;
  double before_ = 1, gap_ = 0, elapsed_ = 0;
  bool begun_ = false;
};

Group group_of(const Bank& bank, int64_t g) {
  return {bank.stages[g], bank.precise[g] != 0, bank.rows.data() + g * kRows * kLanes,
          bank.moves.data() + g * kMoves * kLanes,
          bank.table.empty() ? nullptr : bank.table.data() + g * kTable};
}

// Fills the tables of a bank, once.
void tabulate(Bank& bank) {
  std::call_once(*bank.tabulated, [&bank] {
    std::vector<float> table(bank.groups * kTable);
    for (int64_t g = 0; g < bank.groups; ++g)
      for (int64_t s = 0; s < bank.stages[g]; ++s)
        for (int64_t k = 0; k < kLanes; ++k) {
          const double* row = bank.rows.data() + (g * kRows + s * kStageRows) * kLanes + k;
          const std::complex<double> mu(-row[0], 6.283185307179586477 * row[kLanes]);
          for (int64_t cell = 1; cell < kCells; ++cell) {  // at 0 it is 0
            const double h = cell / kFine;
            const std::complex<double> j = ((std::exp(mu * h) - 1.0) / mu - h) / (mu * h);
            float* to = table.data() + g * kTable + cell * kCell + 2 * s * kLanes + k;
            to[0] = static_cast<float>(j.real()), to[kLanes] = static_cast<float>(j.imag());
          }
        }
    bank.table = std::move(table);
  });
}

// A part of a sequence, in reading order, for each oscillator of a group.
struct Window {
  double begin = 0, time = 0;
  double sums[kSums][kLanes] = {};
};

// The sums over two windows that follow each other.
Window joined(const Window& a, const Window& b) {
  Window both = {a.begin, a.time + b.time};
  constexpr int above = 0, longest = kLongest - kAbove, stretches = kStretches - kAbove,
                moment = kMoment - kAbove, suffix = kRunning - kAbove, prefix = kPrefix - kAbove, broken = kBroken - kAbove;
  for (int64_t k = 0; k < kLanes; ++k) {
    const double across = a.sums[suffix][k] + b.sums[prefix][k];
    const bool meet = a.sums[suffix][k] > 0 && b.sums[prefix][k] > 0;
    const bool broken_a = a.sums[broken][k] > 0, broken_b = b.sums[broken][k] > 0;
    for (int i : {above, stretches, moment}) both.sums[i][k] = a.sums[i][k] + b.sums[i][k];
    both.sums[stretches][k] -= meet;
    both.sums[longest][k] = std::max({a.sums[longest][k], b.sums[longest][k], across});
    both.sums[prefix][k] = broken_a ? a.sums[prefix][k] : a.sums[prefix][k] + b.sums[prefix][k];
    both.sums[suffix][k] = broken_b ? b.sums[suffix][k] : a.sums[suffix][k] + b.sums[suffix][k];
    both.sums[broken][k] = broken_a || broken_b;
  }
  return both;
}

// The statistics of a window; `row[s]` is the row of statistic s in `out`, or negative.
void write_statistics(const Window& window, const int32_t* row, int64_t oscillators, float* out) {
  const double time = window.time > 0 ? window.time : 1;
  for (int64_t k = 0; k < kLanes; ++k) {
    auto share = [&](int i) { return window.sums[i - kAbove][k] / time; };
    const double late = (share(kMoment) - window.begin * share(kAbove)) / time - share(kAbove) / 2;
    const double statistics[] = {share(kAbove), share(kLongest), share(kStretches), late};
    for (int s = 0; s < kStatistics; ++s)
      if (row[s] >= 0) out[row[s] * oscillators + k] = static_cast<float>(statistics[s]);
  }
}

// The memory of a thread.
struct Desk {
  explicit Desk(const Bank& bank)
      : reader(bank), moves((kTile + 1) * kMoves * kLanes), outputs(kTile * kLanes) {
    if (!moves.at) throw std::bad_alloc();
  }
  void begin(int64_t groups) {
    state.assign(groups * kStateRows * kLanes, 0.0);
    reader.begin();
  }
  Reader reader;
  Tile tile;
  Memory<double> moves;
  std::vector<double> state;
  std::vector<Window> windows;
  std::vector<Piece> pieces;
  std::vector<float> outputs;
};

// The time from the first to the last sample with a value, and the interval before it, which is 1.
double duration(const Bank& bank, const Series& series) {
  double time = 0, gap = 0;
  bool begun = false;
  for (int64_t n = 0; n < series.time; ++n) {
    gap += series.intervals ? series.intervals[n] : 1;
    if (!has_value(bank, series.at + n * series.row, series.column)) continue;
    time += begun ? gap : 1, begun = true, gap = 0;
  }
  return time;
}

// Copies the sums of a state to a window.
void copy(const double* state, Window& window) {
  std::memcpy(window.sums, state + kAbove * kLanes, sizeof(window.sums));
}

constexpr double kRounding = 1e-9;  // of a place in time

// Divides the samples of a tile where windows end. `windows` parts of equal duration `total /
// windows` have the samples in the middle of whose interval they are; `current` is the first that has
// not ended.
void divide(const Tile& tile, double total, int64_t windows, int64_t& current, double* times,
            std::vector<Piece>& pieces) {
  pieces.clear();
  int64_t from = 0;
  for (int64_t n = 0; n < tile.samples; ++n) {
    const double place = ((tile.start + tile.clock[n]) / total + kRounding) * windows;
    const int64_t own = std::min(static_cast<int64_t>(place), windows - 1);
    for (; current < own; ++current) pieces.push_back({from, n, true}), from = n;
    times[current] += tile.interval[n];
  }
  pieces.push_back({from, tile.samples, false});
}

constexpr int64_t kSize = kStateRows * kLanes;  // of the state of a group

// Calls each(group, tile, at) for every tile of the series and every group from `from` to `to` that
// reads in one direction; `at` is the number of samples before the tile. States begin as they are in
// the desk. The sums of `windows` windows of each group are in desk.windows.
template <typename Each>
void walk(const Bank& bank, const Series& series, bool backwards, int64_t from, int64_t to,
          int64_t windows, Desk& desk, bool keep, Each each) {
  desk.windows.assign((to - from) * windows, Window{});
  const double total = windows > 1 ? duration(bank, series) : 1;
  std::vector<double> times(windows);
  int64_t current = 0;
  for (int64_t at = 0, seen = 0; at < series.time;) {
    desk.reader.load(series, backwards, at, desk.tile);
    const int64_t first = current;
    divide(desk.tile, total, windows, current, times.data(), desk.pieces);
    int32_t drive = -1;
    for (int64_t g = from; g < to; ++g) {
      if (bank.backwards[bank.drive[g]] != backwards) continue;
      if (bank.drive[g] != drive) desk.reader.mix(drive = bank.drive[g], desk.tile);
      double* state = desk.state.data() + (g - from) * kSize;
      Window* window = desk.windows.data() + (g - from) * windows + first;
      for (const Piece& piece : desk.pieces) {
        kernels().advance(group_of(bank, g), desk.tile, piece, desk.moves.at, state,
                          keep ? desk.outputs.data() : nullptr);
        if (!piece.ends_window) continue;
        copy(state, *window++);
        std::memset(state + kAbove * kLanes, 0, sizeof(window->sums));
      }
      each(g, desk.tile, seen);
    }
    seen += desk.tile.samples;
  }
  for (int64_t g = from; g < to; ++g) {
    Window* window = desk.windows.data() + (g - from) * windows;
    copy(desk.state.data() + (g - from) * kSize, window[current]);
    for (int64_t w = 0; w < windows; ++w) {
      window[w].time = times[w];
      window[w].begin = w ? window[w - 1].begin + window[w - 1].time : 0;
    }
  }
}

std::vector<Series> all_series(const Bank& bank, const std::vector<In<float, 2>>& cases,
                               const std::vector<In<double, 1>>& intervals) {
  if (!intervals.empty() && intervals.size() != cases.size()) refuse("intervals: wrong number");
  std::vector<Series> found;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& x = cases[i];
    if (static_cast<int64_t>(x.shape(1)) != bank.channels) refuse("cases: wrong channels");
    const double* h = nullptr;
    if (!intervals.empty()) {
      if (intervals[i].shape(0) != x.shape(0) || intervals[i].stride(0) != 1)
        refuse("intervals: wrong shape");
      h = intervals[i].data();
    }
    found.push_back({x.data(), static_cast<int64_t>(x.shape(0)), x.stride(0), x.stride(1), h});
  }
  return found;
}

// Runs work(case, from, to, desk) for parts of the groups of each case; few cases have more parts, and
// the tables of a part stay in a cache.
template <typename Work>
void for_all(const Bank& bank, int64_t cases, Work work) {
  const int64_t cached = bank.table.empty() ? 1 : (bank.groups + 7) / 8;
  const int64_t parts =
      std::clamp<int64_t>(64 / std::max<int64_t>(cases, 1), cached, bank.groups);
  Threads threads(std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<bool> failed{false};
  const ffi::Error error = parallel(threads, cases * parts, 0, [&](int64_t i, float*) {
    try {
      Desk desk(bank);
      const int64_t part = i / cases;
      work(i % cases, bank.groups * part / parts, bank.groups * (part + 1) / parts, desk);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
  });
  if (failed || error.failure()) throw std::bad_alloc();
}

// (cases, rows, oscillators), each divided by the duration of its window: time above the threshold, the
// longest interval above it, the number of such intervals, and the time above it weighted from -1/2 at
// the beginning to 1/2 at the end; 0 for a window without samples, NaN for a case without any value.
// Row 4 w + s is statistic s of window w: the whole, the first and the second half, the quarters, ...
// Those with a place in `rows` are written to that row of `out`, others are left out.
void respond(Bank& bank, const std::vector<In<float, 2>>& cases,
             const std::vector<In<double, 1>>& intervals, In<int32_t, 1> rows, Out<float, 3> out) {
  const std::vector<Series> series = all_series(bank, cases, intervals);
  const int64_t oscillators = bank.groups * kLanes, size = out.shape(1);
  std::vector<int32_t> place(rows.data(), rows.data() + rows.shape(0));
  int64_t windows = 1;
  while ((2 * windows - 1) * kStatistics < static_cast<int64_t>(place.size())) windows *= 2;
  bool good = rows.stride(0) == 1 && out.shape(0) == cases.size() && windows <= 64 &&
              place.size() == static_cast<size_t>((2 * windows - 1) * kStatistics) &&
              static_cast<int64_t>(out.shape(2)) == oscillators;
  for (int32_t row : place) good &= row < size;
  if (!good) refuse("rows or out: wrong shape");
  float* data = out.data();
  nb::gil_scoped_release release;
  if (!intervals.empty()) tabulate(bank);
  for_all(bank, series.size(), [&](int64_t i, int64_t from, int64_t to, Desk& desk) {
    for (bool backwards : {false, true}) {
      desk.begin(to - from);
      walk(bank, series[i], backwards, from, to, windows, desk, false,
           [](int64_t, const Tile&, int64_t) {});
      for (int64_t g = from; g < to; ++g) {
        if (bank.backwards[bank.drive[g]] != backwards) continue;
        float* own = data + i * size * oscillators + g * kLanes;
        if (!(desk.reader.elapsed() > 0)) {
          for (int64_t r = 0; r < size; ++r) std::fill_n(own + r * oscillators, kLanes, NAN);
          continue;
        }
        Window* window = desk.windows.data() + (g - from) * windows;
        for (int64_t count = windows; count; count /= 2) {
          for (int64_t w = 0; w < count; ++w) {
            if (count < windows) window[w] = joined(window[2 * w], window[2 * w + 1]);
            const int64_t when = count - 1 + (backwards ? count - 1 - w : w);
            write_statistics(window[w], place.data() + when * kStatistics, oscillators, own);
          }
        }
      }
    }
  });
}

// (cases, samples, oscillators): outputs at every `every`-th sample with a value, in the reading order
// of the oscillator; other elements are unchanged.
void trace(Bank& bank, const std::vector<In<float, 2>>& cases,
           const std::vector<In<double, 1>>& intervals, int64_t every, Out<float, 3> out) {
  const std::vector<Series> series = all_series(bank, cases, intervals);
  const int64_t oscillators = bank.groups * kLanes, samples = out.shape(1);
  if (out.shape(0) != cases.size() || static_cast<int64_t>(out.shape(2)) != oscillators || every < 1)
    refuse("out: wrong shape");
  float* data = out.data();
  nb::gil_scoped_release release;
  if (!intervals.empty()) tabulate(bank);
  for_all(bank, series.size(), [&](int64_t i, int64_t from, int64_t to, Desk& desk) {
    for (bool backwards : {false, true}) {
      desk.begin(to - from);
      walk(bank, series[i], backwards, from, to, 1, desk, true,
           [&](int64_t g, const Tile& tile, int64_t seen) {
             for (int64_t n = 0; n < tile.samples; ++n)
               if ((seen + n) % every == 0 && (seen + n) / every < samples)
                 std::memcpy(data + (i * samples + (seen + n) / every) * oscillators + g * kLanes,
                             desk.outputs.data() + n * kLanes, kLanes * 4);
           });
    }
  });
}

// The statistics of a sequence so far, in pieces.
class Stream {
 public:
  explicit Stream(const Bank& bank) : bank_(bank), desk_(bank_) {
    desk_.begin(bank.groups);
    for (uint8_t backwards : bank.backwards)
      if (backwards) refuse("the bank reads backwards in time");
  }

  void operator()(In<float, 2> piece, In<double, 1> intervals, Out<float, 2> out) {
    const Series series = all_series(bank_, {piece}, {intervals})[0];
    const int64_t oscillators = bank_.groups * kLanes;
    if (out.shape(0) != kStatistics || static_cast<int64_t>(out.shape(1)) != oscillators)
      refuse("out: wrong shape");
    walk(bank_, series, false, 0, bank_.groups, 1, desk_, false,
         [](int64_t, const Tile&, int64_t) {});
    constexpr int32_t rows[kStatistics] = {0, 1, 2, 3};
    const double elapsed = desk_.reader.elapsed();
    if (!(elapsed > 0)) std::fill_n(out.data(), out.size(), NAN);
    for (int64_t g = 0; g < bank_.groups && elapsed > 0; ++g) {
      desk_.windows[g].time = elapsed;
      write_statistics(desk_.windows[g], rows, oscillators, out.data() + g * kLanes);
    }
  }

 private:
  Bank bank_;
  Desk desk_;
};

LINOSS_MODULE([](nb::module_& m) {
  using Bytes = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;
  using Whole = nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>;
  using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
  using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
  m.attr("lanes") = kLanes;
  nb::class_<Bank>(m, "Bank")
      .def("__init__",
           // flags: stages and precise of each group; ways: order and backwards of each input;
           // scaling: mean and scale of each channel; one row after the other.
           [](Bank* bank, Doubles rows, Doubles moves, Bytes flags, Whole drive, Bytes ways,
              Whole first, Whole channel, Floats weight, Doubles scaling) {
             const auto [stages, precise] = halves(flags);
             const auto [order, backwards] = halves(ways);
             const auto [mean, scale] = halves(scaling);
             Bank made = {static_cast<int64_t>(stages.size()), static_cast<int64_t>(mean.size()),
                          copied(rows), copied(moves), stages, precise, copied(drive), order,
                          backwards, copied(first), copied(channel), copied(weight), mean, scale};
             check(made);
             new (bank) Bank(std::move(made));
           })
      .def("respond", &respond)
      .def("trace", &trace);
  nb::class_<Stream>(m, "FeatureStream").def(nb::init<const Bank&>()).def("__call__", &Stream::operator());
});

}  // namespace linoss::features
#endif
