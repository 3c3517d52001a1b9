#include "trireme/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "trireme/error.h"

namespace trireme {

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string to_string(const Placement& placement) {
  if (placement.is_replicate()) return "Replicate";
  if (placement.is_partial()) return "Partial";
  return fmt::format("Shard({})", placement.dim);
}

Range share_of(int64_t length, int parts, int index) {
  const int64_t small = length / parts;
  const int64_t larger = length % parts;  // this many parts have one element more
  const int64_t begin = small * index + std::min<int64_t>(index, larger);
  return {begin, begin + small + (index < larger ? 1 : 0)};
}

Range share_of(int64_t length, const std::vector<double>& weights, int index) {
  double before = 0, total = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    total += weights[i];
    if (i < size_t(index)) before += weights[i];
  }
  const auto edge = [&](double sum) { return int64_t(std::llround(double(length) * sum / total)); };
  return {edge(before), size_t(index) + 1 == weights.size() ? length : edge(before + weights[size_t(index)])};
}

Box whole(const Shape& shape) {
  Box box;
  for (const int64_t length : shape) box.push_back({0, length});
  return box;
}

Box intersect(const Box& a, const Box& b) {
  check_internal(a.size() == b.size(), "boxes of one tensor have the same number of dims");
  Box box;
  for (size_t d = 0; d < a.size(); ++d) {
    const int64_t begin = std::max(a[d].begin, b[d].begin);
    box.push_back({begin, std::max(begin, std::min(a[d].end, b[d].end))});
  }
  return box;
}

// A tensor without dims has one element. Its box, without ranges, is not empty.
bool is_empty(const Box& box) {
  return std::any_of(box.begin(), box.end(), [](const Range& range) { return range.empty(); });
}

Shape shape_of(const Box& box) {
  Shape shape;
  for (const Range& range : box) shape.push_back(range.size());
  return shape;
}

Box relative_to(const Box& inner, const Box& outer) {
  check_internal(inner.size() == outer.size(), "boxes of one tensor have the same number of dims");
  Box box;
  for (size_t d = 0; d < inner.size(); ++d)
    box.push_back({inner[d].begin - outer[d].begin, inner[d].end - outer[d].begin});
  return box;
}

int Mesh::index_of(int worker) const {
  // Workers are usually consecutive numbers, so the first guess saves a search among possibly thousands.
  const int64_t guess = workers.empty() ? -1 : int64_t{worker} - workers.front();
  if (guess >= 0 && guess < int64_t(workers.size()) && workers[size_t(guess)] == worker) return int(guess);
  const auto place = std::find(workers.begin(), workers.end(), worker);
  return place == workers.end() ? -1 : static_cast<int>(place - workers.begin());
}

std::vector<int> Mesh::data_group(int worker) const {
  std::vector<int> group;
  const int own = tensor_index(worker);
  for (int d = 0; d < data; ++d) group.push_back(workers[d * tensor + own]);
  return group;
}

std::vector<int> Mesh::tensor_group(int worker) const {
  std::vector<int> group;
  const int own = data_index(worker);
  for (int t = 0; t < tensor; ++t) group.push_back(workers[own * tensor + t]);
  return group;
}

Box Layout::box_of(int worker, const Shape& shape) const {
  if (mesh.index_of(worker) < 0)
    check_internal(false, fmt::format("worker {} is not in layout {}", worker, to_string(*this)));
  if (data.is_shard() && tensor.is_shard() && data.dim == tensor.dim)
    check_internal(false, fmt::format("both axes of {} shard dim {}", to_string(*this), data.dim));
  Box box = whole(shape);
  const auto shard = [&](const Placement& placement, int parts, int index, const std::vector<double>& shares) {
    if (!placement.is_shard()) return;
    if (placement.dim < 0 || placement.dim >= static_cast<int>(shape.size()))
      check_internal(false, fmt::format("{} does not fit shape {}", to_string(*this), to_string(shape)));
    box[placement.dim] =
        shares.empty() ? share_of(shape[placement.dim], parts, index) : share_of(shape[placement.dim], shares, index);
  };
  shard(data, mesh.data, mesh.data_index(worker), mesh.shares);
  shard(tensor, mesh.tensor, mesh.tensor_index(worker), {});
  return box;
}

std::string to_string(const Layout& layout) {
  return fmt::format("[{}, {}] on {}x{}", to_string(layout.data), to_string(layout.tensor), layout.mesh.data,
                     layout.mesh.tensor);
}

}  // namespace trireme
