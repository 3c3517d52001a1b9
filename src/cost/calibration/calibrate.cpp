#include "cost/calibration/calibrate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

using Values = std::vector<double>;
using Indices = std::vector<size_t>;

constexpr double kLeastNorm = 0.1;   // least norm of the orthogonal part of a sensitivity (calibrate.h)
constexpr double kLeastShare = 0.1;  // least share of that part in the norm of the sensitivity
constexpr double kGreatShare = 0.3;  // share from which a constant is named as similar to another
constexpr double kChange = 0.01;     // relative change of a constant for its sensitivity
constexpr double kFarChange = 8;     // factor on a constant, to see whether it has any effect
constexpr double kNone = 1e-9;       // effects up to this are rounding errors
constexpr double kExplained = 1e-5;  // root mean square of residuals: nothing is left to explain
// A fit ends when no logarithm changes by more: the next step would change it by about a hundredth of that.
constexpr double kSettled = 1e-3;
constexpr double kGreatestStep = 1.5;  // most that a logarithm changes in one round
constexpr int kRounds = 30, kTrialRounds = 3, kHalvings = 5;
constexpr double kFarStep = 3;  // factor between the values of a constant whose effect begins far away
constexpr int kFarSteps = 4;
constexpr size_t kTrials = 3;  // constants of which each stage tries a fit
// Usual relative error of a measured step, and usual change of the logarithm of a constant: log 2, a factor of 2.
constexpr double kUsualError = 0.05, kUsualChange = 0.7;
constexpr double kClearly = 0.9;    // another constant replaces an earlier one if it lowers the cost below this share
constexpr double kSmall = 0.02;     // below this cost, a stage does not try to replace constants
constexpr size_t kWorse = 3;        // consecutive stages that are worse on left-out rows end the path
constexpr double kSingular = 1e-6;  // singular values below this share of the greatest count as zero
constexpr double kAsGood = 1.1, kRounding = 1e-4;
constexpr double kAlone = 0.95;  // leverage of a row that alone determines a constant
constexpr size_t kRowsToLeaveOut = 3;

at::Tensor column(const Values& values) { return at::tensor(values, at::kDouble); }
Values list_of(const at::Tensor& vector) {
  const at::Tensor whole = vector.contiguous();
  return {whole.data_ptr<double>(), whole.data_ptr<double>() + whole.numel()};
}
double length_of(const at::Tensor& vector) { return at::linalg_vector_norm(vector).item<double>(); }

/// Columns of a matrix.
at::Tensor columns(const at::Tensor& matrix, const Indices& which) {
  return matrix.index_select(1, at::tensor(std::vector<int64_t>(which.begin(), which.end()), at::kLong));
}

/// The shortest x that minimises |matrix x - right|.
at::Tensor least_squares(const at::Tensor& matrix, const at::Tensor& right) {
  if (matrix.size(1) == 0 || matrix.size(0) == 0) return at::zeros({matrix.size(1)}, at::kDouble);
  return std::get<0>(at::linalg_lstsq(matrix, right.unsqueeze(1), kSingular, "gelsd")).squeeze(1);
}

at::Tensor without_row(const at::Tensor& tensor, size_t row) {
  const auto at = int64_t(row);
  return at::cat({tensor.slice(0, 0, at), tensor.slice(0, at + 1)});
}

double root_mean_square(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / double(values.size()));
}

/// Values of the constants, and what they predict.
struct State {
  Values values, predicted;
  at::Tensor residuals;  ///< [rows]: log(measured / predicted)
  double cost() const { return length_of(residuals); }
};

/// A fit of some constants.
struct Stage {
  Indices chosen;
  State state;
  at::Tensor sensitivities;  ///< [rows, constants] at the state
  /// Root mean square of log(measured / predicted) of rows left out, without rows that alone determine a constant.
  double unseen = 0;
};

class Fitter {
 public:
  Fitter(const std::vector<FreeConstant>& constants, const Values& measured, const RowSeconds& seconds)
      : constants_(constants), measured_(measured), seconds_(seconds), ineffective_(constants.size(), false) {
    Values values;
    for (const FreeConstant& constant : constants) values.push_back(constant.value);
    start_ = at(std::move(values));
  }

  const State& start() const { return start_; }
  size_t rows() const { return measured_.size(); }

  /// Fits one constant more per stage, up to `most`. The first stage has none.
  std::vector<Stage> path(size_t most);
  /// Predicted seconds of each row by a fit of the stage without the row.
  Values left_out(const Stage& stage) const;
  /// The chosen constants of a stage that are within their bounds; `at_bound`: the others.
  Indices within(const Stage& stage, bool at_bound = false) const;
  std::vector<FittedConstant> fitted(const Stage& stage) const;
  std::vector<LeftConstant> left(const Stage& stage, size_t most) const;

 private:
  /// The part of a sensitivity that is orthogonal to those of other constants: its norm, and its share in the whole
  /// norm.
  struct Own {
    double norm = 0, share = 0;
    bool is_enough() const { return norm >= kLeastNorm && share >= kLeastShare; }
  };

  State at(Values values) const;
  bool is_at_limit(size_t constant, double value) const {
    return value >= constants_[constant].most || value <= constants_[constant].least;
  }
  bool pushes_out(size_t constant, double value, double gradient) const;
  at::Tensor sensitivities(const State& state, const Indices& which) const;
  void drop_ineffective(const at::Tensor& sensitivities);
  /// `all`: sensitivities at the state.
  State fit(State state, const Indices& chosen, at::Tensor all, int rounds) const;
  /// Returns the last stage's state, with one constant moved to a value with a smaller cost. For constants that have an
  /// effect only far from their present value.
  State with_effect(const Stage& last, size_t constant) const;
  /// Returns the state after a short fit with one constant more; nullopt if the rows do not determine all constants at
  /// that state.
  std::optional<State> tried(const Stage& last, State state, size_t constant) const;
  /// Estimates the cost of a fit with one constant more, by the linear form at `state`.
  double promise(const Stage& last, const State& state, size_t constant) const;
  /// Returns the cost plus a penalty for the changes of the constants: of two fits with equal residuals, the one that
  /// changes the constants less is more likely.
  double with_changes(double cost, const Values& values) const;
  std::optional<Stage> next(const Stage& last) const;
  /// Returns a stage in which another constant replaces an earlier one, if that is clearly more likely; otherwise
  /// `stage`.
  Stage swapped(Stage stage) const;
  Own own(const at::Tensor& sensitivities, const Indices& chosen, size_t constant) const;
  Indices imitators(const at::Tensor& sensitivities, const Indices& chosen, size_t constant) const;
  /// Returns log(fitted / first value) of the constants within their bounds, by a linearised fit without the row.
  at::Tensor differences_without(const Stage& stage, size_t row) const;
  at::Tensor at_start(const Stage& stage) const;
  void complete(Stage& stage) const;
  Indices effective() const;

  const std::vector<FreeConstant>& constants_;
  const Values& measured_;
  const RowSeconds& seconds_;
  std::vector<bool> ineffective_;
  State start_;
};

State Fitter::at(Values values) const {
  State state{.values = std::move(values), .predicted = {}, .residuals = {}};
  Values residuals;
  for (size_t row = 0; row < rows(); ++row) {
    state.predicted.push_back(seconds_(row, state.values));
    residuals.push_back(std::log(measured_[row] / state.predicted.back()));
  }
  state.residuals = column(residuals);
  return state;
}

Indices Fitter::effective() const {
  Indices found;
  for (size_t i = 0; i < constants_.size(); ++i)
    if (!ineffective_[i]) found.push_back(i);
  return found;
}

at::Tensor Fitter::sensitivities(const State& state, const Indices& which) const {
  at::Tensor matrix = at::zeros({int64_t(rows()), int64_t(constants_.size())}, at::kDouble);
  auto cells = matrix.accessor<double, 2>();
  for (const size_t i : which) {
    Values changed = state.values;
    const double factor = changed[i] * (1 + kChange) <= constants_[i].most ? 1 + kChange : 1 / (1 + kChange);
    changed[i] *= factor;
    for (size_t row = 0; row < rows(); ++row) {
      const double effect = std::log(seconds_(row, changed) / state.predicted[row]);
      cells[int64_t(row)][int64_t(i)] = std::abs(effect) < kNone ? 0 : effect / std::log(factor);
    }
  }
  return matrix;
}

void Fitter::drop_ineffective(const at::Tensor& sensitivities) {
  for (size_t i = 0; i < constants_.size(); ++i) {
    if (length_of(sensitivities.select(1, int64_t(i))) > 0) continue;
    bool changes = false;
    for (const double factor : {kFarChange, 1 / kFarChange}) {
      Values far = start_.values;
      far[i] = std::clamp(far[i] * factor, constants_[i].least, constants_[i].most);
      for (size_t row = 0; row < rows() && !changes; ++row)
        changes = std::abs(std::log(seconds_(row, far) / start_.predicted[row])) > kNone;
    }
    ineffective_[i] = !changes;
  }
}

/// True if the value is at a bound and the next step would leave the bounds. `gradient`: of the fit's improvement, by
/// the constant's logarithm.
bool Fitter::pushes_out(size_t constant, double value, double gradient) const {
  const FreeConstant& known = constants_[constant];
  return (value >= known.most && gradient > 0) || (value <= known.least && gradient < 0);
}

State Fitter::fit(State state, const Indices& chosen, at::Tensor all, int rounds) const {
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) all = sensitivities(state, chosen);
    Indices free;
    for (const size_t i : chosen) {
      const double gradient = all.select(1, int64_t(i)).dot(state.residuals).item<double>();
      if (!pushes_out(i, state.values[i], gradient)) free.push_back(i);
    }
    Values step = list_of(least_squares(columns(all, free), state.residuals));
    double greatest = 0;
    for (const double part : step) greatest = std::max(greatest, std::abs(part));
    double scale = greatest > kGreatestStep ? kGreatestStep / greatest : 1;
    std::optional<State> better;
    for (int half = 0; half < kHalvings && !better; ++half, scale /= 2) {
      Values values = state.values;
      for (size_t f = 0; f < free.size(); ++f)
        values[free[f]] = std::clamp(values[free[f]] * std::exp(scale * step[f]), constants_[free[f]].least,
                                     constants_[free[f]].most);
      State next = at(std::move(values));
      if (next.cost() < state.cost()) better = std::move(next);
    }
    if (!better) break;
    double moved = 0;
    for (const size_t i : free) moved = std::max(moved, std::abs(std::log(better->values[i] / state.values[i])));
    state = std::move(*better);
    if (moved < kSettled) break;
  }
  return state;
}

Fitter::Own Fitter::own(const at::Tensor& sensitivities, const Indices& chosen, size_t constant) const {
  const at::Tensor whole = sensitivities.select(1, int64_t(constant));
  const double size = length_of(whole);
  if (chosen.empty() || size == 0) return {.norm = size, .share = size == 0 ? 0.0 : 1.0};
  const at::Tensor others = columns(sensitivities, chosen);
  const double rest = length_of(whole - others.mv(least_squares(others, whole)));
  return {.norm = rest, .share = rest / size};
}

Indices Fitter::imitators(const at::Tensor& sensitivities, const Indices& chosen, size_t constant) const {
  const at::Tensor whole = sensitivities.select(1, int64_t(constant));
  const Values shares = list_of(least_squares(columns(sensitivities, chosen), whole));
  Indices found;
  for (size_t c = 0; c < chosen.size(); ++c)
    if (std::abs(shares[c]) * length_of(sensitivities.select(1, int64_t(chosen[c]))) >= kGreatShare * length_of(whole))
      found.push_back(chosen[c]);
  return found.empty() ? chosen : found;  // none has a large share: all of them together imitate it
}

Indices Fitter::within(const Stage& stage, bool at_bound) const {
  Indices found;
  for (const size_t i : stage.chosen) {
    if (is_at_limit(i, stage.state.values[i]) == at_bound) found.push_back(i);
  }
  return found;
}

/// Returns the residuals at the constants' first values, by the stage's linear form.
at::Tensor Fitter::at_start(const Stage& stage) const {
  Values moved;
  const Indices free = within(stage);
  for (const size_t i : free) moved.push_back(std::log(stage.state.values[i] / constants_[i].value));
  return stage.state.residuals + columns(stage.sensitivities, free).mv(column(moved));
}

at::Tensor Fitter::differences_without(const Stage& stage, size_t row) const {
  return least_squares(without_row(columns(stage.sensitivities, within(stage)), row),
                       without_row(at_start(stage), row));
}

void Fitter::complete(Stage& stage) const {
  stage.sensitivities = sensitivities(stage.state, effective());
  const at::Tensor free = columns(stage.sensitivities, within(stage)), right = at_start(stage);
  const Values leverages = list_of((free * at::linalg_pinv(free, kSingular).t()).sum(1));
  Values errors;
  for (size_t row = 0; row < rows(); ++row) {
    if (leverages[row] > kAlone) continue;
    errors.push_back((right[int64_t(row)] - free[int64_t(row)].dot(differences_without(stage, row))).item<double>());
  }
  stage.unseen = errors.empty() ? std::numeric_limits<double>::infinity() : root_mean_square(errors);
}

Values Fitter::left_out(const Stage& stage) const {
  if (rows() < kRowsToLeaveOut) return {};
  const Indices free = within(stage);
  Values predicted;
  for (size_t row = 0; row < rows(); ++row) {
    const Values differences = list_of(differences_without(stage, row));
    Values values = stage.state.values;
    for (size_t f = 0; f < free.size(); ++f) {
      const FreeConstant& known = constants_[free[f]];
      values[free[f]] = std::clamp(known.value * std::exp(differences[f]), known.least, known.most);
    }
    predicted.push_back(seconds_(row, values));
  }
  return predicted;
}

State Fitter::with_effect(const Stage& last, size_t constant) const {
  State best = last.state;
  const FreeConstant& known = constants_[constant];
  for (const double direction : {kFarStep, 1 / kFarStep}) {
    Values values = last.state.values;
    for (int step = 0; step < kFarSteps; ++step) {
      values[constant] = std::clamp(values[constant] * direction, known.least, known.most);
      State far = at(values);
      if (far.cost() > best.cost()) break;
      best = std::move(far);
    }
  }
  return best;
}

double Fitter::promise(const Stage& last, const State& state, size_t constant) const {
  Indices all = last.chosen;
  all.push_back(constant);
  const at::Tensor there = state.values == last.state.values ? last.sensitivities : sensitivities(state, all);
  const double step = least_squares(columns(there, all), state.residuals)[-1].item<double>();
  const FreeConstant& known = constants_[constant];
  const double value = state.values[constant];
  const double possible = std::clamp(step, std::log(known.least / value), std::log(known.most / value));
  const at::Tensor rest = state.residuals - possible * there.select(1, int64_t(constant));
  const at::Tensor others = columns(there, last.chosen);
  Values values = state.values;
  values[constant] *= std::exp(possible);
  return with_changes(length_of(rest - others.mv(least_squares(others, rest))), values);
}

double Fitter::with_changes(double cost, const Values& values) const {
  double changes = 0;
  for (size_t i = 0; i < values.size(); ++i) changes += std::pow(std::log(values[i] / constants_[i].value), 2);
  return std::hypot(cost, kUsualError / kUsualChange * std::sqrt(changes));
}

std::optional<State> Fitter::tried(const Stage& last, State state, size_t constant) const {
  Stage trial{.chosen = last.chosen, .state = std::move(state), .sensitivities = {}};
  trial.chosen.push_back(constant);
  trial.state = fit(trial.state, trial.chosen, sensitivities(trial.state, trial.chosen), kTrialRounds);
  const at::Tensor there = sensitivities(trial.state, trial.chosen);
  const Indices free = within(trial);
  for (const size_t i : free) {
    Indices others;
    std::copy_if(free.begin(), free.end(), std::back_inserter(others), [&](size_t other) { return other != i; });
    if (!own(there, others, i).is_enough()) return std::nullopt;
  }
  return trial.state;
}

std::optional<Stage> Fitter::next(const Stage& last) const {
  struct Candidate {
    size_t constant = 0;
    State state;
    double promise = 0;
  };
  std::vector<Candidate> candidates;
  for (const size_t i : effective()) {
    if (std::count(last.chosen.begin(), last.chosen.end(), i)) continue;
    State state = with_effect(last, i);
    const double promised = promise(last, state, i);
    candidates.push_back({.constant = i, .state = std::move(state), .promise = promised});
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.promise < b.promise; });
  std::optional<State> best;
  bool best_at_limit = false;
  size_t chosen = 0, trials = 0;
  for (Candidate& candidate : candidates) {
    if (trials == kTrials) break;
    const size_t i = candidate.constant;
    std::optional<State> state = tried(last, std::move(candidate.state), i);
    if (!state || !(state->cost() < last.state.cost())) continue;
    const bool at_limit = is_at_limit(i, state->values[i]);
    if (at_limit && (!last.chosen.empty() || (best && !best_at_limit))) continue;
    ++trials;
    const bool is_better = !best || (best_at_limit && !at_limit) ||
                           with_changes(state->cost(), state->values) < with_changes(best->cost(), best->values);
    if (!is_better) continue;
    best = std::move(state);
    best_at_limit = at_limit;
    chosen = i;
  }
  if (!best) return std::nullopt;
  Stage next{.chosen = last.chosen, .state = {}, .sensitivities = {}};
  next.chosen.push_back(chosen);
  next.state = fit(*best, next.chosen, sensitivities(*best, next.chosen), kRounds);
  return next;
}

Stage Fitter::swapped(Stage stage) const {
  const Indices early(stage.chosen.begin(), stage.chosen.end() - 1);
  for (const size_t i : early) {
    Stage less{.chosen = stage.chosen, .state = {}, .sensitivities = {}};
    std::erase(less.chosen, i);
    Values values = stage.state.values;
    values[i] = constants_[i].value;
    less.state = at(std::move(values));
    less.state = fit(less.state, less.chosen, sensitivities(less.state, less.chosen), kTrialRounds);
    less.sensitivities = sensitivities(less.state, effective());
    std::optional<Stage> other = next(less);
    if (!other) continue;
    const double now = with_changes(stage.state.cost(), stage.state.values);
    if (with_changes(other->state.cost(), other->state.values) < kClearly * now) stage = std::move(*other);
  }
  return stage;
}

std::vector<Stage> Fitter::path(size_t most) {
  std::vector<Stage> stages(1);
  stages.front().state = start_;
  stages.front().sensitivities = sensitivities(start_, effective());
  drop_ineffective(stages.front().sensitivities);
  for (size_t worse = 0; stages.back().chosen.size() < most && worse < kWorse;) {
    const Stage& last = stages.back();
    if (last.state.cost() / std::sqrt(double(rows())) < kExplained && !last.chosen.empty()) break;
    std::optional<Stage> next = this->next(last);
    if (!next) break;
    if (next->state.cost() > kSmall) next = swapped(std::move(*next));
    complete(*next);
    worse = stages.size() > 1 && next->unseen > last.unseen ? worse + 1 : 0;
    stages.push_back(std::move(*next));
  }
  return stages;
}

std::vector<FittedConstant> Fitter::fitted(const Stage& stage) const {
  const Indices free = within(stage);
  const at::Tensor matrix = columns(stage.sensitivities, free);
  const at::Tensor weights = at::linalg_pinv(matrix, kSingular);  // [constants, rows]
  std::optional<double> scatter;
  if (rows() > free.size()) scatter = stage.state.cost() / std::sqrt(double(rows() - free.size()));
  std::vector<FittedConstant> all;
  for (const size_t i : stage.chosen) {
    FittedConstant& one = all.emplace_back(FittedConstant{.constant = i, .error = {}, .weights = Values(rows(), 0.0)});
    const auto place = std::find(free.begin(), free.end(), i);
    one.is_at_bound = place == free.end();
    if (one.is_at_bound) continue;
    const at::Tensor own = weights[place - free.begin()];
    one.weights = list_of(own);
    if (scatter) one.error = *scatter * length_of(own);
  }
  return all;
}

std::vector<LeftConstant> Fitter::left(const Stage& stage, size_t most) const {
  std::vector<LeftConstant> all;
  for (size_t i = 0; i < constants_.size(); ++i) {
    if (std::count(stage.chosen.begin(), stage.chosen.end(), i)) continue;
    const at::Tensor whole = stage.sensitivities.select(1, int64_t(i));
    LeftConstant& one = all.emplace_back(LeftConstant{.constant = i, .others = {}});
    one.sensitivity = whole.abs().max().item<double>();
    if (ineffective_[i] || one.sensitivity == 0) continue;
    const Own part = own(stage.sensitivities, stage.chosen, i);
    if (length_of(whole) < kLeastNorm) one.reason = LeftOut::little_effect;
    else if (!part.is_enough()) one.reason = LeftOut::alike;
    else one.reason = stage.chosen.size() >= most ? LeftOut::too_few_rows : LeftOut::no_better;
    if (one.reason == LeftOut::alike) one.others = imitators(stage.sensitivities, stage.chosen, i);
  }
  return all;
}

/// Returns the fit with the fewest constants that predicts left-out rows about as well as the best fit.
const Stage& chosen_stage(const std::vector<Stage>& stages, size_t rows, const CalibrationRules& rules) {
  if (stages.size() == 1 || rules.all || rows < kRowsToLeaveOut) return stages.back();
  double least = stages[1].unseen;
  for (size_t k = 2; k < stages.size(); ++k) least = std::min(least, stages[k].unseen);
  for (size_t k = 1; k < stages.size(); ++k)
    if (stages[k].unseen <= kAsGood * least + kRounding) return stages[k];
  return stages.back();
}

}  // namespace

CalibrationFit calibrate(const std::vector<FreeConstant>& constants, const std::vector<double>& measured,
                         const RowSeconds& seconds, const CalibrationRules& rules) {
  check_internal(!measured.empty() && !constants.empty(), "a calibration has rows and constants");
  const size_t rows = measured.size(), most = rules.all || rows == 1 ? rows : rows - 1;
  Fitter fitter(constants, measured, seconds);
  const std::vector<Stage> stages = fitter.path(most);
  const Stage& stage = chosen_stage(stages, rows, rules);
  return {.values = stage.state.values,
          .before = fitter.start().predicted,
          .after = stage.state.predicted,
          .left_out = fitter.left_out(stage),
          .fitted = fitter.fitted(stage),
          .left = fitter.left(stage, most)};
}

}  // namespace trireme
