#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "plan/named.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Returns the first j in [low, high] that minimises max(before[j], last(j)). before[j] must not decrease with j,
/// last(j) must not increase.
template <class Last>
int least_cut(int low, int high, const std::vector<double>& before, const Last& last) {
  const auto first_where = [&](const auto& holds) {  // first j that `holds`, as do all later j; high + 1: none
    int begin = low, end = high + 1;
    while (begin < end) {
      const int middle = begin + (end - begin) / 2;
      if (holds(middle)) end = middle;
      else begin = middle + 1;
    }
    return begin;
  };
  const int crossing = first_where([&](int j) { return before[size_t(j)] >= last(j); });
  double least = kNever;
  for (const int j : {crossing - 1, crossing})
    if (j >= low && j <= high) least = std::min(least, std::max(before[size_t(j)], last(j)));
  return first_where([&](int j) { return last(j) <= least; });
}

}  // namespace

std::vector<int> balance_stages(const Model& model, int stages, const LayerSeconds& seconds,
                                const std::vector<double>& speeds) {
  const int first = model.input_count(), layers = int(model.nodes().size()) - first;
  if (stages > layers)
    fail_user({"plan", fmt::format("{} pipeline stages", stages),
               fmt::format("model {} has only {} layers", model.name(), layers), "use fewer stages"});
  std::vector<int> stage_of(size_t(first), 0);
  const std::vector<int> balanced =
      balance({seconds.begin() + first, seconds.begin() + first + layers}, stages, speeds);
  stage_of.insert(stage_of.end(), balanced.begin(), balanced.end());
  return stage_of;
}

std::vector<int> balance(const std::vector<double>& seconds, int stages, const std::vector<double>& speeds) {
  const int layers = int(seconds.size());
  check_internal(stages >= 1 && stages <= layers, "each stage has an item");
  std::vector<double> sum(size_t(layers) + 1, 0.0);
  for (int i = 0; i < layers; ++i) sum[size_t(i) + 1] = sum[size_t(i)] + seconds[size_t(i)];

  // best[s][i]: the smallest possible maximum stage time when the first i layers form s stages; cut[s][i]: the first
  // layer of the last of these stages
  const bool equal = std::adjacent_find(speeds.begin(), speeds.end(), std::not_equal_to<>()) == speeds.end();
  std::vector<std::vector<double>> best(size_t(stages) + 1, std::vector<double>(size_t(layers) + 1, kNever));
  std::vector<std::vector<int>> cut(size_t(stages) + 1, std::vector<int>(size_t(layers) + 1, 0));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s) {
    const double speed = speeds.empty() ? 1 : speeds[size_t(s) - 1];
    const std::vector<double>& before = best[size_t(s) - 1];
    for (int i = s; i <= layers; ++i) {
      const auto last = [&](int j) { return (sum[size_t(i)] - sum[size_t(j)]) / speed; };
      const auto value = [&](int j) { return std::max(before[size_t(j)], last(j)); };
      int first_cut = s - 1;
      for (int j = s - 1; j < i && !equal; ++j)
        if (value(j) < value(first_cut)) first_cut = j;
      if (equal) first_cut = least_cut(s - 1, i - 1, before, last);
      best[size_t(s)][size_t(i)] = value(first_cut);
      cut[size_t(s)][size_t(i)] = first_cut;
    }
  }

  std::vector<int> stage_of(seconds.size(), 0);
  for (int s = stages, end = layers; s > 0; --s) {
    int begin = cut[size_t(s)][size_t(end)];
    for (int i = begin; i < end; ++i) stage_of[size_t(i)] = s - 1;
    end = begin;
  }
  return stage_of;
}

}  // namespace trireme
