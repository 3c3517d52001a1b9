#include <fmt/format.h>

#include <limits>

#include "plan/named.h"
#include "trireme/error.h"

namespace trireme {

std::vector<int> balance_stages(const Model& model, int stages, const LayerSeconds& seconds,
                                const std::vector<double>& speeds) {
  const int first = model.input_count(), layers = int(model.nodes().size()) - first;
  if (stages > layers)
    fail_user({"plan", fmt::format("{} pipeline stages", stages),
               fmt::format("model {} has only {} layers", model.name(), layers), "use fewer stages"});
  std::vector<double> sum(size_t(layers) + 1, 0.0);
  for (int i = 0; i < layers; ++i) sum[size_t(i) + 1] = sum[size_t(i)] + seconds[size_t(first + i)];

  // best[s][i]: the smallest possible maximum stage time when the first i layers form s stages; cut[s][i]: the first
  // layer of the last of these stages
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(size_t(stages) + 1, std::vector<double>(size_t(layers) + 1, kNever));
  std::vector<std::vector<int>> cut(size_t(stages) + 1, std::vector<int>(size_t(layers) + 1, 0));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s)
    for (int i = s; i <= layers; ++i)
      for (int j = s - 1; j < i; ++j) {
        const double speed = speeds.empty() ? 1 : speeds[size_t(s) - 1];
        double value = std::max(best[size_t(s) - 1][size_t(j)], (sum[size_t(i)] - sum[size_t(j)]) / speed);
        if (value < best[size_t(s)][size_t(i)]) {
          best[size_t(s)][size_t(i)] = value;
          cut[size_t(s)][size_t(i)] = j;
        }
      }

  std::vector<int> stage_of(model.nodes().size(), 0);
  for (int s = stages, end = layers; s > 0; --s) {
    int begin = cut[size_t(s)][size_t(end)];
    for (int i = begin; i < end; ++i) stage_of[size_t(first + i)] = s - 1;
    end = begin;
  }
  return stage_of;
}

}  // namespace trireme
